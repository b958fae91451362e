#include "checkpoint/containers/gguf_value.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/containers/gguf_builder.hpp"
#include "checkpoint/containers/gguf_header.hpp"
#include "checkpoint/support.hpp"

namespace microscale {
namespace {

using namespace testing;
using enum GgufValueType;

// The header of a file whose metadata is the one value "v".
GgufHeader with_value(const std::string& type_and_bytes) {
  const std::string file = GgufBuilder().value("v", type_and_bytes).file();
  return take(parse_gguf_header({file.begin(), file.end()}, file.size()));
}

TEST(GgufValue, numbers_of_every_type) {
  const auto expect = [](const std::string& bytes, double number,
                         std::optional<std::uint64_t> whole, const std::string& shown) {
    const GgufHeader header = with_value(bytes);
    const GgufValue& value = *header.find("v");
    EXPECT_EQ(value.number(), number) << shown;
    EXPECT_EQ(value.whole(), whole) << shown;
    EXPECT_EQ(value.shown(), shown);
    EXPECT_FALSE(value.text() || value.boolean()) << shown;
  };
  expect(gguf_number<std::uint8_t>(u8, 200), 200, 200, "200");
  expect(gguf_number<std::int8_t>(i8, -2), -2, std::nullopt, "-2");
  expect(gguf_number<std::uint16_t>(u16, 65535), 65535, 65535, "65535");
  expect(gguf_number<std::int16_t>(i16, -32768), -32768, std::nullopt, "-32768");
  expect(gguf_u32(4294967295u), 4294967295.0, 4294967295u, "4294967295");
  expect(gguf_number<std::int32_t>(i32, 7), 7, 7, "7");
  expect(gguf_number<std::uint64_t>(u64, ~std::uint64_t{0}), 0x1p64, ~std::uint64_t{0},
         "18446744073709551615");
  expect(gguf_number<std::int64_t>(i64, -1), -1, std::nullopt, "-1");
  expect(gguf_number<float>(f32, 0.5f), 0.5, std::nullopt, "0.5");
  expect(gguf_number<double>(f64, 1e-300), 1e-300, std::nullopt, "1e-300");
}

TEST(GgufValue, truth_and_text) {
  const GgufHeader truth = with_value(gguf_number<std::uint8_t>(boolean, 1));
  EXPECT_EQ(truth.find("v")->boolean(), true);
  EXPECT_EQ(truth.find("v")->shown(), "true");
  EXPECT_FALSE(truth.find("v")->number());
  const GgufHeader text = with_value(gguf_text("llama"));
  EXPECT_EQ(text.find("v")->text(), "llama");
  EXPECT_FALSE(text.find("v")->whole());
}

TEST(GgufValue, arrays_are_gone_through_element_by_element) {
  std::string numbers;
  for (std::int16_t i = 0; i < 20; ++i) numbers += little_endian(i);
  const GgufHeader header = with_value(gguf_array(i16, 20, numbers));
  GgufElements elements(*header.find("v"));
  std::uint64_t sum = 0, count = 0;
  while (const auto element = elements.next()) {
    sum += element->whole().value();
    ++count;
  }
  EXPECT_EQ(count, 20u);
  EXPECT_EQ(sum, 190u);
  EXPECT_EQ(header.find("v")->shown(3), "[0, 1, 2, ... 20 in all]");
}

TEST(GgufValue, strings_and_arrays_within_arrays) {
  const GgufHeader texts = with_value(gguf_texts({"a", "", "\xC4\xA0the"}));
  GgufElements words(*texts.find("v"));
  EXPECT_EQ(words.next()->text(), "a");
  EXPECT_EQ(words.next()->text(), "");
  EXPECT_EQ(words.next()->text(), "\xC4\xA0the");
  EXPECT_FALSE(words.next());

  // [[1, 2], [], [3]]: the inner arrays without the type of the outer one.
  const auto inner = [](std::uint64_t count, const std::string& bytes) {
    return gguf_array(u8, count, bytes).substr(4);
  };
  const GgufHeader nested =
      with_value(gguf_array(array, 3, inner(2, "\x01\x02") + inner(0, "") + inner(1, "\x03")));
  EXPECT_EQ(nested.find("v")->shown(), "[[1, 2], [], [3]]");
  GgufElements rows(*nested.find("v"));
  EXPECT_EQ(rows.next()->count, 2u);
  EXPECT_EQ(rows.next()->count, 0u);
  EXPECT_EQ(rows.next()->shown(), "[3]");
  EXPECT_FALSE(rows.next());
}

TEST(GgufValue, what_is_no_array_has_no_elements) {
  const GgufHeader header = with_value(gguf_u32(3));
  EXPECT_FALSE(GgufElements(*header.find("v")).next());
}

}  // namespace
}  // namespace microscale
