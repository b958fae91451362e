// The path that a thread takes through a kernel, and what is counted on it.
#include "sass/main_path.hpp"

#include <gtest/gtest.h>

#include "sass/listings.hpp"

namespace microscale::testing {
namespace {

/// A kernel of these lines; one that ends in ':' is a label.
sass::Function kernel_of(const std::vector<std::string>& lines) {
  std::string code;
  int at = 0;
  for (const std::string& line : lines)
    code += line.back() == ':' ? line + "\n" : line_of(16 * at++, line);
  return sass::parse_listing(nvdisasm_text("k", code)).functions[0];
}

int instructions(const std::vector<std::string>& lines, const sass::Work& work) {
  const auto path = sass::main_path(kernel_of(lines), work);
  return path ? path->instructions : -1;
}

constexpr const char* load = "LDG.E.128 R4, desc[UR4][R2.64]";
constexpr const char* store = "STG.E.64 desc[UR4][R2.64], R4";
constexpr const char* filler = "IADD3 R0, R0, R1, RZ";

TEST(MainPath, is_the_shortest_that_does_the_work) {
  const std::vector<std::string> lines{"@P0 EXIT", load, store, "EXIT"};
  EXPECT_EQ(instructions(lines, {}), 1);
  EXPECT_EQ(instructions(lines, {.load_bytes = 16, .store_bytes = 8, .evidence = {}}), 4);
  EXPECT_EQ(instructions(lines, {.load_bytes = 17, .store_bytes = 8, .evidence = {}}), -1);
}

TEST(MainPath, goes_round_a_loop_until_all_is_done) {
  const std::vector<std::string> lines{"S2R R0, SR_TID.X",  ".L_x_0:", load, store,
                                       "@P0 BRA `(.L_x_0)", "EXIT"};
  EXPECT_EQ(instructions(lines, {.load_bytes = 64, .store_bytes = 32, .evidence = {}}),
            1 + 4 * 3 + 1);
}

TEST(MainPath, counts_what_evidence_says) {
  const std::vector<std::string> lines{
      "@P0 BRA `(.L_x_0)", "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, R2, RZ",
      "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, R2, R0", ".L_x_0:", "EXIT"};
  const std::vector<sass::Evidence> e2m1{{"F2FP", "E2M1", 2}};
  EXPECT_EQ(instructions(lines, {.converted = 4, .evidence = e2m1}), 4);
  EXPECT_EQ(instructions(lines, {.converted = 5, .evidence = e2m1}), -1);
  EXPECT_EQ(instructions(lines, {.converted = 2, .evidence = {{"F2FP", "E4M3", 2}}}), -1);
}

TEST(MainPath, takes_the_longest_way_of_a_short_detour) {
  std::vector<std::string> lines{"@P0 BRA `(.L_x_0)"};
  for (int i = 0; i < 5; ++i) lines.push_back(filler);
  lines.insert(lines.end(), {"BRA `(.L_x_1)", ".L_x_0:", filler, ".L_x_1:", "EXIT"});
  EXPECT_EQ(instructions(lines, {}), 1 + 5 + 1 + 1);
}

TEST(MainPath, leaves_a_long_detour_out) {
  std::vector<std::string> lines{"@P0 BRA `(.L_x_0)"};
  for (int i = 0; i <= sass::short_detour; ++i) lines.push_back(filler);
  lines.insert(lines.end(), {".L_x_0:", "EXIT"});
  EXPECT_EQ(instructions(lines, {}), 2);
}

TEST(MainPath, counts_what_it_calls) {
  const std::vector<std::string> lines{"CALL.REL.NOINC `($k$f)", "EXIT", "$k$f:", filler, filler,
                                       "RET.REL.NODEC R2 `(k)"};
  EXPECT_EQ(instructions(lines, {}), 2 + 3);
}

TEST(MainPath, may_but_need_not_diverge) {
  const std::vector<std::string> lines{"BRA.DIV UR4, `(.L_x_0)", "EXIT", ".L_x_0:", filler, "EXIT"};
  EXPECT_EQ(instructions(lines, {}), 2);
}

TEST(MainPath, meets_the_barrier) {
  const std::vector<std::string> lines{"@P0 EXIT", filler, "BAR.SYNC.DEFER_BLOCKING 0x0", "EXIT"};
  EXPECT_EQ(instructions(lines, {}), 4);
}

TEST(MainPath, names_its_instructions) {
  const auto path = sass::main_path(
      kernel_of({"@P0 EXIT", load, "BRA `(.L_x_0)", filler, ".L_x_0:", "@P1 EXIT", filler, "EXIT"}),
      {.load_bytes = 16, .evidence = {}});
  ASSERT_TRUE(path);
  EXPECT_EQ(path->code, (std::vector<int>{0, 1, 2, 4}));
}

TEST(MainPath, ends_where_code_loops_for_ever) {
  EXPECT_EQ(instructions({".L_x_0:", "BRA `(.L_x_0)"}, {}), -1);
  EXPECT_EQ(instructions({"CALL.REL.NOINC `($k$f)", "EXIT", "$k$f:", "CALL.REL.NOINC `($k$f)",
                          "RET.REL.NODEC R2 `(k)"},
                         {}),
            -1);
  EXPECT_FALSE(sass::main_path({.name = "empty", .code = {}}, {}));
}

}  // namespace
}  // namespace microscale::testing
