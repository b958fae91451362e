#include "core/memory_range.hpp"

#include <gtest/gtest.h>

#include <array>

#include "microscale/error.hpp"

namespace microscale {
namespace {

TEST(MemoryRange, overlaps_where_a_byte_is_in_both) {
  const char memory[16] = {};
  const auto range = [&](int first, int bytes) { return MemoryRange{"it", memory + first, bytes}; };
  EXPECT_TRUE(range(0, 8).overlaps(range(7, 1)));
  EXPECT_TRUE(range(7, 1).overlaps(range(0, 8)));
  EXPECT_FALSE(range(0, 8).overlaps(range(8, 8)));
  EXPECT_FALSE(range(0, 8).overlaps(range(4, 0)));
  EXPECT_FALSE((MemoryRange{"none", nullptr, 8}.overlaps({"none", nullptr, 8})));
}

TEST(MemoryRange, names_what_an_output_overlaps) {
  char memory[16] = {};
  const std::array others{MemoryRange{"a", memory, 4}, MemoryRange{"b", memory + 8, 4}};
  EXPECT_NO_THROW(check_apart("sum", {"d", memory + 4, 4}, others));
  try {
    check_apart("sum", {"d", memory + 4, 5}, others);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_STREQ(error.what(), "sum: d overlaps b; give it memory of its own");
  }
}

}  // namespace
}  // namespace microscale
