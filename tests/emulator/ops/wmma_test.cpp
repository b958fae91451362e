// wmma in the machine: every shape, type and layout as PTX against a plain triple loop over small
// whole numbers, whose sums are exact in every type.
#include "emulator/ops/wmma.hpp"

#include <fmt/format.h>

#include <bit>

#include "emulator/run_ptx.hpp"
#include "formats/half.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

struct Case {
  const char* size;
  int m, n, k;
  const char* element;  // of A and B
  const char* c;        // of C
  const char* d;
};

int bits_of_type(const std::string& type) {
  if (type == "b1") return 1;
  if (type == "s4" || type == "u4") return 4;
  if (type == "s8" || type == "u8") return 8;
  if (type == "f16" || type == "bf16") return 16;
  return type == "f64" ? 64 : 32;
}

std::uint64_t code_of(const std::string& type, int value) {
  const auto real = static_cast<float>(value);
  if (type == "f16") return float_to_f16(real);
  if (type == "bf16") return float_to_bf16(real);
  if (type == "f32" || type == "tf32") return std::bit_cast<std::uint32_t>(real);
  if (type == "f64") return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  return static_cast<std::uint64_t>(value);
}

/// A matrix in memory: `ld` elements from one row (or column) to the next.
struct Matrix {
  int rows, columns;
  bool column_major;
  std::string type;
  std::vector<std::uint32_t> words;

  int lines() const { return column_major ? columns : rows; }
  int length() const { return column_major ? rows : columns; }
  int ld() const { return length() + (bits_of_type(type) >= 8 ? 16 : 128 / bits_of_type(type)); }

  void fill(const std::vector<int>& values) {
    const int bits = bits_of_type(type);
    words.assign(static_cast<std::size_t>(ld() * lines() * bits + 31) / 32, 0);
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        const int line = column_major ? column : row, place = column_major ? row : column;
        const auto bit = static_cast<std::size_t>((line * ld() + place) * bits);
        const std::uint64_t code =
            code_of(type, values[static_cast<std::size_t>(row * columns + column)]);
        if (bits == 64) {
          words[bit / 32] = static_cast<std::uint32_t>(code);
          words[bit / 32 + 1] = static_cast<std::uint32_t>(code >> 32);
        } else {
          const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
          words[bit / 32] |= static_cast<std::uint32_t>((code & mask) << (bit % 32));
        }
      }
  }
};

std::vector<int> numbers(int count, int lowest, int highest, unsigned seed) {
  std::vector<int> values;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(lowest +
                     static_cast<int>((seed >> 16) % static_cast<unsigned>(highest - lowest + 1)));
  }
  return values;
}

std::string registers_of(const std::string& prefix, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i ? ", " : "", prefix, first + i);
  return "{" + text + "}";
}

int count_of(const Case& each, char matrix) {
  const std::string type = matrix == 'c' ? each.c : matrix == 'd' ? each.d : each.element;
  if ((matrix == 'a' || matrix == 'b') && type == "f16") return 8;
  const int elements = matrix == 'a'   ? each.m * each.k
                       : matrix == 'b' ? each.k * each.n
                                       : each.m * each.n;
  return type == "f64" ? elements / 32 : elements * bits_of_type(type) / 1024;
}

/// The product, with what the kernel leaves beside D in its memory, against the loop's.
void check(const Case& each, bool a_columns, bool b_columns, bool generic) {
  const std::string type = each.element;
  const bool bits = type == "b1", is_unsigned = type[0] == 'u';
  const int low = bits || is_unsigned ? 0 : type == "s4" ? -8 : -5;
  const int high = bits ? 1 : type == "u4" ? 15 : type == "s4" ? 7 : 5;
  Matrix a{each.m, each.k, a_columns, type, {}}, b{each.k, each.n, b_columns, type, {}};
  Matrix c{each.m, each.n, b_columns, each.c, {}}, d{each.m, each.n, a_columns, each.d, {}};
  const std::vector<int> as = numbers(each.m * each.k, low, high, 1),
                         bs = numbers(each.k * each.n, low, high, 2),
                         cs = numbers(each.m * each.n, -9, 9, 3);
  a.fill(as), b.fill(bs), c.fill(cs);
  std::vector<int> ds;
  for (int row = 0; row < each.m; ++row)
    for (int column = 0; column < each.n; ++column) {
      int sum = cs[static_cast<std::size_t>(row * each.n + column)];
      for (int k = 0; k < each.k; ++k) {
        const int x = as[static_cast<std::size_t>(row * each.k + k)],
                  y = bs[static_cast<std::size_t>(k * each.n + column)];
        sum += bits ? x ^ y : x * y;
      }
      ds.push_back(sum);
    }
  d.fill(ds);
  // In memory: A, B, C, D, each from a multiple of 256 bytes on.
  std::vector<std::uint32_t> words;
  std::size_t at[4];
  int i = 0;
  for (const Matrix* matrix : {&a, &b, &c, &d}) {
    words.resize((words.size() + 63) / 64 * 64);
    at[i++] = 4 * words.size();
    if (matrix == &d)
      words.resize(words.size() + d.words.size());
    else
      words.insert(words.end(), matrix->words.begin(), matrix->words.end());
  }
  const auto layout = [](bool columns) { return columns ? "col" : "row"; };
  const bool wide = type == "f64";
  const std::string p = wide ? "rd" : "r";
  const int na = count_of(each, 'a'), nb = count_of(each, 'b'), nc = count_of(each, 'c'),
            nd = count_of(each, 'd');
  const std::string space = generic ? "" : ".global";
  std::string types = fmt::format(".{}.{}", each.d, each.c);
  if (type != "f16") types = fmt::format(".{}.{}.{}.{}", each.d, type, type, each.c);
  const std::string body = fmt::format(
      "ld.param.u64 %rd30, [p];\n"
      "wmma.load.a.sync.aligned.{la}.{size}{space}.{ta} {ra}, [%rd30+{oa}], {sa};\n"
      "wmma.load.b.sync.aligned.{lb}.{size}{space}.{ta} {rb}, [%rd30+{ob}], {sb};\n"
      "wmma.load.c.sync.aligned.{lb}.{size}{space}.{tc} {rc}, [%rd30+{oc}], {sc};\n"
      "wmma.mma{op}.sync.aligned.{la}.{lb}.{size}{types} {rd}, {ra}, {rb}, {rc};\n"
      "wmma.store.d.sync.aligned.{la}.{size}{space}.{td} [%rd30+{od}], {rd}, {sd};\n",
      fmt::arg("la", layout(a_columns)), fmt::arg("lb", layout(b_columns)),
      fmt::arg("size", each.size), fmt::arg("space", space), fmt::arg("ta", type),
      fmt::arg("tc", each.c), fmt::arg("td", each.d), fmt::arg("ra", registers_of(p, 0, na)),
      fmt::arg("rb", registers_of(p, 8, nb)), fmt::arg("rc", registers_of(p, 16, nc)),
      fmt::arg("rd", registers_of(p, wide ? 18 : 24, nd)), fmt::arg("oa", at[0]),
      fmt::arg("ob", at[1]), fmt::arg("oc", at[2]), fmt::arg("od", at[3]), fmt::arg("sa", a.ld()),
      fmt::arg("sb", b.ld()), fmt::arg("sc", c.ld()), fmt::arg("sd", d.ld()),
      fmt::arg("op", bits ? ".xor.popc" : ""), fmt::arg("types", types));
  const Ran ran = launch_words(entry(body), words, shaped(1, 32));
  EXPECT_EQ(ran.findings(), "") << body;
  const std::vector<std::uint32_t> got(ran.words.begin() + static_cast<std::ptrdiff_t>(at[3] / 4),
                                       ran.words.end());
  EXPECT_EQ(got, d.words) << body;
}

constexpr Case cases[] = {
    {"m16n16k16", 16, 16, 16, "f16", "f32", "f32"}, {"m16n16k16", 16, 16, 16, "f16", "f16", "f16"},
    {"m16n16k16", 16, 16, 16, "f16", "f16", "f32"}, {"m16n16k16", 16, 16, 16, "f16", "f32", "f16"},
    {"m32n8k16", 32, 8, 16, "f16", "f32", "f32"},   {"m32n8k16", 32, 8, 16, "f16", "f16", "f16"},
    {"m8n32k16", 8, 32, 16, "f16", "f32", "f32"},   {"m8n32k16", 8, 32, 16, "f16", "f16", "f32"},
    {"m8n32k16", 8, 32, 16, "f16", "f16", "f16"},   {"m16n16k16", 16, 16, 16, "bf16", "f32", "f32"},
    {"m32n8k16", 32, 8, 16, "bf16", "f32", "f32"},  {"m8n32k16", 8, 32, 16, "bf16", "f32", "f32"},
    {"m16n16k8", 16, 16, 8, "tf32", "f32", "f32"},  {"m16n16k16", 16, 16, 16, "s8", "s32", "s32"},
    {"m32n8k16", 32, 8, 16, "u8", "s32", "s32"},    {"m8n32k16", 8, 32, 16, "s8", "s32", "s32"},
    {"m8n8k4", 8, 8, 4, "f64", "f64", "f64"},
};
constexpr Case narrow_cases[] = {
    {"m8n8k32", 8, 8, 32, "s4", "s32", "s32"},
    {"m8n8k32", 8, 8, 32, "u4", "s32", "s32"},
    {"m8n8k128", 8, 8, 128, "b1", "s32", "s32"},
};

TEST(Wmma, every_shape_type_and_layout_multiplies) {
  for (const Case& each : cases)
    for (int layouts = 0; layouts < 4; ++layouts)
      check(each, layouts & 1, layouts & 2, layouts == 1);
  for (const Case& each : narrow_cases) check(each, false, true, false);
}

TEST(Wmma, a_stride_that_is_not_given_is_the_matrix_own) {
  std::vector<std::uint32_t> words(512);
  for (std::size_t i = 0; i < 256; ++i)
    words[i] = std::bit_cast<std::uint32_t>(static_cast<float>(i));
  const Ran ran = launch_words(
      entry("ld.param.u64 %rd30, [p];\n"
            "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, "
            "%r7}, [%rd30];\n"
            "wmma.store.d.sync.aligned.col.m16n16k16.global.f32 [%rd30+1024], {%r0, %r1, %r2, %r3, "
            "%r4, %r5, %r6, %r7};\n"),
      words, shaped(1, 32));
  EXPECT_EQ(ran.findings(), "");
  for (std::size_t row = 0; row < 16; ++row)
    for (std::size_t column = 0; column < 16; ++column)
      EXPECT_EQ(ran.words[256 + 16 * column + row], words[16 * row + column]);
}

TEST(Wmma, lanes_that_name_different_matrices_and_absent_lanes_are_found) {
  const std::string load =
      "wmma.load.c.sync.aligned.row.m8n8k4.global.f64 {%rd0, %rd1}, [%rd32], 8;\n";
  const Ran apart =
      launch_words(entry(own_word + load), std::vector<std::uint32_t>(256), shaped(1, 32));
  EXPECT_EQ(apart.count(FindingKind::misuse), 1) << apart.findings();
  EXPECT_NE(apart.findings().find("all lanes must name the same matrix"), std::string::npos);
  const Ran half = launch_words(entry("ld.param.u64 %rd32, [p];\n" + load),
                                std::vector<std::uint32_t>(256), shaped(1, 16));
  EXPECT_EQ(half.count(FindingKind::divergent_aligned), 1) << half.findings();
}

TEST(Wmma, a_matrix_that_leaves_its_buffer_is_out_of_bounds) {
  const Ran ran = launch_words(entry("ld.param.u64 %rd30, [p];\n"
                                     "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r0, "
                                     "%r1, %r2, %r3}, [%rd30], 24;\n"),
                               std::vector<std::uint32_t>(128), shaped(1, 32));
  EXPECT_GE(ran.count(FindingKind::out_of_bounds), 1) << ran.findings();
}

TEST(Wmma, the_packed_form_is_read_back) {
  tensor::WmmaShape shape;
  shape.m = 32, shape.n = 8, shape.k = 128, shape.a = shape.b = tensor::Operand::b1;
  shape.c = shape.d = tensor::Result::s32;
  shape.saturate = shape.ands = true;
  shape.rounding = tensor::Rounding::up;
  EXPECT_EQ(unpack_wmma(pack_wmma(shape, tensor::WmmaMatrix::b)), shape);
}

}  // namespace
}  // namespace microscale::emulator
