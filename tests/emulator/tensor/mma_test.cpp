// mma.sync on known operands: the probes of an article about sm_120, what is reported, what is
// refused.
#include <gtest/gtest.h>

#include <bit>

#include "emulator/tensor/mma.hpp"
#include "support/mma_replay.hpp"

namespace microscale::testing {
namespace {

using tensor::Kind, tensor::MmaFindings, tensor::MmaShape, tensor::Operand, tensor::Result,
    tensor::ScaleSelector, tensor::ScaleType;

/// Registers filled with one word each.
struct Warp {
  std::uint32_t a[4][32] = {}, b[4][32] = {}, c[4][32] = {}, d[4][32] = {}, sa[32] = {},
                sb[32] = {};
  ScaleSelector select_a, select_b;

  void fill(std::uint32_t a_word, std::uint32_t b_word, std::uint32_t scale_a,
            std::uint32_t scale_b) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int reg = 0; reg < 4; ++reg) a[reg][lane] = a_word, b[reg][lane] = b_word;
      sa[lane] = scale_a, sb[lane] = scale_b;
    }
  }
  MmaFindings run(const MmaShape& shape) {
    tensor::MmaOperands in;
    std::array<std::uint32_t*, 4> out{};
    for (std::size_t i = 0; i < 4; ++i)
      in.a[i] = a[i], in.b[i] = b[i], in.c[i] = c[i], out[i] = d[i];
    in.scale_a = sa, in.scale_b = sb, in.select_a = select_a, in.select_b = select_b;
    return mma(shape, tensor::Generation::blackwell, in, out);
  }
  void expect_all(float value) const {
    for (const auto& reg : d)
      for (const std::uint32_t word : reg) EXPECT_EQ(std::bit_cast<float>(word), value);
  }
};

MmaShape mxf8f6f4(Operand a = Operand::e2m1, Operand b = Operand::e2m1) {
  MmaShape shape;
  shape.kind = Kind::mxf8f6f4, shape.k = 32, shape.a = a, shape.b = b;
  shape.scale = ScaleType::ue8m0, shape.scale_vector = 1;
  return shape;
}

MmaShape nvfp4() {
  MmaShape shape;
  shape.kind = Kind::mxf4nvf4, shape.k = 64, shape.a = shape.b = Operand::e2m1;
  shape.scale = ScaleType::ue4m3, shape.scale_vector = 4;
  return shape;
}

/// D of the fragments as PTX lays them out, from whole numbers of `bits` bits.
int dot_at(const Warp& warp, const MmaShape& shape, int bits, bool is_signed, int row, int column) {
  const int items = 32 / bits;
  const auto element = [&](const std::uint32_t(&rows)[4][32], int reg, int lane, int item) {
    const std::uint32_t code =
        rows[reg][lane] >> (bits * item) & static_cast<std::uint32_t>((1ull << bits) - 1);
    const bool negative = is_signed && bits > 1 && (code >> (bits - 1) & 1);
    return static_cast<int>(code) - (negative ? 1 << bits : 0);
  };
  int sum = 0;
  for (int k = 0; k < shape.k; ++k) {
    const int lane = k / items % 4, half = k / (4 * items);
    const int reg_a = shape.m == 8 ? half : row / 8 + 2 * half;
    const int a = element(warp.a, reg_a, row % 8 * 4 + lane, k % items);
    const int b = element(warp.b, half, column * 4 + lane, k % items);
    sum += bits == 1 && !shape.ands ? a ^ b : a * b;
  }
  return sum;
}

TEST(Mma, integers_of_four_and_one_bits_and_shapes_of_eight_rows) {
  struct Case {
    int m, k;
    Operand type;
    bool ands;
  };
  const Case cases[] = {{8, 16, Operand::s8, false},   {8, 32, Operand::s4, false},
                        {8, 32, Operand::u4, false},   {16, 32, Operand::s4, false},
                        {16, 64, Operand::u4, false},  {16, 64, Operand::s4, false},
                        {8, 128, Operand::b1, false},  {8, 128, Operand::b1, true},
                        {16, 128, Operand::b1, false}, {16, 256, Operand::b1, true}};
  for (const Case& each : cases) {
    MmaShape shape;
    shape.m = each.m, shape.k = each.k, shape.a = shape.b = each.type, shape.ands = each.ands;
    shape.c = shape.d = Result::s32;
    Warp warp;
    Bits bits(static_cast<std::uint64_t>(each.k));
    for (int reg = 0; reg < 4; ++reg)
      for (int lane = 0; lane < 32; ++lane) {
        warp.a[reg][lane] = bits.next(), warp.b[reg][lane] = bits.next();
        warp.c[reg][lane] = bits.next();
      }
    EXPECT_FALSE(warp.run(shape).any());
    for (int row = 0; row < each.m; ++row)
      for (int column = 0; column < 8; ++column) {
        const int reg = row / 8 * 2 + column % 2, lane = row % 8 * 4 + column / 2;
        const int dot = dot_at(warp, shape, container_bits(Kind::plain, each.type),
                               each.type != Operand::u4, row, column);
        EXPECT_EQ(warp.d[reg][lane], warp.c[reg][lane] + static_cast<std::uint32_t>(dot))
            << spelling(shape) << " " << row << "," << column;
      }
  }
}

TEST(Mma, ones_give_32_twos_128_and_a_scale_of_eight_256) {
  Warp warp;
  warp.fill(0x08080808, 0x08080808, 0x7F7F7F7F, 0x7F7F7F7F);
  EXPECT_FALSE(warp.run(mxf8f6f4()).any());
  warp.expect_all(32.0f);
  warp.fill(0x10101010, 0x10101010, 0x7F7F7F7F, 0x7F7F7F7F);
  warp.run(mxf8f6f4());
  warp.expect_all(128.0f);
  warp.fill(0x08080808, 0x08080808, 0x82828282, 0x7F7F7F7F);
  warp.run(mxf8f6f4());
  warp.expect_all(256.0f);
}

TEST(Mma, nibbles_in_the_wrong_place_give_zero_and_a_padding_finding) {
  Warp warp;
  warp.fill(0x22222222, 0x22222222, 0x7F7F7F7F, 0x7F7F7F7F);
  const MmaFindings findings = warp.run(mxf8f6f4());
  EXPECT_EQ(findings.padding_a, 0xFFFFFFFFu);
  EXPECT_EQ(findings.padding_b, 0xFFFFFFFFu);
  warp.expect_all(0.0f);
}

TEST(Mma, padding_names_the_lanes_and_only_where_there_is_some) {
  Warp warp;
  warp.fill(0x08080808, 0x3F3F3F3F, 0x7F7F7F7F, 0x7F7F7F7F);
  warp.a[2][7] = 0x08080818;   // a larger code, no padding
  warp.a[3][9] = 0x01080808;   // bit 24
  warp.b[1][30] = 0x7F3F3F3F;  // bit 30, above an FP6 code
  const MmaFindings findings = warp.run(mxf8f6f4(Operand::e2m1, Operand::e2m3));
  EXPECT_EQ(findings.padding_a, 1u << 9);
  EXPECT_EQ(findings.padding_b, 1u << 30);
  EXPECT_FALSE(findings.bad_selector_a || findings.bad_selector_b);
}

TEST(Mma, identity_times_its_transpose_is_the_identity) {
  for (const MmaShape& shape : {mxf8f6f4(), nvfp4()}) {
    const int bits = container_bits(shape.kind, shape.a), up = container_shift(shape.kind, shape.a);
    Warp warp;
    warp.fill(0, 0, shape.scale_vector == 1 ? 0x7F7F7F7F : 0x38383838,
              shape.scale_vector == 1 ? 0x7F7F7F7F : 0x38383838);
    for (int i = 0; i < 16; ++i) {
      const tensor::Slot a = tensor::a_slot(bits, {i, i});
      warp.a[a.reg][a.lane] |= 2u << (bits * a.item + up);
      if (i >= 8) continue;
      const tensor::Slot b = tensor::b_slot(bits, {i, i});
      warp.b[b.reg][b.lane] |= 2u << (bits * b.item + up);
    }
    EXPECT_FALSE(warp.run(shape).any());
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        const tensor::Slot d = tensor::d_slot(32, {row, column});
        EXPECT_EQ(std::bit_cast<float>(warp.d[d.reg][d.lane]), row == column ? 1.0f : 0.0f);
      }
  }
}

TEST(Mma, reports_selectors_that_are_not_defined_and_computes_nothing) {
  for (const auto& [shape, byte, thread, bad_a, bad_b] :
       {std::tuple{mxf8f6f4(), 0, 2, true, false}, std::tuple{mxf8f6f4(), 3, 1, false, false},
        std::tuple{mxf8f6f4(), 4, 0, true, true}, std::tuple{nvfp4(), 1, 0, true, true},
        std::tuple{nvfp4(), 0, 3, true, false}, std::tuple{nvfp4(), 0, 4, true, true}}) {
    Warp warp;
    warp.fill(0, 0, 0, 0);
    warp.d[0][0] = 77;
    warp.select_a = warp.select_b = {byte, thread};
    const MmaFindings findings = warp.run(shape);
    EXPECT_EQ(findings.bad_selector_a, bad_a);
    EXPECT_EQ(findings.bad_selector_b, bad_b);
    EXPECT_EQ(warp.d[0][0] == 77, bad_a || bad_b);
  }
}

TEST(Mma, reports_the_sign_of_an_unsigned_scale_only_where_it_is_used) {
  Warp warp;
  warp.fill(0x22222222, 0x22222222, 0x38383838, 0x38383838);
  warp.sa[5] = 0x3838B838;  // supplies row 9
  warp.sa[6] = 0xB8B8B8B8;  // ignored
  const MmaFindings findings = warp.run(nvfp4());
  EXPECT_EQ(findings.scale_sign_a, 1u << 5);
  EXPECT_EQ(findings.scale_sign_b, 0u);
  warp.expect_all(64.0f);
}

TEST(Mma, scales_of_other_lanes_and_bytes_are_ignored) {
  Warp warp;
  warp.fill(0x08080808, 0x08080808, 0xFFFFFFFF, 0xFFFFFFFF);  // NaN everywhere
  for (int lane = 0; lane < 32; ++lane) {
    if (lane % 4 >= 2) warp.sa[lane] = 0xFF80FFFF;
    if (lane % 4 == 3) warp.sb[lane] = 0x7FFFFFFF;
  }
  warp.select_a = {2, 1}, warp.select_b = {3, 3};
  EXPECT_FALSE(warp.run(mxf8f6f4()).any());
  warp.expect_all(64.0f);
  warp.sa[2] = 0;  // row 0: 2^-127
  warp.run(mxf8f6f4());
  EXPECT_EQ(std::bit_cast<float>(warp.d[0][0]), 32 * 0x1p-127f);
  warp.sa[2] = 0xFFFFFFFF;
  warp.run(mxf8f6f4());
  EXPECT_EQ(warp.d[0][0], 0x7FFFFFFFu);
}

TEST(Mma, results_may_overwrite_the_accumulators) {
  for (const MmaShape& shape : hopper_mma_shapes()) {
    auto words = mma_case(shape, Spread::moderate, 5);
    const auto wanted = model_mma(shape, tensor::Generation::hopper, words);
    tensor::MmaOperands in;
    std::array<std::uint32_t*, 4> out{};
    std::uint32_t* at = words.data();
    for (int i = 0; i < a_registers(shape); ++i, at += 32) in.a[static_cast<std::size_t>(i)] = at;
    for (int i = 0; i < b_registers(shape); ++i, at += 32) in.b[static_cast<std::size_t>(i)] = at;
    for (int i = 0; i < result_registers(shape, shape.d); ++i, at += 32)
      in.c[static_cast<std::size_t>(i)] = out[static_cast<std::size_t>(i)] = at;
    mma(shape, tensor::Generation::hopper, in, out);
    EXPECT_EQ(
        std::vector<std::uint32_t>(words.end() - static_cast<long>(wanted.size()), words.end()),
        wanted);
  }
}

TEST(Mma, fp8_of_hopper_differs_from_blackwells_in_its_last_bits_only) {
  MmaShape shape;
  shape.k = 32, shape.a = shape.b = Operand::e4m3;
  int different = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto words = mma_case(shape, Spread::moderate, seed);
    const auto hopper = model_mma(shape, tensor::Generation::hopper, words);
    const auto blackwell = model_mma(shape, tensor::Generation::blackwell, words);
    for (std::size_t i = 0; i < hopper.size(); ++i) {
      different += hopper[i] != blackwell[i];
      EXPECT_NEAR(std::bit_cast<float>(hopper[i]), std::bit_cast<float>(blackwell[i]), 1e-3);
    }
  }
  EXPECT_GT(different, 100);
}

}  // namespace
}  // namespace microscale::testing
