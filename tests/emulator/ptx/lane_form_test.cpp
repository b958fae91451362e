// Shifts and masks, lane by lane, against what they are for numbers: a symbol stands for every
// value of a list.
#include "emulator/ptx/lane_form.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace microscale::emulator::ptx {
namespace {

using Lanes = LaneForm::Lanes;
using Unary = std::function<std::uint64_t(std::uint64_t)>;

constexpr std::int64_t warps[] = {0, 1, 2, 7, 31};

/// `form` for each lane of warp `warp` when %ctaid.x is `block`.
Lanes values(const LaneForm& form, std::int64_t warp, std::int64_t block) {
  Lanes result{};
  for (const auto& [product, coefficients] : form.terms()) {
    std::int64_t factor = 1;
    for (const std::string& symbol : product) {
      EXPECT_TRUE(symbol == "%warp" || symbol == "%ctaid.x") << symbol;
      factor *= symbol == "%warp" ? warp : block;
    }
    for (std::size_t i = 0; i < result.size(); ++i) result[i] += factor * coefficients[i];
  }
  return result;
}

/// Both forms made of known numbers only: the same for all warps and blocks.
void expect_same(const LaneForm& x, const LaneForm& made, const Unary& expected) {
  for (const std::int64_t warp : warps)
    for (const std::int64_t block : {0, 1, 5, 1000}) {
      const Lanes from = values(x, warp, block), to = values(made, warp, block);
      for (std::size_t i = 0; i < 32; ++i)
        ASSERT_EQ(static_cast<std::uint64_t>(to[i]), expected(static_cast<std::uint64_t>(from[i])))
            << "lane " << i << ", warp " << warp << ", block " << block;
    }
}

const Form tid("%tid.x"), block("%ctaid.x");

// %tid of every lane in blocks of every kind of shape, against counting threads.
TEST(LaneForm, numbers_the_threads_of_a_block) {
  const Extent blocks[] = {{32, 4, 1}, {64, 2, 2}, {16, 16, 1}, {8, 4, 1}, {8, 8, 4},
                           {4, 2, 16}, {4, 2, 2},  {1, 64, 1},  {2, 3, 1}, {1, 1, 32}};
  for (const Extent& block : blocks) {
    const LaneSymbols symbols(block);
    const std::int64_t threads = block.x * block.y * block.z;
    for (std::int64_t warp = 0; warp < (threads + 31) / 32; ++warp)
      for (const char axis : {'x', 'y', 'z'}) {
        const std::string name = std::string("%tid.") + axis;
        const LaneForm form = symbols.lanes(Form(name));
        if (form == LaneForm(name)) continue;  // the same for all lanes of a warp
        const Lanes lanes = values(form, warp, 0);
        for (std::int64_t lane = 0; lane < 32 && 32 * warp + lane < threads; ++lane) {
          const std::int64_t thread = 32 * warp + lane, row = thread / block.x;
          std::int64_t wanted = axis == 'x'   ? thread % block.x
                                : axis == 'y' ? row % block.y
                                              : row / block.y;
          std::int64_t got = lanes[static_cast<std::size_t>(lane)];
          // By warp it is known but for what all its lanes share.
          const std::int64_t extent = axis == 'x' ? block.x : axis == 'y' ? block.y : block.z;
          got %= extent, wanted %= extent;
          ASSERT_EQ(got, wanted) << name << " of lane " << lane << ", warp " << warp << ", "
                                 << block.x << " x " << block.y << " x " << block.z;
        }
      }
  }
  EXPECT_TRUE(LaneSymbols({24, 4, 1}).lanes(Form("%tid.x")).unknown());
}

TEST(LaneForm, a_thread_is_a_lane_of_a_warp) {
  const LaneSymbols symbols;
  expect_same(symbols.lanes(tid), symbols.lanes(tid), [](std::uint64_t x) { return x; });
  EXPECT_EQ(values(symbols.lanes(tid), 2, 0)[5], 69);
  EXPECT_TRUE(symbols.lanes(tid).varies());
  EXPECT_FALSE(symbols.lanes(block).varies());
  EXPECT_EQ(symbols.lanes(tid.plus(Form(7))).of_lane(3).text(), "32*%warp + 10");
  const auto square = symbols.lanes(tid).times(symbols.lanes(tid));
  expect_same(symbols.lanes(tid), *square, [](std::uint64_t x) { return x * x; });
}

TEST(LaneForm, shifts_and_masks_are_exact_where_all_lanes_share_the_rest) {
  LaneSymbols symbols;
  // Terms of 32 and more stay apart from the lane's five bits.
  const LaneForm x = symbols.lanes(tid.plus(block, 1024));
  for (int count = 0; count <= 5; ++count) {
    const auto low = symbols.low_bits(x, count, "a"), high = symbols.shifted_right(x, count, "b");
    ASSERT_TRUE(low && high) << count;
    expect_same(x, *low, [&](std::uint64_t v) { return v & ((1u << count) - 1); });
    expect_same(x, *high, [&](std::uint64_t v) { return v >> count; });
  }
  for (const std::uint64_t mask : {0x1cull, 0x15ull, ~3ull, ~0x1full, 31ull, 0ull}) {
    const auto masked = symbols.masked(x, mask, 64, "c");
    ASSERT_TRUE(masked) << mask;
    expect_same(x, *masked, [&](std::uint64_t v) { return v & mask; });
  }
  // Six bits of the thread reach into the warp's number, which is a new symbol; lanes still differ
  // by 1.
  const auto six = symbols.low_bits(symbols.lanes(tid), 6, "d");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->of_lane(9).plus(six->of_lane(8), -1).constant(), 1);
  const auto warp = symbols.shifted_right(symbols.lanes(tid), 6, "e");
  ASSERT_TRUE(warp);
  EXPECT_FALSE(warp->varies());
  // A thread is below 1024.
  EXPECT_EQ(symbols.shifted_right(symbols.lanes(tid), 10, "f"), LaneForm());
  EXPECT_EQ(symbols.low_bits(symbols.lanes(tid), 10, "g"), symbols.lanes(tid));
}

TEST(LaneForm, negative_numbers_shift_like_twos_complement) {
  LaneSymbols symbols;
  const LaneForm x = symbols.lanes(tid.plus(Form(-40)));
  const auto low = symbols.low_bits(x, 3, "a"), high = symbols.shifted_right(x, 2, "b");
  ASSERT_TRUE(low && high);
  expect_same(x, *low, [](std::uint64_t v) { return v & 7; });
  expect_same(x, *high, [](std::uint64_t v) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(v) >> 2);
  });
}

TEST(LaneForm, says_nothing_where_a_carry_depends_on_a_symbol) {
  LaneSymbols symbols;
  const LaneForm sum = symbols.lanes(tid.plus(Form("[width]")));
  EXPECT_FALSE(symbols.low_bits(sum, 5, "a"));
  EXPECT_FALSE(symbols.shifted_right(sum, 5, "b"));
  EXPECT_FALSE(symbols.joined('|', sum, LaneForm(LaneForm::all(1)), "j"));
  const LaneForm eights = symbols.lanes(tid.plus(Form("[width]"), 1).plus(Form("[width]"), 7));
  EXPECT_TRUE(symbols.low_bits(eights, 3, "c"));   // below the symbol's lowest bit
  EXPECT_FALSE(symbols.low_bits(eights, 4, "d"));  // the lane's 8 carries into it
}

TEST(LaneForm, bits_are_joined_where_they_do_not_meet_symbols) {
  LaneSymbols symbols;
  const LaneForm lane(LaneForm::own_number()), base = symbols.lanes(Form().plus(block, 64));
  EXPECT_EQ(symbols.joined('|', base, lane, "j"), base.plus(lane));
  EXPECT_EQ(symbols.joined('^', lane, base, "j"), base.plus(lane));
  EXPECT_EQ(symbols.joined('&', base, lane, "j"), LaneForm());
  const LaneForm both = base.plus(lane);
  const auto swizzled = symbols.joined('^', both, LaneForm(LaneForm::all(21)), "j");
  ASSERT_TRUE(swizzled);
  expect_same(both, *swizzled, [](std::uint64_t v) { return v ^ 21; });
  EXPECT_FALSE(symbols.joined('^', both, LaneForm(LaneForm::all(64)), "j"));
}

TEST(LaneForm, bits_that_all_lanes_share_are_choices_where_they_meet_the_lanes) {
  LaneSymbols symbols;
  Lanes low{};
  for (std::size_t i = 0; i < 32; ++i) low[i] = static_cast<std::int64_t>(i & 6);
  const LaneForm block_number = symbols.lanes(block), lanes(low);
  for (const char op : {'&', '|', '^'}) {
    const auto made = symbols.joined(op, block_number, lanes, "j");
    ASSERT_TRUE(made);
    const std::vector<std::string> bits = choices_in(*made);
    ASSERT_EQ(bits.size(), 2u);  // bits 1 and 2
    for (const std::int64_t number : {0, 1, 2, 5, 6, 7, 100, 1023}) {
      const LaneForm now =
          chosen(chosen(*made, bits[0], number >> 1 & 1), bits[1], number >> 2 & 1);
      const Lanes got = values(now, 0, number);
      for (std::size_t i = 0; i < 32; ++i)
        ASSERT_EQ(got[i], op == '&'   ? number & low[i]
                          : op == '|' ? number | low[i]
                                      : number ^ low[i])
            << op << " of " << number;
    }
  }
  EXPECT_FALSE(symbols.joined('^', block_number, LaneForm(LaneForm::own_number()), "j"));  // 5 bits
}

TEST(LaneForm, a_choice_is_0_or_1) {
  LaneSymbols symbols;
  const Form choice = symbols.choice("%r1");
  const LaneForm both = symbols.lanes(*tid.times(choice)->times(choice)).plus(symbols.lanes(block));
  ASSERT_EQ(choices_in(both), std::vector<std::string>{choice.text()});
  EXPECT_EQ(chosen(both, choice.text(), 0), symbols.lanes(block));
  EXPECT_EQ(chosen(both, choice.text(), 1), symbols.lanes(tid.plus(block)));
  EXPECT_TRUE(choices_in(symbols.lanes(tid)).empty());
}

TEST(LaneForm, a_defined_symbol_stands_for_its_lanes) {
  LaneSymbols symbols;
  const auto low = symbols.low_bits(symbols.lanes(tid), 2, "a");
  const Form named = symbols.define("(%tid.x & 3)", *low);
  EXPECT_EQ(named.text(), "(%tid.x & 3)");
  EXPECT_TRUE(symbols.has_lanes(named));
  EXPECT_FALSE(symbols.has_lanes(block));
  EXPECT_EQ(symbols.lanes(named), *low);
  EXPECT_TRUE(symbols.changed());
  symbols.define("(%tid.x & 3)", *low);
  EXPECT_FALSE(symbols.changed());
  symbols.define("(%tid.x & 3)", LaneForm());
  EXPECT_TRUE(symbols.changed());
}

}  // namespace
}  // namespace microscale::emulator::ptx
