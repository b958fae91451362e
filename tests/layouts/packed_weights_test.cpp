// Where the parts of packed weights lie.
#include "layouts/packed_weights.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(PackedWeightsLayout, parts_follow_each_other_at_multiples_of_64) {
  const BlockShape shape{3, 96, Format::mxfp4};  // 48 bytes of codes and 3 scales a row
  const packed_weights::Parts plain(shape, false), gated(shape, true);
  EXPECT_EQ(plain.codes_at(0), 64);
  EXPECT_EQ(plain.code_bytes, 192);
  EXPECT_EQ(plain.scales_at(0), 64 + 192);
  EXPECT_EQ(plain.codes_at(1), 64 + 192 + 64);
  EXPECT_EQ(plain.total(2), 64 + 2 * (192 + 64));
  EXPECT_EQ(gated.code_bytes, 320);
  EXPECT_EQ(gated.scales_at(1), 64 + 320 + 64 + 320);
}

TEST(PackedWeightsLayout, takes_at_most_six_tenths_of_a_byte_per_element_of_a_real_layer) {
  for (Format format : {Format::mxfp4, Format::nvfp4}) {
    const BlockShape shape{4096, 14336, format};
    const double elements = 4096.0 * 14336.0;
    EXPECT_LT(static_cast<double>(packed_weights::Parts(shape, false).total(1)), 0.6 * elements);
    EXPECT_GT(static_cast<double>(packed_weights::Parts(shape, false).total(1)), 0.53 * elements);
  }
}

}  // namespace
}  // namespace microscale
