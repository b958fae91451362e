#include "cuda/device/operands.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "fake_device.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

TEST(Operands, reading_the_same_memory_twice_is_no_overlap) {
  test::FakeDevice device(9, 0);
  const auto memory = std::make_unique<test::Aligned>();
  std::array<Operand, 2> operands{Operand{"a", memory->bytes, 64, false},
                                  Operand{"b", memory->bytes + 32, 64, false}};
  EXPECT_NO_THROW(check_operands(device, "test", operands));
  operands[1].written = true;
  test::expect_error(ErrorCode::invalid_argument, "test: a (64 bytes) and b (64 bytes) overlap",
                     [&] { check_operands(device, "test", operands); });
  operands[1].data = memory->bytes + 64;
  EXPECT_NO_THROW(check_operands(device, "test", operands));
}

TEST(Operands, extent_ends_with_the_last_element) {
  EXPECT_EQ(extent_bytes(3, 10, 16, 2), (2 * 16 + 10) * 2);
  EXPECT_EQ(extent_bytes(0, 10, 16, 2), 0);
}

TEST(Operands, one_row_may_have_any_stride) {
  EXPECT_NO_THROW(check_row_stride("test", 1, 7, 2));
  test::expect_error(ErrorCode::invalid_argument, "a multiple of 4 elements",
                     [] { check_row_stride("test", 2, 6, 4); });
}

}  // namespace
}  // namespace microscale::cuda
