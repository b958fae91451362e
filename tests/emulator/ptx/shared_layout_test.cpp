#include "emulator/ptx/shared_layout.hpp"

#include <gtest/gtest.h>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

TEST(PtxSharedLayout, holds_what_the_entry_and_its_callees_use) {
  const Module module = take(Module::parse(head + R"(
.shared .align 4 .b8 unused[1000];
.shared .align 16 .b8 used[20];
.extern .shared .align 64 .b8 dynamic[];
.func f() { .shared .align 8 .b8 own[8]; .reg .b32 r; mov.b32 r, own; ld.shared.b32 r, [used+4]; ret; }
.func g() { .shared .b8 other[512]; ret; }
.entry k() { .shared .align 4 .b8 mine[12]; .reg .b64 r; mov.b64 r, dynamic; call f; call f; ret; }
)"));
  const SharedLayout layout = take(shared_layout(module, module.find("k").value()));
  EXPECT_EQ(layout.function_offset[module.find("k").value()], 0);
  EXPECT_EQ(layout.function_offset[module.find("f").value()], 16);
  EXPECT_EQ(layout.function_offset[module.find("g").value()], -1);
  EXPECT_EQ(layout.module_offset[0], -1);
  EXPECT_EQ(layout.module_offset[1], 32);
  EXPECT_EQ(layout.static_bytes, 64);
  EXPECT_EQ(layout.module_offset[2], 64);
}

TEST(PtxSharedLayout, holds_what_functions_use_that_registers_may_name) {
  const Module module = take(Module::parse(head + R"(
.func f() { .shared .align 8 .b8 own[24]; ret; }
.func (.param .b32 r) g() { .shared .b8 other[512]; ret; }
.entry k() { .shared .b8 mine[8]; .reg .b64 r; call r; ret; }
)"));
  const SharedLayout layout = take(shared_layout(module, module.find("k").value()));
  EXPECT_EQ(layout.function_offset[module.find("f").value()], 8);
  EXPECT_EQ(layout.function_offset[module.find("g").value()], -1);
  EXPECT_EQ(layout.static_bytes, 32);
}

TEST(PtxSharedLayout, recursion_ends) {
  const Module module = take(Module::parse(head + ".func f() { call f; }\n.entry k() { call f; }"));
  EXPECT_EQ(take(shared_layout(module, 1)).static_bytes, 0);
  EXPECT_FALSE(shared_layout(module, 2).ok());
}

TEST(PtxSharedLayout, passes_on_what_is_wrong_in_a_callee) {
  const Module module =
      take(Module::parse(head + ".func f() { nonsense }\n.entry k() { call f; }"));
  EXPECT_FALSE(shared_layout(module, 1).ok());
}

}  // namespace
}  // namespace microscale::emulator::ptx
