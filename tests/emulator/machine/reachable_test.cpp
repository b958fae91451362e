#include "emulator/machine/reachable.hpp"

#include "emulator/machine/loaded_module.hpp"
#include "emulator/run_ptx.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

// The program of a kernel `k` with these instructions, the first of which is number 0.
std::shared_ptr<const Program> program_of(const std::string& body) {
  static GlobalMemory memory;
  static std::vector<std::unique_ptr<LoadedModule>> modules;  // programs refer to their texts
  modules.push_back(take(LoadedModule::load(memory, entry(body), "")));
  return take(modules.back()->program("k"));
}

TEST(ReachesWork, follows_branches_and_guards) {
  const auto program = program_of(
      "mov.u32 %r1, 0; @%p1 bra FAR; mov.u32 %r2, 0; bra END; FAR: mov.u32 %r3, 0; END:");
  EXPECT_TRUE(reaches_work(*program, 0, 2, 3));   // through a guarded branch
  EXPECT_TRUE(reaches_work(*program, 0, 4, 5));   // along it
  EXPECT_FALSE(reaches_work(*program, 2, 4, 5));  // past it
  EXPECT_FALSE(reaches_work(*program, 4, 0, 5));  // not backwards
}

TEST(ReachesWork, comes_back_in_a_loop_and_ends_at_an_end) {
  const auto loop =
      program_of("AGAIN: mov.u32 %r1, 0; mov.u32 %r2, 0; @%p1 bra AGAIN; ret; mov.u32 %r3, 0;");
  EXPECT_TRUE(reaches_work(*loop, 1, 0, 1));
  EXPECT_FALSE(reaches_work(*loop, 1, 4, 5));
  const auto guarded = program_of("mov.u32 %r1, 0; @%p1 exit; mov.u32 %r2, 0;");
  EXPECT_TRUE(reaches_work(*guarded, 0, 2, 3));
}

TEST(ReachesWork, branches_and_ends_are_no_work) {
  const auto program = program_of("mov.u32 %r1, 0; bra END; END: ret;");
  EXPECT_FALSE(reaches_work(*program, 0, 1, 3));
}

TEST(ReachesWork, an_indexed_branch_goes_everywhere) {
  const auto program = program_of(
      "mov.u32 %r1, 0; T: .branchtargets A, B; brx.idx %r1, T; A: mov.u32 %r2, 0; ret; "
      "B: mov.u32 %r3, 0;");
  EXPECT_TRUE(reaches_work(*program, 0, 2, 3));
  EXPECT_TRUE(reaches_work(*program, 0, 4, 5));
}

}  // namespace
}  // namespace microscale::emulator
