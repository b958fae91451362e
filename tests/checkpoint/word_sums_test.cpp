#include "checkpoint/word_sums.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace microscale {
namespace {

// Words in which the largest code is each of 0 to 6, and any; lengths that are no whole vectors.
TEST(WordSums, all_give_the_same) {
  std::mt19937_64 random(5);
  std::vector<std::uint8_t> words(8 * 301);
  std::vector<std::uint64_t> steps(301);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i] = step_term(static_cast<double>(random() % 1000) * 0x1p-20);
    constexpr std::uint64_t kept[] = {0x8888888888888888, 0x9999999999999999, 0xAAAAAAAAAAAAAAAA,
                                      0xBBBBBBBBBBBBBBBB, 0xCCCCCCCCCCCCCCCC, 0xDDDDDDDDDDDDDDDD,
                                      0xFFFFFFFFFFFFFFFF};
    const std::uint64_t word = random() & kept[i % 7];
    std::memcpy(words.data() + 8 * i, &word, sizeof word);
  }
  const std::vector<WordSum> sums = word_sums();
  for (const bool packed : {true, false}) {
    for (const std::size_t count : {0, 1, 7, 8, 9, 64, 301}) {
      const std::uint64_t wanted = sums.front()(words.data(), steps.data(), count, 77, packed);
      for (std::size_t i = 1; i < sums.size(); ++i) {
        EXPECT_EQ(sums[i](words.data(), steps.data(), count, 77, packed), wanted)
            << i << " of " << sums.size() << ", " << count << " words";
      }
    }
  }
}

// The definition: 0.5, 1, 1.5, 2 and 3 become 4 and 6 while the step becomes less.
TEST(WordSums, double_codes_and_halve_steps) {
  const auto sum = [](std::uint64_t word, double step) {
    const std::uint64_t term = step_term(step);
    return word_sums().back()(reinterpret_cast<const std::uint8_t*>(&word), &term, 1, 3, true);
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
