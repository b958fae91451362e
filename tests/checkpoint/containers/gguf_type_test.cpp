#include "checkpoint/containers/gguf_type.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using testing::fails_with;

TEST(GgufType, every_number_finds_its_own_type) {
  std::size_t found = 0;
  for (std::uint32_t number = 0; number < 64; ++number) {
    const GgufTypeInfo* type = find_gguf_type(number);
    if (!type) continue;
    ++found;
    EXPECT_EQ(static_cast<std::uint32_t>(type->type), number);
    EXPECT_EQ(&info(type->type), type);
  }
  EXPECT_EQ(found, all_gguf_types().size());
}

TEST(GgufType, numbers_without_a_type_are_removed_ones_or_unknown) {
  for (const std::uint32_t number : {4u, 5u, 31u, 33u, 36u, 38u}) {
    EXPECT_EQ(find_gguf_type(number), nullptr);
    EXPECT_NE(explain_unknown_gguf_type(number).find("has removed"), std::string::npos) << number;
  }
  EXPECT_NE(explain_unknown_gguf_type(4'000'000'000u).find("newer"), std::string::npos);
}

TEST(GgufType, bytes_follow_from_type_and_shape) {
  const std::vector<std::int64_t> matrix{3, 512};
  EXPECT_EQ(gguf_bytes(GgufType::q4_k, matrix).value(), 6u * 144);
  EXPECT_EQ(gguf_bytes(GgufType::nvfp4, matrix).value(), 24u * 36);
  EXPECT_EQ(gguf_bytes(GgufType::f16, {}).value(), 2u);
  EXPECT_EQ(gguf_bytes(GgufType::q8_0, std::vector<std::int64_t>{0, 32}).value(), 0u);
}

TEST(GgufType, shapes_that_no_file_can_have_are_refused) {
  using Shape = std::vector<std::int64_t>;
  EXPECT_TRUE(fails_with(gguf_bytes(GgufType::q4_k, Shape{2, 128}),
                         "its rows of 128 elements are no whole number of Q4_K blocks of 256"));
  EXPECT_TRUE(fails_with(gguf_bytes(GgufType::f32, Shape{1, -32}), "dimension -32"));
  EXPECT_TRUE(fails_with(gguf_bytes(GgufType::f32, Shape{1LL << 40, 1LL << 40}), "overflows"));
  EXPECT_TRUE(fails_with(gguf_bytes(GgufType::f64, Shape{1LL << 30, 1LL << 31}), "overflows"));
}

}  // namespace
}  // namespace microscale
