// explain mma KIND mMnNkK with M of 64, 128 or 256: where tcgen05.mma has its matrices and scales:
// bytes of shared memory, lanes and columns of tensor memory.
#include "explain_tcgen05.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "console.hpp"
#include "emulator/tensor/matrix_descriptor.hpp"
#include "emulator/tensor/tcgen05.hpp"
#include "emulator/tensor/tensor_fragments.hpp"
#include "microscale/error.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

using namespace emulator::tensor;
using Json = nlohmann::ordered_json;

/// One instruction: its name, the words of its descriptors.
struct Tcgen05Maps {
  std::string instruction;
  Tcgen05Shape shape;
  std::uint32_t descriptor = 0;
  MatrixDescriptor matrix;  // of a K-major matrix at byte 0, 128 bytes of K a row, swizzled
  int blocks = 1;
};

Error wrong(const std::string& what) { return Error(ErrorCode::invalid_argument, what); }

Tcgen05Kind kind_from(const std::string& word) {
  if (word == "f16" || word == "bf16") return Tcgen05Kind::f16;
  if (word == "tf32") return Tcgen05Kind::tf32;
  if (word == "f8f6f4") return Tcgen05Kind::f8f6f4;
  if (word == "mxf8f6f4") return Tcgen05Kind::mxf8f6f4;
  if (word == "mxf4") return Tcgen05Kind::mxf4;
  if (word == "mxf4nvf4") return Tcgen05Kind::mxf4nvf4;
  throw wrong(
      fmt::format("tcgen05.mma has no kind '{}'; choose one of f16, bf16, tf32, f8f6f4, "
                  "mxf8f6f4, mxf4, mxf4nvf4",
                  word));
}

/// The code that the descriptor has for an element.
std::uint32_t code_of(Tcgen05Kind kind, const std::string& element) {
  if (is_packed_fp4(kind) && element == "e2m1") return 1;
  if (kind == Tcgen05Kind::tf32 && element == "tf32") return 2;
  if (kind == Tcgen05Kind::f16 && (element == "f16" || element == "bf16")) return element == "bf16";
  constexpr std::string_view small[] = {"e4m3", "e5m2", "", "e2m3", "e3m2", "e2m1"};
  const auto found = std::find(std::begin(small), std::end(small), element);
  if (kind >= Tcgen05Kind::f8f6f4 && !is_packed_fp4(kind) && found != std::end(small))
    return static_cast<std::uint32_t>(found - std::begin(small));
  throw wrong(fmt::format("this kind of tcgen05.mma has no elements '{}'", element));
}

Tcgen05Maps maps_from(const std::string& kind_word, const std::string& size,
                      const std::string& elements) {
  int m = 0, n = 0, k = 0;
  char rest = 0;
  if (std::sscanf(size.c_str(), "m%dn%dk%d%c", &m, &n, &k, &rest) != 3 || n % 8 != 0 || n < 8 ||
      n > 256)
    throw wrong(fmt::format("'{}' is no shape of tcgen05.mma, as m128n64k64 is", size));
  Tcgen05Maps maps;
  const Tcgen05Kind kind = kind_from(kind_word);
  const bool scaled = is_block_scaled(kind);
  std::string a = scaled || kind == Tcgen05Kind::f8f6f4 ? "e2m1" : kind_word, b = a;
  if (!elements.empty()) {
    const std::size_t comma = elements.find(',');
    a = elements.substr(0, comma);
    b = comma == std::string::npos ? a : elements.substr(comma + 1);
  }
  maps.blocks = m == 256 ? 2 : 1;
  const Tcgen05Name name{kind, maps.blocks,
                         kind == Tcgen05Kind::mxf4nvf4 ? 16
                         : scaled                      ? 32
                                                       : 0,
                         false};
  const auto u = [](int value) { return static_cast<std::uint32_t>(value); };
  maps.descriptor = code_of(kind, a) << 7 | code_of(kind, b) << 10 | u(n / 8) << 17;
  maps.descriptor |= scaled ? u(m / 128) << 27 | u(kind != Tcgen05Kind::mxf4nvf4) << 23
                            : u(m / 16) << 24 | 1u << 4;
  const Tcgen05Problem problem = read_instruction_descriptor(maps.descriptor, name, maps.shape);
  if (!problem.what.empty()) throw wrong(fmt::format("{}: it {}", size, problem.what));
  if (maps.shape.k != k) throw wrong(fmt::format("K of this kind is {}, not {}", maps.shape.k, k));
  maps.instruction = fmt::format(
      "tcgen05.mma.cta_group::{}.kind::{}{}", maps.blocks, kind_word == "bf16" ? "f16" : kind_word,
      scaled ? fmt::format(".block_scale.block{}", name.scale_block) : "");
  maps.matrix = {0, 16, 1024, 0, Swizzle::bytes128};
  return maps;
}

/// Elements along K that 16 bytes of shared memory hold.
int chunk_elements(const Tcgen05Maps& maps) { return maps.shape.k / 2; }

/// Scales as the table of a block of 128 rows: lane by column.
struct ScaleWord {
  std::uint32_t lane, column;
  int row, byte, block;
};
std::vector<ScaleWord> scale_words(const Tcgen05Maps& maps, int rows) {
  std::vector<ScaleWord> words;
  for (int row = 0; row < rows; ++row)
    for (int block = 0; block < maps.shape.scale_vector; ++block)
      words.push_back({static_cast<std::uint32_t>(row % 32), static_cast<std::uint32_t>(row / 32),
                       row, block, block});
  return words;
}

Json to_json(const Tcgen05Maps& maps) {
  const Tcgen05Shape& s = maps.shape;
  const int rows = s.m / maps.blocks, columns = s.n / maps.blocks;
  Json json = {{"instruction", maps.instruction},
               {"m", s.m},
               {"n", s.n},
               {"k", s.k},
               {"a_elements", name_of(s.a)},
               {"b_elements", name_of(s.b)},
               {"instruction_descriptor", maps.descriptor},
               {"matrix_descriptor", tcgen05_descriptor_bits(maps.matrix)}};
  const auto matrix = [&](int lines, const char* line_name) {
    Json list = Json::array();
    for (int line = 0; line < lines; ++line)
      for (int chunk = 0; chunk < 2; ++chunk)
        list.push_back({{"byte", k_major_chunk(maps.matrix, static_cast<std::uint32_t>(line),
                                               static_cast<std::uint32_t>(chunk))},
                        {line_name, line},
                        {"k", chunk * chunk_elements(maps)},
                        {"elements", chunk_elements(maps)}});
    return list;
  };
  json["a"] = matrix(rows, "row");
  json["b"] = matrix(columns, "column");
  Json d = Json::array();
  for (int row = 0; row < rows; ++row)
    d.push_back({{"row", row}, {"lane", product_lane(rows, row)}, {"columns", s.n}});
  json["d"] = std::move(d);
  if (s.scale_vector == 0) return json;
  const auto scales = [&](int count, const char* line_name) {
    Json list = Json::array();
    for (const ScaleWord& word : scale_words(maps, count))
      list.push_back({{"lane", word.lane},
                      {"column", word.column},
                      {"byte", word.byte},
                      {line_name, word.row},
                      {"block", word.block}});
    return list;
  };
  json["scales_a"] = scales(rows, "row");
  json["scales_b"] = scales(s.n, "column");
  return json;
}

/// Eight rows by eight chunks of 16 bytes: what the first 1024 bytes hold, step by step along K.
Table shared_table(const Tcgen05Maps& maps) {
  std::vector<Column> columns = {{"byte", Align::right}};
  for (int chunk = 0; chunk < 8; ++chunk)
    columns.push_back({fmt::format("+{}", 16 * chunk), Align::right});
  Table table(columns);
  for (std::uint32_t row = 0; row < 8; ++row) {
    std::vector<std::string> cells(9);
    cells[0] = std::to_string(128 * row);
    for (std::uint32_t chunk = 0; chunk < 8; ++chunk) {
      const std::uint32_t byte = k_major_chunk(maps.matrix, row, chunk);
      const int first = static_cast<int>(chunk) * chunk_elements(maps);
      cells[1 + byte % 128 / 16] =
          fmt::format("{}: {}-{}", row, first, first + chunk_elements(maps) - 1);
    }
    table.add_row(std::move(cells));
  }
  return table;
}

Table scale_table(const Tcgen05Maps& maps, int rows) {
  const int columns = (rows + 31) / 32;
  std::vector<Column> heads = {{"lane", Align::right}};
  for (int column = 0; column < columns; ++column)
    heads.push_back({fmt::format("column +{}", column), Align::right});
  Table table(heads);
  const int last = maps.shape.scale_vector - 1;
  for (int lane = 0; lane < std::min(rows, 32); ++lane) {
    std::vector<std::string> cells = {std::to_string(lane)};
    for (int column = 0; column < columns; ++column) {
      const int row = 32 * column + lane;
      cells.push_back(row >= rows ? "-"
                      : last == 0 ? fmt::format("{}: 0", row)
                                  : fmt::format("{}: 0-{}", row, last));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

void print(const Tcgen05Maps& maps, Console& console) {
  const Tcgen05Shape& s = maps.shape;
  const auto say = [&](const std::string& text) {
    console.print(paragraph(text, console.out.width));
  };
  const auto heading = [&](const std::string& text) {
    console.print("\n" + console.bold(paragraph(text, console.out.width)));
  };
  const int rows = s.m / maps.blocks;
  console.print(console.bold(paragraph(
      fmt::format("{}, M {}, N {}, K {}", maps.instruction, s.m, s.n, s.k), console.out.width)));
  say("By the formulas of the PTX ISA. Modelled: not measured on silicon.");
  say(fmt::format(
      "Instruction descriptor {:#010x}; shared memory descriptor of a K-major matrix at "
      "byte 0 with 128 bytes of K a row, swizzled: {:#018x}; the next step along K "
      "begins 32 bytes further on, 2 more in the descriptor.",
      maps.descriptor, tcgen05_descriptor_bits(maps.matrix)));
  if (maps.blocks == 2)
    say(fmt::format("Two blocks: each has {} rows of A, {} columns of B, and D of its rows.", rows,
                    s.n / 2));
  heading(fmt::format("A, {} x {} {}, and B, {} x {} {}, in shared memory: row or column: k", s.m,
                      s.k, name_of(s.a), s.n, s.k, name_of(s.b)));
  say("The first 1024 bytes, which four steps along K share; eight rows or columns more follow "
      "1024 "
      "bytes on.");
  console.print(shared_table(maps).text(console.out));
  heading(fmt::format("D, {} x {} f32, in tensor memory", s.m, s.n));
  say(rows == 64
          ? "Row m in lane 32 (m / 16) + m % 16, column n in column +n."
          : "Row m in lane m, column n in column +n; a warp w loads lanes 32 (w % 4) to 32 (w % "
            "4) + 31.");
  if (s.scale_vector == 0) return;
  const char* again =
      "The same in lanes + 32, + 64 and + 96, as tcgen05.cp.32x128b.warpx4 puts them; "
      "the scale id of the descriptor is the first byte.";
  heading(fmt::format("scales of A, {}, a column of 4 bytes: row: blocks of {} along k",
                      name_of(s.scale), s.k / s.scale_vector));
  say(again);
  console.print(scale_table(maps, rows).text(console.out));
  heading(fmt::format("scales of B, {}: column: blocks of {} along k", name_of(s.scale),
                      s.k / s.scale_vector));
  console.print(scale_table(maps, s.n).text(console.out));
}

}  // namespace

bool is_tcgen05_shape(const std::string& size) {
  return size.rfind("m64", 0) == 0 || size.rfind("m128", 0) == 0 || size.rfind("m256", 0) == 0;
}

void explain_tcgen05(const std::string& kind, const std::string& size, const std::string& elements,
                     Console& console) {
  const Tcgen05Maps maps = maps_from(kind, size, elements);
  if (console.json)
    console.print_json(to_json(maps));
  else
    print(maps, console);
}

}  // namespace microscale
