#include "emulator/memory/atomic_value.hpp"

#include <gtest/gtest.h>

#include <bit>

namespace microscale::emulator {
namespace {

std::uint64_t made(AtomicOp op, AtomicType type, std::uint64_t old, std::uint64_t operand,
                   std::uint64_t compare = 0, bool flush = false) {
  return apply(op, type, {old, 0}, {operand, 0}, {compare, 0}, flush)[0];
}
std::uint64_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

TEST(AtomicValue, integers_wrap_count_and_compare_by_their_type) {
  EXPECT_EQ(made(AtomicOp::add, AtomicType::u32, 0xffffffff, 2), 1u);
  EXPECT_EQ(made(AtomicOp::add, AtomicType::u64, ~0ull, 2), 1u);
  EXPECT_EQ(made(AtomicOp::min, AtomicType::s32, 0xffffffff, 2), 0xffffffffu);
  EXPECT_EQ(made(AtomicOp::min, AtomicType::u32, 0xffffffff, 2), 2u);
  EXPECT_EQ(made(AtomicOp::max, AtomicType::s64, ~0ull, 2), 2u);
  EXPECT_EQ(made(AtomicOp::max, AtomicType::u64, ~0ull, 2), ~0ull);
  EXPECT_EQ(made(AtomicOp::inc, AtomicType::u32, 6, 7), 7u);
  EXPECT_EQ(made(AtomicOp::inc, AtomicType::u32, 7, 7), 0u);
  EXPECT_EQ(made(AtomicOp::dec, AtomicType::u32, 0, 7), 7u);
  EXPECT_EQ(made(AtomicOp::dec, AtomicType::u32, 9, 7), 7u);
  EXPECT_EQ(made(AtomicOp::dec, AtomicType::u32, 5, 7), 4u);
}

TEST(AtomicValue, bits_are_exchanged_compared_and_combined) {
  EXPECT_EQ(made(AtomicOp::exch, AtomicType::b32, 1, 9), 9u);
  EXPECT_EQ(made(AtomicOp::cas, AtomicType::b32, 1, 9, 1), 9u);
  EXPECT_EQ(made(AtomicOp::cas, AtomicType::b64, 1, 9, 2), 1u);
  EXPECT_EQ(made(AtomicOp::bit_and, AtomicType::b32, 12, 10), 8u);
  EXPECT_EQ(made(AtomicOp::bit_or, AtomicType::b32, 12, 10), 14u);
  EXPECT_EQ(made(AtomicOp::bit_xor, AtomicType::b32, 12, 10), 6u);
  const AtomicValue old{1, 2}, other{1, 3}, fresh{8, 9};
  EXPECT_EQ(apply(AtomicOp::cas, AtomicType::b128, old, fresh, old, false), fresh);
  EXPECT_EQ(apply(AtomicOp::cas, AtomicType::b128, old, fresh, other, false), old);
}

TEST(AtomicValue, singles_round_to_even_and_flush_only_when_told) {
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f32, bits(0x1p24f), bits(1.0f)), bits(0x1p24f));
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f32, bits(0x1p-140f), bits(0x1p-140f)),
            bits(0x1p-139f));
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f32, bits(0x1p-140f), bits(0x1p-140f), 0, true), 0u);
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f32, 0x7f800000, 0xff800000), 0x7fffffffu);
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f64, std::bit_cast<std::uint64_t>(1.5),
                 std::bit_cast<std::uint64_t>(2.0)),
            std::bit_cast<std::uint64_t>(3.5));
}

TEST(AtomicValue, halves_are_added_each_on_its_own) {
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f16x2, 0x3c004000, 0x3c003c00),
            0x40004200u);  // 1+1, 2+1
  EXPECT_EQ(made(AtomicOp::add, AtomicType::bf16x2, 0x3f803f80, 0x3f800000),
            0x40003f80u);  // 1+1, 1+0
  EXPECT_EQ(made(AtomicOp::add, AtomicType::f16, 0x7bff, 0x7bff), 0x7c00u);
  EXPECT_EQ(made(AtomicOp::cas, AtomicType::f16, 5, 6, 5), 6u);
}

}  // namespace
}  // namespace microscale::emulator
