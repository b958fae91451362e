// wgmma in the machine: what an H200 gave for every type and source, every N, and one-hot and
// identity matrices laid out by formulas of their own.
#include "emulator/ops/wgmma.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "microscale/emulator.hpp"
#include "support/mma_kernels.hpp"
#include "support/mma_replay.hpp"
#include "support/paths.hpp"

namespace microscale::testing {
namespace {

using Words = std::vector<std::uint32_t>;
using tensor::Operand, tensor::Result, tensor::Swizzle;

std::string module_of(const WgmmaVariant& v) {
  return fmt::format(
             ".version 8.7\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 "
             "image[{}];\n",
             image_bytes) +
         wgmma_kernel(v);
}

/// One block for each case; D of all, one after the other.
Words run(const WgmmaVariant& v, const std::vector<Words>& cases, emulator::LaunchOptions options) {
  emulator::Memory memory;
  emulator::Module module(memory, module_of(v));
  const std::size_t in_words = static_cast<std::size_t>(wgmma_case_words(v)),
                    out_words = static_cast<std::size_t>(128 * v.shape.d_registers());
  const auto bytes = [](std::size_t words) { return static_cast<std::int64_t>(4 * words); };
  const std::uint64_t from = memory.allocate(bytes(in_words * cases.size())),
                      to = memory.allocate(bytes(out_words * cases.size()));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].size(), in_words);
    memory.write(from + 4 * in_words * i, cases[i].data(), bytes(in_words));
  }
  emulator::LaunchRequest request;
  request.kernel = v.name;
  request.grid = {static_cast<std::uint32_t>(cases.size())};
  request.block = {128};
  request.arguments = emulator::arguments(from, to);
  request.options = options;
  const emulator::LaunchReport report = launch(memory, module, request);
  for (const emulator::Finding& each : report.findings) ADD_FAILURE() << to_sentence(each);
  Words out(out_words * cases.size());
  memory.read(out.data(), to, bytes(out.size()));
  return out;
}

TEST(WgmmaHandler, gives_what_an_h200_gave) {
  std::map<std::string, std::string> digests;
  std::ifstream file(microscale::testing::test_data() + "/golden/tensor_h200.txt");
  std::string name, spread_name, value;
  while (file >> name >> spread_name >> value) digests[name + " " + spread_name] = value;
  int variants = 0;
  for (const WgmmaVariant& v : hopper_wgmma_variants()) {
    ++variants;
    for (int spread = 0; spread < spreads; ++spread) {
      std::vector<Words> cases;
      for (std::uint64_t i = 0; i < wgmma_golden_cases; ++i)
        cases.push_back(wgmma_case(v, static_cast<Spread>(spread), i));
      emulator::LaunchOptions options;
      options.completion = static_cast<emulator::Completion>(spread % 3);
      options.schedule = static_cast<emulator::Schedule>(variants % 3);
      options.seed = static_cast<std::uint64_t>(spread);
      const Words d = run(v, cases, options);
      const std::string key = v.name + " " + spread_names[spread];
      ASSERT_TRUE(digests.contains(key)) << key;
      EXPECT_EQ(fmt::format("{:016x}", digest(d.data(), d.size())), digests.at(key)) << key;
    }
  }
  EXPECT_GE(variants, 33);
}

TEST(WgmmaHandler, every_n_equals_the_model) {
  for (int n = 8; n <= 256; n += 8) {
    WgmmaVariant v;
    v.name = "k";
    v.shape.n = n;
    v.shape.a = v.shape.b = n % 16 ? Operand::e5m2 : Operand::bf16;
    v.a_in_registers = n % 3 == 0;
    Words words = wgmma_case(v, Spread::moderate, static_cast<std::uint64_t>(n));
    // B behind A, in atoms of eight rows of 32 or 64 bytes, one after the other.
    const std::uint32_t row = n % 32 ? 32 : 64;
    const std::uint64_t b = tensor::wgmma_descriptor_bits(
        {image_bytes / 2, 16, 8 * row, 0, row == 32 ? Swizzle::bytes32 : Swizzle::bytes64});
    words[2] = static_cast<std::uint32_t>(b), words[3] = static_cast<std::uint32_t>(b >> 32);
    EXPECT_EQ(run(v, {words}, {}), model_wgmma(v, words)) << n;
  }
}

// ---- matrices of zeros and ones, by formulas of the ISA's text

struct Matrix {
  std::array<std::array<std::uint32_t, 32>, 64> code{};  // [row or column][k]
};

std::uint32_t one_of(Operand type) {
  switch (type) {
    case Operand::f16:
      return 0x3C00;
    case Operand::bf16:
      return 0x3F80;
    case Operand::tf32:
      return 0x3F800000;
    case Operand::e4m3:
      return 0x38;
    case Operand::e5m2:
      return 0x3C;
    default:
      return 1;
  }
}

std::uint32_t number(Result type, int value) {  // 0 to 2
  if (type == Result::s32) return static_cast<std::uint32_t>(value);
  constexpr std::uint32_t f32[] = {0, 0x3F800000, 0x40000000}, f16[] = {0, 0x3C00, 0x4000};
  return type == Result::f32 ? f32[value] : f16[value];
}

/// Puts a matrix of 64 lines into the image at `start`; the descriptor that says so.
tensor::MatrixDescriptor place(const Matrix& m, Operand type, Swizzle swizzle, bool mn_major,
                               std::uint32_t start, std::uint8_t* image) {
  const std::uint32_t mode = static_cast<std::uint32_t>(swizzle), row = 16u << mode;
  const std::uint32_t bytes =
      static_cast<std::uint32_t>(container_bits(tensor::Kind::plain, type) / 8);
  tensor::MatrixDescriptor d{start, 0, 0, 0, swizzle};
  // Atoms of eight rows; K-major they follow each other along the lines, MN-major along K.
  if (mode == 0)
    d.leading_offset = mn_major ? 1024 : 128, d.stride_offset = mn_major ? 128 : 256;
  else
    d.leading_offset = mn_major ? 2 * 8 * row : 16, d.stride_offset = 8 * row;
  for (std::uint32_t line = 0; line < 64; ++line)
    for (std::uint32_t k = 0; k < 32 / bytes; ++k) {
      const std::uint32_t along = mn_major ? line : k, across = mn_major ? k : line;
      const std::uint32_t byte = along * bytes;
      std::uint32_t at = start;
      if (mode == 0) {
        at += mn_major ? byte / 16 * d.stride_offset + across / 8 * d.leading_offset
                       : byte / 16 * d.leading_offset + across / 8 * d.stride_offset;
        at += across % 8 * 16 + byte % 16;
      } else {
        const std::uint32_t turn = across % 8 >> (3 - mode);  // which chunk of a row changes places
        at += across / 8 * d.stride_offset + byte / row * d.leading_offset + across % 8 * row;
        at += (byte % row / 16 ^ turn) * 16 + byte % 16;
      }
      for (std::uint32_t i = 0; i < bytes; ++i)
        image[at + i] = static_cast<std::uint8_t>(m.code[line][k] >> (8 * i));
    }
  return d;
}

struct Layout {
  Swizzle a = Swizzle::none, b = Swizzle::none;
};

Words case_of(const WgmmaVariant& v, const Matrix& a, const Matrix& b, Layout layout) {
  const int bits = container_bits(tensor::Kind::plain, v.shape.a);
  Words image(wgmma_image_words);
  auto* bytes = reinterpret_cast<std::uint8_t*>(image.data());
  const auto da = place(a, v.shape.a, layout.a, v.options.mn_major_a, 0, bytes),
             db = place(b, v.shape.b, layout.b, v.options.mn_major_b, image_bytes / 2, bytes);
  if (v.a_in_registers) std::fill_n(image.begin(), wgmma_image_words / 2, 0xFFFFFFFFu);
  const std::uint64_t ba = wgmma_descriptor_bits(da), bb = wgmma_descriptor_bits(db);
  Words words = {static_cast<std::uint32_t>(ba), static_cast<std::uint32_t>(ba >> 32),
                 static_cast<std::uint32_t>(bb), static_cast<std::uint32_t>(bb >> 32), 0};
  words.resize(wgmma_header_words);
  const std::uint32_t per_register = static_cast<std::uint32_t>(32 / bits);
  for (std::uint32_t reg = 0; reg < 4; ++reg)
    for (std::uint32_t thread = 0; thread < 128; ++thread) {
      std::uint32_t word = 0;
      for (std::uint32_t item = 0; item < per_register; ++item) {
        const std::uint32_t row = thread / 32 * 16 + thread % 32 / 4 + 8 * (reg & 1);
        const std::uint32_t k = (thread % 4 + 4 * (reg >> 1)) * per_register + item;
        word |= a.code[row][k] << (item * static_cast<std::uint32_t>(bits));
      }
      words.push_back(word);
    }
  words.resize(words.size() + static_cast<std::size_t>(128 * v.shape.d_registers()), 0x7FC07FC0u);
  words.insert(words.end(), image.begin(), image.end());
  return words;
}

std::uint32_t result(const WgmmaVariant& v, const Words& d, std::uint32_t row,
                     std::uint32_t column) {
  const std::uint32_t lane = row % 8 * 4 + column % 8 / 2, thread = row / 16 * 32 + lane;
  const std::uint32_t place = column / 8 * 4 + row % 16 / 8 * 2 + column % 2;
  if (v.shape.d != Result::f16) return d[128 * place + thread];
  return d[128 * (place / 2) + thread] >> (16 * (place % 2)) & 0xFFFF;
}

template <class Each>
void for_each_form(const Each& each) {
  for (const WgmmaVariant& v : hopper_wgmma_variants()) {
    if (v.options.negate_a || v.options.negate_b) continue;
    for (int mode = 0; mode < 4; ++mode)
      each(v, Layout{static_cast<Swizzle>(mode), static_cast<Swizzle>((mode + 1) % 4)});
  }
}

TEST(WgmmaHandler, identity_gives_the_other_matrix) {
  for_each_form([](const WgmmaVariant& v, Layout layout) {
    const std::uint32_t one_a = one_of(v.shape.a), one_b = one_of(v.shape.b);
    const auto k = static_cast<std::uint32_t>(v.shape.k());
    Matrix a, b;
    for (std::uint32_t line = 0; line < 64; ++line)
      for (std::uint32_t at = 0; at < k; ++at) {
        a.code[line][at] = (line * 7 + at * 3) % 5 < 2 ? one_a : 0;
        b.code[line][at] = line % k == at ? one_b : 0;
      }
    const Words d = run(v, {case_of(v, a, b, layout)}, {});
    for (std::uint32_t row = 0; row < 64; ++row)
      for (std::uint32_t column = 0; column < 64; ++column)
        ASSERT_EQ(result(v, d, row, column), number(v.shape.d, a.code[row][column % k] ? 1 : 0))
            << v.name << " row " << row << " column " << column;
  });
}

TEST(WgmmaHandler, one_hots_meet_where_they_should) {
  for_each_form([](const WgmmaVariant& v, Layout layout) {
    Bits bits(static_cast<std::uint64_t>(layout.a) + 17);
    std::vector<Words> cases;
    std::vector<std::array<std::uint32_t, 2>> hot;
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t row = bits.below(64), column = bits.below(64),
                          k = bits.below(static_cast<std::uint32_t>(v.shape.k()));
      Matrix a, b;
      a.code[row][k] = one_of(v.shape.a);
      b.code[column][k] = one_of(v.shape.b);
      cases.push_back(case_of(v, a, b, layout));
      hot.push_back({row, column});
    }
    const Words all = run(v, cases, {});
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const std::size_t size = all.size() / cases.size();
      const Words d(all.begin() + static_cast<std::ptrdiff_t>(i * size),
                    all.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
      for (std::uint32_t row = 0; row < 64; ++row)
        for (std::uint32_t column = 0; column < 64; ++column)
          ASSERT_EQ(result(v, d, row, column),
                    number(v.shape.d, row == hot[i][0] && column == hot[i][1] ? 1 : 0))
              << v.name << " row " << row << " column " << column;
    }
  });
}

TEST(WgmmaInstruction, is_packed_into_an_integer_and_back) {
  for (const WgmmaVariant& v : hopper_wgmma_variants())
    for (const int n : {8, 64, 256}) {
      emulator::WgmmaInstruction what{v.shape, v.options, v.a_in_registers};
      what.shape.n = n;
      what.shape.saturate = v.shape.d == Result::s32;
      const auto back = emulator::WgmmaInstruction::unpack(what.pack());
      EXPECT_EQ(back.pack(), what.pack());
      EXPECT_EQ(back.shape.n, n);
      EXPECT_EQ(back.shape.a, v.shape.a);
      EXPECT_EQ(back.shape.b, v.shape.b);
      EXPECT_EQ(back.shape.d, v.shape.d);
      EXPECT_EQ(back.shape.saturate, what.shape.saturate);
      EXPECT_EQ(back.options.negate_a, v.options.negate_a);
      EXPECT_EQ(back.options.negate_b, v.options.negate_b);
      EXPECT_EQ(back.options.mn_major_a, v.options.mn_major_a);
      EXPECT_EQ(back.options.mn_major_b, v.options.mn_major_b);
      EXPECT_EQ(back.a_in_registers, v.a_in_registers);
    }
}

}  // namespace
}  // namespace microscale::testing
