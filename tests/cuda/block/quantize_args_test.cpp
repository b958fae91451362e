// The three numbers of each rule give the bytes of e8m0_from_amax.
#include "cuda/block/quantize_args.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"

namespace microscale::cuda {
namespace {

// As a kernel computes it: normal magnitudes as args.hpp states; among subnormals only a rule that
// subtracts no emax can differ from 0, which it does above 2^-127 if it rounds up.
int byte_of(const E8m0Rule& rule, std::uint32_t bits) {
  if (bits == 0) return rule.zero_byte;
  if (bits < 0x00800000u && rule.emax == 0) return rule.addend != 0 && bits > 0x00400000u;
  const int byte =
      static_cast<int>((bits + static_cast<std::uint32_t>(rule.addend)) >> 23) - rule.emax;
  return std::clamp(byte, 0, 254);
}

template <class Codec>
void expect_same_bytes() {
  for (ScaleRule rule : scale_rules(Format::mxfp4)) {
    const E8m0Rule numbers = e8m0_rule<Codec>(rule);
    for (std::uint32_t high = 0; high < 0x7F80u; ++high) {
      for (std::uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0xFFFFu}) {
        const std::uint32_t bits = high << 16 | low;
        ASSERT_EQ(byte_of(numbers, bits), e8m0_from_amax<Codec>(rule, std::bit_cast<float>(bits)))
            << to_string(rule) << ' ' << std::hex << bits;
      }
    }
  }
}

TEST(E8m0Rule, gives_the_reference_byte_for_every_magnitude_of_e2m1) { expect_same_bytes<E2M1>(); }
TEST(E8m0Rule, gives_the_reference_byte_for_every_magnitude_of_e4m3) { expect_same_bytes<E4M3>(); }
TEST(E8m0Rule, gives_the_reference_byte_for_every_magnitude_of_e5m2) { expect_same_bytes<E5M2>(); }

}  // namespace
}  // namespace microscale::cuda
