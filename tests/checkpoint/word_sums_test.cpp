#include "checkpoint/word_sums.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace microscale {
namespace {

// Words in which the largest code is each of 0 to 6, and any; lengths that are no whole vectors.
TEST(WordSums, all_give_the_same) {
  std::mt19937_64 random(5);
  constexpr std::size_t most = 700;
  std::vector<std::uint8_t> words(8 * most), scales(most);
  std::vector<std::uint64_t> terms(256);
  for (std::uint64_t& term : terms)
    term = step_term(static_cast<double>(random() % 1000) * 0x1p-20);
  for (std::size_t i = 0; i < most; ++i) {
    scales[i] = static_cast<std::uint8_t>(random());
    constexpr std::uint64_t kept[] = {0x8888888888888888, 0x9999999999999999, 0xAAAAAAAAAAAAAAAA,
                                      0xBBBBBBBBBBBBBBBB, 0xCCCCCCCCCCCCCCCC, 0xDDDDDDDDDDDDDDDD,
                                      0xFFFFFFFFFFFFFFFF};
    // From 256 on every word has a 6.
    const std::uint64_t word = i < 256 ? random() & kept[i % 7] : random() | 0x70;
    std::memcpy(words.data() + 8 * i, &word, sizeof word);
  }
  const std::vector<WordSum> sums = word_sums();
  for (const bool packed : {true, false}) {
    for (const std::size_t per_scale : {1, 2, 4}) {
      for (const std::size_t count : {0, 4, 8, 36, 64, 300, 700}) {
        const ScaledWords run{words.data(), scales.data(), terms.data(), count, per_scale,
                              77,           packed};
        const std::uint64_t wanted = sums.front()(run);
        for (std::size_t i = 1; i < sums.size(); ++i) {
          EXPECT_EQ(sums[i](run), wanted) << i << " of " << sums.size() << ", " << count
                                          << " words, " << per_scale << " for each scale";
        }
      }
    }
  }
}

// The definition: 0.5, 1, 1.5, 2 and 3 become 4 and 6 while the step becomes less.
TEST(WordSums, double_codes_and_halve_steps) {
  const auto sum = [](std::uint64_t word, double step) {
    const std::uint64_t term = step_term(step);
    const std::uint8_t scale = 0;
    return word_sums().back()(
        {reinterpret_cast<const std::uint8_t*>(&word), &scale, &term, 1, 1, 3, true});
  };
  const std::uint64_t full = sum(0x0000000000000E67, 1.0);  // -4, 4, 6
  EXPECT_EQ(sum(0x0000000000000C45, 2.0), full);            // -2, 2, 3
  EXPECT_EQ(sum(0x0000000000000A23, 4.0), full);            // -1, 1, 1.5
  EXPECT_EQ(sum(0x0000000000000001, 8.0), sum(0x6, 1.0));   // 0.5, 4
  EXPECT_EQ(sum(0x0000000000000080, 8.0), sum(0x80, 1.0));  // -0 under any step
  EXPECT_NE(sum(0x0000000000000C45, 1.0), full);
  EXPECT_NE(sum(0x0000000000000E67, 1.0), sum(0x0000000000000E76, 1.0));
}

}  // namespace
}  // namespace microscale
