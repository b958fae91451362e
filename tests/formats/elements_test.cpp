// Every element codec on all 65,536 BF16 inputs and all roundings, against the value-table model.
#include "formats/elements.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/value_table.hpp"

namespace microscale {
namespace {

using test::Digest;
using test::make_float_table;
using test::model_code;
using test::ValueTable;

constexpr Rounding all_roundings[] = {Rounding::nearest_even, Rounding::nearest_away,
                                      Rounding::nearest_toward_zero, Rounding::toward_zero,
                                      Rounding::stochastic};

template <class Codec>
ValueTable table_of();
template <>
ValueTable table_of<E2M1>() {
  return {0, 0.5, 1, 1.5, 2, 3, 4, 6};
}
template <>
ValueTable table_of<E4M3>() {
  return make_float_table(4, 3, 7, 127);
}
template <>
ValueTable table_of<UE4M3>() {
  return make_float_table(4, 3, 7, 127);
}
template <>
ValueTable table_of<E5M2>() {
  return make_float_table(5, 2, 15, 124);
}
template <>
ValueTable table_of<E2M3>() {
  return make_float_table(2, 3, 1, 32);
}
template <>
ValueTable table_of<E3M2>() {
  return make_float_table(3, 2, 3, 32);
}
template <>
ValueTable table_of<E3M0>() {
  return {0, 0.25, 0.5, 1, 2, 4, 8, 16};
}
template <>
ValueTable table_of<Int8>() {
  ValueTable table;
  for (int i = 0; i <= 127; ++i) table.push_back(i / 64.0);
  return table;
}

// What the model's magnitude code and the sign give as a byte of the codec.
template <class Codec>
std::uint8_t signed_code(int magnitude, bool negative) {
  if constexpr (std::is_same_v<Codec, Int8>)
    return static_cast<std::uint8_t>(negative ? -magnitude : magnitude);
  else if constexpr (Codec::sign_bit == 0)
    return static_cast<std::uint8_t>(negative ? 0 : magnitude);
  else
    return static_cast<std::uint8_t>(magnitude | (negative ? Codec::sign_bit : 0));
}

template <class Codec>
class ElementTest : public ::testing::Test {};
using Codecs = ::testing::Types<E2M1, E4M3, E5M2, E2M3, E3M2, E3M0, UE4M3, Int8>;
TYPED_TEST_SUITE(ElementTest, Codecs);

TYPED_TEST(ElementTest, decode_gives_the_value_of_every_code) {
  const ValueTable table = table_of<TypeParam>();
  for (std::size_t code = 0; code < table.size(); ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    EXPECT_EQ(TypeParam::decode(byte), static_cast<float>(table[code])) << "code " << code;
    if (TypeParam::sign_bit) {
      const float negative =
          TypeParam::decode(static_cast<std::uint8_t>(byte | TypeParam::sign_bit));
      EXPECT_EQ(negative, -static_cast<float>(table[code]));
      EXPECT_TRUE(std::signbit(negative)) << "code " << code;
    }
  }
  EXPECT_EQ(TypeParam::max_code, table.size() - 1);
  EXPECT_EQ(TypeParam::max_value, static_cast<float>(table.back()));
  EXPECT_EQ(TypeParam::emax, std::ilogb(TypeParam::max_value));
}

TYPED_TEST(ElementTest, encode_equals_the_model_on_every_bf16_and_rounding) {
  const ValueTable table = table_of<TypeParam>();
  for (Rounding rounding : all_roundings) {
    for (unsigned bits = 0; bits < 65536; ++bits) {
      const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
      const unsigned random = (bits * 2654435761u) >> 16;
      const std::uint8_t code = TypeParam::encode(value, rounding, random);
      if (std::isnan(value)) {
        ASSERT_EQ(code, TypeParam::nan_code);
        continue;
      }
      const std::uint8_t expected =
          signed_code<TypeParam>(model_code(table, value, rounding, random), std::signbit(value));
      ASSERT_EQ(int{code}, int{expected})
          << to_string(rounding) << " of " << value << " (bf16 " << bits << ")";
    }
  }
}

TYPED_TEST(ElementTest, encode_of_decode_is_the_identity) {
  for (int code = 0; code < TypeParam::code_count; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const float value = TypeParam::decode(byte);
    if (!std::isfinite(value)) continue;
    if (std::is_same_v<TypeParam, Int8> && code == 128) continue;  // -2 is decoded, never encoded
    for (Rounding rounding : all_roundings)
      EXPECT_EQ(int{TypeParam::encode(value, rounding, 65535)}, code) << to_string(rounding);
  }
}

TYPED_TEST(ElementTest, ties_and_their_neighbours_round_as_the_model) {
  const ValueTable table = table_of<TypeParam>();
  for (std::size_t i = 0; i + 1 < table.size(); ++i) {
    const auto middle = static_cast<float>((table[i] + table[i + 1]) / 2);
    for (float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e30f)})
      for (Rounding rounding : all_roundings)
        for (unsigned random : {0u, 32767u, 32768u, 65535u})
          ASSERT_EQ(int{TypeParam::encode(value, rounding, random)},
                    model_code(table, value, rounding, random))
              << to_string(rounding) << " of " << value;
  }
}

TEST(Elements, special_codes_are_the_hardware_s) {
  EXPECT_EQ(E2M1::encode(NAN, Rounding::nearest_even), 0x7);
  EXPECT_EQ(E2M1::encode(INFINITY, Rounding::nearest_even), 0x7);
  EXPECT_EQ(E2M1::encode(-INFINITY, Rounding::nearest_even), 0xF);
  EXPECT_EQ(E2M1::encode(-0.0f, Rounding::nearest_even), 0x8);
  EXPECT_EQ(E2M1::encode(-0.25f, Rounding::nearest_even), 0x8);
  EXPECT_EQ(E4M3::encode(NAN, Rounding::nearest_even), 0x7F);
  EXPECT_EQ(E4M3::encode(1e9f, Rounding::nearest_even), 0x7E);
  EXPECT_EQ(E5M2::encode(-INFINITY, Rounding::nearest_even), 0xFB);
  EXPECT_TRUE(std::isnan(E4M3::decode(0x7F)));
  EXPECT_TRUE(std::isnan(E4M3::decode(0xFF)));
  EXPECT_TRUE(std::isinf(E5M2::decode(0x7C)));
  EXPECT_TRUE(std::isnan(E5M2::decode(0x7D)));
  EXPECT_EQ(UE4M3::encode(-3.0f, Rounding::nearest_even), 0);
  EXPECT_EQ(Int8::encode(-100.0f, Rounding::nearest_even), 0x81);
}

TEST(Elements, are_usable_in_constant_expressions) {
  static_assert(E2M1::encode(2.3f, Rounding::nearest_even) == 0x4);
  static_assert(E2M1::decode(0x7) == 6.0f);
  static_assert(E4M3::decode(E4M3::max_code) == 448.0f);
}

TEST(NF4, encodes_to_the_nearest_value) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float value = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) continue;
    const float chosen = NF4::decode(NF4::encode(value, Rounding::nearest_even));
    for (std::uint8_t code = 0; code < 16; ++code)
      ASSERT_LE(std::fabs(value - chosen), std::fabs(value - NF4::decode(code))) << value;
  }
}

// One number per codec and rounding over all BF16 inputs, so that no change of a byte passes
// unseen.
TEST(Elements, outputs_over_all_bf16_have_their_pinned_digests) {
  const auto digest_of = [](auto codec, Rounding rounding) {
    Digest digest;
    for (unsigned bits = 0; bits < 65536; ++bits)
      digest.add(decltype(codec)::encode(bf16_to_float(static_cast<std::uint16_t>(bits)), rounding,
                                         (bits * 2654435761u) >> 16));
    return digest.value();
  };
  struct Row {
    Element element;
    std::uint64_t digests[5];
  };
  constexpr Row rows[] = {
#include "formats/element_digests.inc"
  };
  for (const Row& row : rows)
    for (int r = 0; r < 5; ++r)
      EXPECT_EQ(with_codec(row.element, [&](auto c) { return digest_of(c, all_roundings[r]); }),
                row.digests[r])
          << "element " << static_cast<int>(row.element) << ", " << to_string(all_roundings[r]);
}

}  // namespace
}  // namespace microscale
