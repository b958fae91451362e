// explain mma KIND SHAPE: which lane, register and byte of mma.sync holds which element, which lane
// and byte supplies which scale.
#include "explain_mma.hpp"
#include "explain_tcgen05.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "checkpoint/named_file.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "kernel_commands.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

namespace tensor = emulator::tensor;
using tensor::Kind, tensor::MmaShape, tensor::Operand, tensor::Probed, tensor::ScaleSelector;

constexpr std::array<std::string_view, 10> kinds = {
    "f16", "bf16", "tf32", "s8", "e4m3", "e5m2", "f8f6f4", "mxf8f6f4", "mxf4", "mxf4nvf4"};

int count_of(int differences_of, const std::vector<Probed>& a, const std::vector<Probed>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) differences_of += !(a[i] == b[i]);
  return differences_of;
}

/// "row 3: k 8-15" of one register of A; the items of a register are neighbours along K.
std::string run_text(const Probed& first, const Probed& last, bool row_is_k) {
  const int line = row_is_k ? first.at.column : first.at.row;
  const int from = row_is_k ? first.at.row : first.at.column;
  const int to = row_is_k ? last.at.row : last.at.column;
  return from == to ? fmt::format("{}: {}", line, from) : fmt::format("{}: {}-{}", line, from, to);
}

/// A row a lane, a column a register.
Table fragment_table(const std::vector<Probed>& map, int items, char operand) {
  const int registers = static_cast<int>(map.size()) / (32 * items);
  std::vector<Column> columns = {{"lane", Align::right}};
  for (int reg = 0; reg < registers; ++reg)
    columns.push_back({fmt::format("{}{}", operand, reg), Align::right});
  Table table(columns);
  for (int lane = 0; lane < 32; ++lane) {
    std::vector<std::string> cells = {std::to_string(lane)};
    for (int reg = 0; reg < registers; ++reg) {
      const auto at = static_cast<std::size_t>((lane * registers + reg) * items);
      const auto last = at + static_cast<std::size_t>(items) - 1;
      cells.push_back(run_text(map[at], map[last], operand == 'b'));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

Table scale_table(const std::vector<Probed>& map, bool of_a) {
  std::vector<Column> columns = {{"lane", Align::right}};
  for (int byte = 0; byte < 4; ++byte)
    columns.push_back({fmt::format("byte {}", byte), Align::right});
  Table table(columns);
  for (int lane = 0; lane < 32; ++lane) {
    std::vector<std::string> cells = {std::to_string(lane)};
    for (int byte = 0; byte < 4; ++byte) {
      const Probed& entry = map[static_cast<std::size_t>(4 * lane + byte)];
      const int line = of_a ? entry.at.row : entry.at.column;
      const int chunk = of_a ? entry.at.column : entry.at.row;
      cells.push_back(entry.at.row < 0 ? "-" : fmt::format("{}: {}", line, chunk));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

std::string container_text(const MmaShape& shape, Operand type) {
  const int bits = container_bits(shape.kind, type);
  if (type == Operand::e2m1 && bits == 8)
    return "the 4-bit code in bits 5-2 of a byte, 0 around it";
  if (padding_mask(shape.kind, type) != 0)
    return "the 6-bit code in bits 5-0 of a byte, 0 above it";
  return fmt::format("{} bits each, lowest first", bits);
}

void print_maps(const MmaMaps& maps, Console& console) {
  const MmaShape& s = maps.shape;
  const auto heading = [&](const std::string& text) {
    console.print("\n" + console.bold(paragraph(text, console.out.width)));
  };
  console.print(console.bold(paragraph(spelling(s), console.out.width)));
  std::string origin = "By the formulas of the PTX ISA; --probe derives it by running.";
  if (maps.probed)
    origin = fmt::format(
        "Probed: the emulator ran it with one element at a time; {} slots disagree "
        "with the formulas.",
        maps.disagreements);
  if (s.kind != Kind::plain) origin += " Modelled: not measured on silicon.";
  console.print(paragraph(origin, console.out.width));
  heading(fmt::format("A, {} x {} {}: row: k", s.m, s.k, name_of(s.a)));
  console.print(paragraph(container_text(s, s.a), console.out.width, 3));
  console.print(fragment_table(maps.a, items_of(maps, 'a'), 'a').text(console.out));
  heading(fmt::format("B, {} x {} {}: column: k", s.k, s.n, name_of(s.b)));
  console.print(paragraph(container_text(s, s.b), console.out.width, 3));
  console.print(fragment_table(maps.b, items_of(maps, 'b'), 'b').text(console.out));
  heading(fmt::format("C and D, {} x {} {}: row: column", s.m, s.n, name_of(s.d)));
  console.print(fragment_table(maps.d, items_of(maps, 'd'), 'd').text(console.out));
  if (s.scale_vector == 0) return;
  const int chunk = s.k / s.scale_vector;
  const auto selector = [](ScaleSelector select) {
    return fmt::format("byte-id {}, thread-id {}", select.byte, select.thread);
  };
  heading(fmt::format("scales of A, {}: row: block of {} along k ({})", name_of(s.scale), chunk,
                      selector(maps.select_a)));
  console.print(scale_table(maps.scales_a, true).text(console.out));
  heading(fmt::format("scales of B, {}: column: block of {} along k ({})", name_of(s.scale), chunk,
                      selector(maps.select_b)));
  console.print(scale_table(maps.scales_b, false).text(console.out));
}

ScaleSelector selector_from(const std::string& option, const std::string& text) {
  if (text.empty()) return {};
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} takes a byte and a thread, as in 2,1; got '{}'", option, text));
  return {static_cast<int>(integer_from(option, text.substr(0, comma), 0, 3)),
          static_cast<int>(integer_from(option, text.substr(comma + 1), 0, 3))};
}

MmaShape shape_from(const std::string& kind, const std::string& size, const std::string& elements) {
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    const std::vector<std::string> names(kinds.begin(), kinds.end());
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no kind '{}'{}; choose one of {}", kind, did_you_mean(kind, names),
                            fmt::join(kinds, ", ")));
  }
  const bool plain = kind.find('f') == 0 ? kind == "f16" : kind.rfind("mx", 0) != 0;
  std::string a = plain ? kind : "e2m1", b = a;
  if (!elements.empty()) {
    const std::size_t comma = elements.find(',');
    a = elements.substr(0, comma);
    b = comma == std::string::npos ? a : elements.substr(comma + 1);
  }
  const std::string result = kind == "s8" ? "s32" : "f32", named = "kind::" + kind;
  std::vector<std::string_view> words = {size, "row", "col"};
  if (!plain) words.push_back(named);
  if (kind.rfind("mx", 0) == 0) words.push_back("block_scale");
  if (kind == "mxf4nvf4") words.push_back("scale_vec::4X");
  words.insert(words.end(), {result, a, b, result});
  if (kind == "mxf4nvf4") words.push_back("ue4m3");
  if (kind == "mxf8f6f4" || kind == "mxf4") words.push_back("ue8m0");
  const MmaShape shape = tensor::mma_shape(words);
  if (shape.m != 16)
    throw Error(ErrorCode::unsupported,
                fmt::format("explain mma draws products of 16 rows; {} has {}", size, shape.m));
  return shape;
}

ExplainMmaCommand command_from(const std::vector<std::string>& words, const MmaWords& options) {
  if (words.size() != 2)
    throw Error(ErrorCode::invalid_argument,
                "explain mma takes a kind and a shape, as in: explain mma mxf4nvf4 m16n8k64");
  ExplainMmaCommand command;
  command.shape = shape_from(words[0], words[1], options.elements);
  command.select_a = selector_from("--select-a", options.select_a);
  command.select_b = selector_from("--select-b", options.select_b);
  const int scales = command.shape.scale_vector;
  if (scales > 0 ? !valid_a_selector(command.select_a, scales) ||
                       !valid_b_selector(command.select_b, scales)
                 : !(options.select_a + options.select_b).empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{} has no such scale selector: a byte-id is a multiple of its {} scales, "
                    "a thread-id 0-1 for A and 0-3 for B",
                    words[0], scales));
  command.probe = options.probe;
  command.svg = options.svg;
  return command;
}

}  // namespace

int items_of(const MmaMaps& maps, char operand) {
  const MmaShape& s = maps.shape;
  if (operand == 'd') return s.d == tensor::Result::f16 ? 2 : 1;
  return 32 / container_bits(s.kind, operand == 'a' ? s.a : s.b);
}

MmaMaps mma_maps(const ExplainMmaCommand& command) {
  const MmaShape& s = command.shape;
  MmaMaps maps{s,
               command.select_a,
               command.select_b,
               command.probe,
               0,
               map_a(s),
               map_b(s),
               map_d(s),
               map_a_scales(s, command.select_a),
               map_b_scales(s, command.select_b)};
  if (!command.probe) return maps;
  const MmaMaps formulas = maps;
  maps.a = probe_a(s, tensor::Generation::blackwell);
  maps.b = probe_b(s, tensor::Generation::blackwell);
  maps.d = probe_d(s, tensor::Generation::blackwell);
  maps.scales_a = probe_a_scales(s, command.select_a);
  maps.scales_b = probe_b_scales(s, command.select_b);
  int& count = maps.disagreements;
  count = count_of(count, maps.a, formulas.a);
  count = count_of(count, maps.b, formulas.b);
  count = count_of(count, maps.d, formulas.d);
  count = count_of(count, maps.scales_a, formulas.scales_a);
  count = count_of(count, maps.scales_b, formulas.scales_b);
  return maps;
}

nlohmann::ordered_json to_json(const MmaMaps& maps) {
  using Json = nlohmann::ordered_json;
  const MmaShape& s = maps.shape;
  const auto list = [](const std::vector<Probed>& map, const char* row, const char* column,
                       int bits, int shift, int width) {
    Json entries = Json::array();
    for (const Probed& each : map) {
      if (each.at.row < 0) continue;
      entries.push_back({{"lane", each.slot.lane},
                         {"register", each.slot.reg},
                         {"low_bit", bits * each.slot.item + shift},
                         {"bits", width},
                         {row, each.at.row},
                         {column, each.at.column}});
    }
    return entries;
  };
  const auto operand = [&](const std::vector<Probed>& map, const char* row, const char* column,
                           Operand type) {
    const int bits = container_bits(s.kind, type);
    const int width = bits == 8 && type == Operand::e2m1    ? 4
                      : padding_mask(s.kind, type) == 0xC0u ? 6
                                                            : bits;
    return list(map, row, column, bits, container_shift(s.kind, type), width);
  };
  Json json = {{"instruction", spelling(s)},
               {"derived_by", maps.probed ? "probes" : "formulas"},
               {"disagreements", maps.disagreements}};
  json["a"] = operand(maps.a, "row", "k", s.a);
  json["b"] = operand(maps.b, "k", "column", s.b);
  const int result_bits = s.d == tensor::Result::f16 ? 16 : 32;
  json["d"] = list(maps.d, "row", "column", result_bits, 0, result_bits);
  if (s.scale_vector > 0) {
    json["select_a"] = {{"byte", maps.select_a.byte}, {"thread", maps.select_a.thread}};
    json["select_b"] = {{"byte", maps.select_b.byte}, {"thread", maps.select_b.thread}};
    json["scales_a"] = list(maps.scales_a, "row", "block", 8, 0, 8);
    json["scales_b"] = list(maps.scales_b, "block", "column", 8, 0, 8);
  }
  return json;
}

int run_explain_mma(const std::vector<std::string>& words, const MmaWords& options,
                    Console& console) {
  if (words.size() == 2 && is_tcgen05_shape(words[1])) {
    if (options.probe || !(options.select_a + options.select_b + options.svg).empty())
      throw Error(ErrorCode::invalid_argument,
                  "--probe, --select-a, --select-b and --svg are for mma.sync, of 16 rows");
    explain_tcgen05(words[0], words[1], options.elements, console);
    return exit_success;
  }
  const ExplainMmaCommand command = command_from(words, options);
  if (!command.svg.empty()) take(place_of_named_file(command.svg));
  const MmaMaps maps = mma_maps(command);
  if (!command.svg.empty()) take(write_named_file(command.svg, mma_svg(maps)));
  if (console.json)
    console.print_json(to_json(maps));
  else
    print_maps(maps, console);
  return maps.disagreements == 0 ? exit_success : exit_check_failed;
}

}  // namespace microscale
