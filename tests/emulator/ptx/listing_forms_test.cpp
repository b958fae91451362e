// What a listing's registers hold, against what the machine computes: random chains of shifts,
// masks, fields, sums and products of %tid.x.
#include "emulator/ptx/listing_forms.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/ptx/parse_text.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator::ptx {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  int below(int limit) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int>((state_ >> 33) % static_cast<std::uint64_t>(limit));
  }

 private:
  std::uint64_t state_;
};

/// Instructions that make %r2, .., %r9 of %r1; none makes a negative number or one above 2^31.
std::string chain(Random& random) {
  std::string code = "mov.u32 %r1, %tid.x;\n";
  for (int made = 2; made < 10; ++made) {
    const std::string d = fmt::format("%r{}", made),
                      a = fmt::format("%r{}", 1 + random.below(made - 1)),
                      b = fmt::format("%r{}", 1 + random.below(made - 1));
    const std::string low = fmt::format("and.b32 {}, {}, 1023;", d, d);
    switch (random.below(14)) {
      case 0:
        code += fmt::format("shr.u32 {}, {}, {};", d, a, random.below(7));
        break;
      case 1:
        code += fmt::format("and.b32 {}, {}, {};", d, a, random.below(256));
        break;
      case 2:
        code += fmt::format("and.b32 {}, {}, {};", d, a, -1 - random.below(64));
        break;
      case 3:
        code += fmt::format("xor.b32 {}, {}, {};", d, a, random.below(64));
        break;
      case 4:
        code += fmt::format("xor.b32 {}, {}, {};", d, a, b);
        break;
      case 5:
        code += fmt::format("or.b32 {}, {}, {};", d, a, b);
        break;
      case 6:
        code += fmt::format("shl.b32 {}, {}, {};", d, a, random.below(3));
        break;
      case 7:
        code += fmt::format("bfe.u32 {}, {}, {}, {};", d, a, random.below(6), random.below(6));
        break;
      case 8:
        code +=
            fmt::format("bfi.b32 {}, {}, {}, {}, {};", d, a, b, random.below(8), random.below(6));
        break;
      case 9:
        code += fmt::format("rem.u32 {}, {}, {};", d, a, 1 << random.below(6));
        break;
      case 10:
        code += fmt::format("div.u32 {}, {}, {};", d, a, 1 << random.below(6));
        break;
      case 11:
        code += fmt::format("add.s32 {}, {}, {};", d, a, b);
        break;
      case 12:
        code += fmt::format("mad.lo.s32 {}, {}, {}, {};", d, a, 1 + random.below(5), b);
        break;
      default:
        code += fmt::format("cvt.u16.u32 %rs1, {}; cvt.u32.u16 {}, %rs1;", a, d);
    }
    code += "\n";
  }
  return code;
}

/// Whether the lanes lie as far apart as the machine's, for some values of the choices from `first`
/// on. Distances that depend on a symbol are not looked at.
bool one_choice_holds(const LaneForm& lanes, const std::vector<std::string>& choices,
                      std::size_t first, const std::uint32_t* computed) {
  if (first < choices.size())
    return one_choice_holds(chosen(lanes, choices[first], 0), choices, first + 1, computed) ||
           one_choice_holds(chosen(lanes, choices[first], 1), choices, first + 1, computed);
  for (int lane = 1; lane < 32; ++lane) {
    const auto more = lanes.of_lane(lane).plus(lanes.of_lane(0), -1).constant();
    if (more && static_cast<std::uint32_t>(*more) != computed[lane] - computed[0]) return false;
  }
  return true;
}

TEST(PtxListingForms, are_what_the_machine_computes) {
  int known = 0, all = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Random random(seed);
    const std::string code = chain(random);
    const auto ran = emulator::testing::launch_words(
        emulator::testing::entry(emulator::testing::own_word + code +
                                 "st.global.u32 [%rd32], %r9;"),
        std::vector<std::uint32_t>(128), emulator::testing::shaped(1, 128));
    const Kernel kernel =
        parse_kernel(emulator::testing::registers + code + "ld.shared.b32 %r10, [%r9];");
    const Forms forms(kernel.module, kernel.function);
    std::uint32_t at = 0;
    while (kernel.function.code[at].opcode != "ld") ++at;
    const Form address = forms.address(kernel.function.code[at].operands[1], at);
    LaneForm lanes = forms.lanes(address);
    ++all;
    if (Forms::unknown(address) || lanes.unknown()) continue;
    ++known;
    for (std::size_t warp = 0; warp < 4; ++warp)
      EXPECT_TRUE(one_choice_holds(lanes, choices_in(lanes), 0, &ran.words[32 * warp]))
          << code << "warp " << warp << ": " << address.text();
  }
  EXPECT_GT(known, all / 2);  // or it would prove little
}

}  // namespace
}  // namespace microscale::emulator::ptx
