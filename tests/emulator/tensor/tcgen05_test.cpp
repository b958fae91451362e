// Instruction descriptors field by field, and sums whose bits were worked out by hand: which terms
// the 25 and the 35 fraction bits of the published models keep.
#include "emulator/tensor/tcgen05.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace microscale::emulator::tensor {
namespace {

using enum Tcgen05Kind;

constexpr std::uint32_t n64 = 8u << 17;

TEST(Tcgen05Descriptor, says_sizes_and_types) {
  Tcgen05Shape shape;
  EXPECT_EQ(
      read_instruction_descriptor(1u << 4 | 1u << 7 | 1u << 10 | n64 | 8u << 24, {f16}, shape).what,
      "");
  EXPECT_EQ(shape.m, 128);
  EXPECT_EQ(shape.n, 64);
  EXPECT_EQ(shape.k, 16);
  EXPECT_EQ(shape.a, Operand::bf16);
  EXPECT_EQ(shape.scale, ScaleType::none);
  EXPECT_EQ(read_instruction_descriptor(1u << 7 | 1u << 10 | 3u << 13 | n64 | 1u << 27,
                                        {mxf4nvf4, 1, 16, false}, shape)
                .what,
            "");
  EXPECT_EQ(shape.scale, ScaleType::ue4m3);
  EXPECT_EQ(shape.scale_vector, 4);
  EXPECT_TRUE(shape.negate_a && shape.negate_b && !shape.mn_major_a);
  EXPECT_EQ(read_instruction_descriptor(
                5u << 7 | 3u << 10 | 2u << 4 | n64 | 1u << 23 | 2u << 27 | 3u << 29,
                {mxf8f6f4, 2, 32, false}, shape)
                .what,
            "");
  EXPECT_EQ(shape.m, 256);
  EXPECT_EQ(shape.a, Operand::e2m1);
  EXPECT_EQ(shape.b, Operand::e2m3);
  EXPECT_EQ(shape.scale_id_a, 3);
  EXPECT_EQ(shape.scale_id_b, 2);
}

TEST(Tcgen05Descriptor, is_refused_where_ptx_has_no_such_form) {
  Tcgen05Shape shape;
  const auto problem = [&](std::uint32_t bits, const Tcgen05Name& name) {
    return read_instruction_descriptor(bits, name, shape).what;
  };
  const auto has = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  const std::uint32_t plain = 1u << 4 | n64 | 8u << 24,
                      scaled = 1u << 7 | 1u << 10 | n64 | 1u << 27;
  has(problem(plain | 1u << 2, {f16}), "sparse");
  has(problem(plain | 1u << 29, {f16}), "reserved");
  has(problem(plain & ~(3u << 4), {f16}), "FP32");
  has(problem(plain | 2u << 7, {f16}), "format 2");
  has(problem(plain - (4u << 24), {f8f6f4, 2, 0, false}), "M is 256");
  has(problem(1u << 4 | 1u << 17 | 8u << 24, {f16}), "N 8");     // M of 128 goes in steps of 16
  EXPECT_EQ(problem(1u << 4 | 1u << 17 | 4u << 24, {f16}), "");  // M of 64 in steps of 8
  has(problem(1u << 4 | n64 | 4u << 24, {mxf8f6f4, 1, 32, false}), "reserved");
  has(problem(scaled | 1u << 31, {mxf4, 1, 32, false}), "96");
  has(problem(scaled, {mxf4, 1, 32, false}), "UE4M3");
  has(problem(scaled, {mxf4nvf4, 1, 32, false}), ".block16");
  const Tcgen05Problem id =
      read_instruction_descriptor(scaled | 1u << 23 | 1u << 29, {mxf4, 1, 32, false}, shape);
  EXPECT_TRUE(id.scale_id);
  has(id.what, "0 or 2");
  has(problem(scaled | 1u << 15, {mxf4nvf4, 1, 16, false}), "MN-major");
}

/// One row of A by one column of B: D in row 0, column 0.
float product(Tcgen05Shape shape, float c, const std::vector<std::pair<int, int>>& codes,
              std::vector<std::uint8_t> scales_a) {
  shape.m = 16, shape.n = 8;
  const auto a = std::make_unique<Tcgen05Rows>(), b = std::make_unique<Tcgen05Rows>();
  const int bits = shape.kind == f16 ? 16 : shape.k == 64 ? 4 : 8;
  const int one = shape.kind == f16 ? 0x3C00 : shape.k == 64 ? 2 : 0x38;
  for (const auto& [k, code] : codes)
    for (int bit = 0; bit < bits; ++bit) {
      const int at = k * bits + bit;
      if (code >> bit & 1) a->bytes[0][at / 8] |= static_cast<std::uint8_t>(1 << at % 8);
      if (one >> bit & 1) b->bytes[0][at / 8] |= static_cast<std::uint8_t>(1 << at % 8);
    }
  for (std::size_t i = 0; i < 4; ++i) {
    a->scales[0][i] = scales_a.empty() ? 127 : scales_a[i % scales_a.size()];
    for (int row = 0; row < 8; ++row) b->scales[row][i] = 127;
  }
  std::vector<std::uint32_t> d(16 * 8);
  d[0] = std::bit_cast<std::uint32_t>(c);
  tcgen05_product(shape, true, *a, *b, d.data());
  return std::bit_cast<float>(d[0]);
}

std::vector<std::pair<int, int>> ones(int count, int code) {
  std::vector<std::pair<int, int>> list;
  for (int i = 0; i < count; ++i) list.push_back({i, code});
  return list;
}

TEST(Tcgen05Product, of_mxfp8_keeps_25_fraction_bits_of_each_term) {
  Tcgen05Shape shape;
  shape.kind = mxf8f6f4, shape.k = 32, shape.a = shape.b = Operand::e4m3;
  shape.scale = ScaleType::ue8m0, shape.scale_vector = 1;
  // 1 + 4 * 2^-25 = 1 + 2^-23: the terms are kept.
  EXPECT_EQ(product(shape, 1.0f, ones(4, 0x38), {127 - 25}), 1.0f + 0x1p-23f);
  // Three of them end between two numbers, and are cut.
  EXPECT_EQ(product(shape, 1.0f, ones(3, 0x38), {127 - 25}), 1.0f);
  // 8 * 2^-26 is 2^-23, too, but each of the terms is cut to nothing.
  EXPECT_EQ(product(shape, 1.0f, ones(8, 0x38), {127 - 26}), 1.0f);
  // Toward zero, from both sides.
  EXPECT_EQ(product(shape, -1.0f, ones(8, 0xB8), {127 - 26}), -1.0f);
  EXPECT_EQ(product(shape, -1.0f, ones(1, 0x38), {127 - 25}), std::nextafter(-1.0f, 0.0f));
}

TEST(Tcgen05Product, of_fp16_keeps_25_fraction_bits_over_16_terms) {
  Tcgen05Shape shape;
  shape.kind = f16, shape.k = 16;
  // 2^-24 is FP16's smallest; two of them and 1 make 1 + 2^-23.
  EXPECT_EQ(product(shape, 1.0f, ones(2, 0x0001), {}), 1.0f + 0x1p-23f);
  EXPECT_EQ(product(shape, 4.0f, ones(8, 0x0001), {}), 4.0f);  // 2^-24 is below 2^(2 - 25)
  EXPECT_EQ(product(shape, 2.0f, ones(4, 0x0001), {}), 2.0f + 0x1p-22f);
}

TEST(Tcgen05Product, of_fp4_keeps_35_fraction_bits_of_each_group_of_16) {
  Tcgen05Shape shape;
  shape.kind = mxf4nvf4, shape.k = 64, shape.a = shape.b = Operand::e2m1;
  shape.scale = ScaleType::ue8m0, shape.scale_vector = 4;
  // -1 + 1 leaves what the second group holds: 2^-30 is kept (25 bits would lose it), 2^-36 is not.
  const std::vector<std::pair<int, int>> two = {{0, 2}, {16, 2}};
  EXPECT_EQ(product(shape, -1.0f, two, {127, 127 - 30}), 0x1p-30f);
  EXPECT_EQ(product(shape, -1.0f, two, {127, 127 - 35}), 0x1p-35f);
  EXPECT_EQ(product(shape, -1.0f, two, {127, 127 - 36}), 0.0f);
  // Within a group sums are exact: 2^-36 sixteen times is 2^-32.
  std::vector<std::pair<int, int>> many = {{0, 2}};
  for (int k = 16; k < 32; ++k) many.push_back({k, 2});
  EXPECT_EQ(product(shape, -1.0f, many, {127, 127 - 36}), 0x1p-32f);
  // Elements: 6 and -0.5 (codes 7 and 9).
  EXPECT_EQ(product(shape, 0.25f, {{0, 7}, {1, 9}}, {128}), 11.25f);
}

TEST(Tcgen05Product, says_what_hardware_leaves_open) {
  Tcgen05Shape shape;
  shape.kind = mxf8f6f4, shape.m = 128, shape.n = 8, shape.k = 32, shape.a = Operand::e2m1;
  shape.b = Operand::e4m3, shape.scale = ScaleType::ue8m0, shape.scale_vector = 1;
  const auto a = std::make_unique<Tcgen05Rows>(), b = std::make_unique<Tcgen05Rows>();
  a->bytes[9][3] = 0x40;
  std::vector<std::uint32_t> d(128 * 8);
  EXPECT_EQ(tcgen05_product(shape, false, *a, *b, d.data()).padding_a, 9);
  shape.kind = mxf4nvf4, shape.k = 64, shape.b = Operand::e2m1, shape.scale = ScaleType::ue4m3;
  shape.scale_vector = 4;
  b->scales[5][2] = 0x80;
  const Tcgen05Findings found = tcgen05_product(shape, false, *a, *b, d.data());
  EXPECT_EQ(found.scale_sign_b, 5);
  EXPECT_EQ(found.padding_a, -1);
}

TEST(UnpackChunk, spreads_codes_without_gaps) {
  std::uint8_t chunk[16] = {0x21, 0x43, 0, 0, 0, 0, 0, 0, 0xFF}, row[16];
  unpack_chunk(mxf8f6f4, Operand::e2m1, chunk, row);
  EXPECT_EQ(row[0], 1 << 2);
  EXPECT_EQ(row[3], 4 << 2);
  EXPECT_EQ(row[15], 0);
  const std::uint8_t six[16] = {0x41, 0x30, 0x10};  // 1, 1, 3, 4 of 6 bits
  unpack_chunk(mxf8f6f4, Operand::e3m2, six, row);
  EXPECT_EQ(row[0], 1);
  EXPECT_EQ(row[1], 1);
  EXPECT_EQ(row[2], 3);
  EXPECT_EQ(row[3], 4);
  unpack_chunk(mxf4, Operand::e2m1, chunk, row);
  EXPECT_EQ(row[8], 0xFF);
}

}  // namespace
}  // namespace microscale::emulator::tensor
