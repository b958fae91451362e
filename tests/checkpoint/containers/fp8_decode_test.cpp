#include "checkpoint/containers/fp8_decode.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

// Every code, at every length up to two vectors and more, under factors that make results
// subnormal, infinite and NaN.
TEST(Fp8Decode, is_the_product_of_value_and_factor_in_every_version) {
  std::vector<std::uint8_t> codes(256 + 77);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 3);
  for (const StoredType type : {StoredType::f8_e4m3, StoredType::f8_e5m2}) {
    const auto value = type == StoredType::f8_e4m3 ? E4M3::decode : E5M2::decode;
    for (const DecodeFp8& decoder : fp8_decoders(type)) {
      for (const float factor :
           {1.0f, 0.3f, -0x1.8p-130f, 7e37f, 0.0f, std::numeric_limits<float>::infinity()}) {
        for (std::size_t count = 0; count <= codes.size(); count += count < 40 ? 1 : 73) {
          std::vector<float> wide(count + 1, 5.0f);
          std::vector<std::uint16_t> narrow(count + 1, 5);
          decoder.to_f32(codes.data(), static_cast<std::int64_t>(count), factor, wide.data());
          decoder.to_bf16(codes.data(), static_cast<std::int64_t>(count), factor, narrow.data());
          EXPECT_EQ(wide.back(), 5.0f);
          EXPECT_EQ(narrow.back(), 5);
          for (std::size_t i = 0; i < count; ++i) {
            const float wanted = value(codes[i]) * factor;
            ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(wanted))
                << int{codes[i]} << " times " << factor;
            ASSERT_EQ(narrow[i], float_to_bf16(wanted)) << int{codes[i]} << " times " << factor;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace microscale
