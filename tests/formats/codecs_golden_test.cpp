// The element codecs against ml_dtypes: all 65,536 BF16 and FP16 inputs but NaN, nearest even,
// saturating, by the digest of the codes.
#include <gtest/gtest.h>

#include "formats/elements.hpp"
#include "formats/golden.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

template <class Codec>
std::uint64_t digest(bool bf16) {
  std::uint64_t value = 0xCBF29CE484222325u;  // FNV-1a
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float input = bf16 ? bf16_to_float(half) : f16_to_float(half);
    if (input != input) continue;
    value = (value ^ Codec::encode(input, Rounding::nearest_even)) * 0x100000001B3u;
  }
  return value;
}

TEST(MlDtypes, codes_of_all_sixteen_bit_inputs_have_the_same_digest) {
  std::ifstream stream(golden::path("ml_dtypes_codecs"));
  int checked = 0;
  for (std::string text; std::getline(stream, text);) {
    std::istringstream fields(text);
    std::string word, element, source, expected;
    fields >> word >> element >> source >> expected;
    if (word != "codec") continue;
    const bool bf16 = source == "bf16";
    const std::uint64_t ours = element == "e2m1"   ? digest<E2M1>(bf16)
                               : element == "e4m3" ? digest<E4M3>(bf16)
                               : element == "e5m2" ? digest<E5M2>(bf16)
                               : element == "e2m3" ? digest<E2M3>(bf16)
                                                   : digest<E3M2>(bf16);
    EXPECT_EQ(ours, std::stoull(expected, nullptr, 16)) << element << " from " << source;
    ++checked;
  }
  EXPECT_EQ(checked, 10);
}

}  // namespace
}  // namespace microscale
