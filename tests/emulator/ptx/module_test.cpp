#include "emulator/ptx/module.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

TEST(PtxModule, reads_version_target_and_address_size) {
  const Module module =
      take(Module::parse("// c\n.version 9.0\n.target sm_120f, debug\n.address_size 64\n"));
  EXPECT_EQ(module.version(), (Version{9, 0}));
  EXPECT_EQ(module.target(), "sm_120f");
  EXPECT_EQ(module.address_size(), 64);
  EXPECT_TRUE(module.functions().empty());
}

TEST(PtxModule, reads_heads_without_bodies) {
  const Module module = take(Module::parse(head + R"(
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 a, .param .b64 b);
.visible .entry k(.param .u64 p)
.maxntid 256, 1, 1
.minnctapersm 2
.maxnreg 40
.reqntid 128, 2
.explicitcluster
.reqnctapercluster 2, 1, 1
.pragma "nounroll";
{ this is not looked at { "}" } }
.weak .func g .noreturn { }
)"));
  ASSERT_EQ(module.functions().size(), 3u);
  const Function& k = module.functions()[module.find("k").value()];
  EXPECT_TRUE(k.entry && k.visible && k.has_body);
  EXPECT_FALSE(k.parsed);
  EXPECT_EQ(k.line, 6u);
  EXPECT_EQ(k.max_threads.x, 256);
  EXPECT_EQ(k.required_threads.y, 2);
  EXPECT_EQ(k.required_threads.z, 1);
  EXPECT_EQ(k.required_cluster.x, 2);
  EXPECT_TRUE(k.explicit_cluster);
  EXPECT_EQ(k.min_blocks, 2);
  EXPECT_EQ(k.max_registers, 40);
  EXPECT_FALSE(module.functions()[0].has_body);
  EXPECT_EQ(module.functions()[0].results.size(), 1u);
  EXPECT_FALSE(module.find("x"));
  EXPECT_FALSE(module.body(0).ok());
  EXPECT_FALSE(module.body(3).ok());
}

TEST(PtxModule, a_declaration_and_its_body_are_one_function) {
  const Module module =
      take(Module::parse(head + ".func f(.param .b32 a);\n.entry k() { .param .b32 x; call f, (x); "
                                "}\n.func f(.param .b32 b) { ret; }\n"));
  ASSERT_EQ(module.functions().size(), 2u);
  EXPECT_TRUE(module.functions()[0].has_body);
  EXPECT_EQ(module.functions()[0].params[0].name, "b");
  EXPECT_TRUE(module.body(0).ok());
  EXPECT_TRUE(module.body(1).ok());
}

TEST(PtxModule, moving_keeps_what_points_into_the_text) {
  Module first = take(Module::parse(".version 9.0 .target sm_90 .entry k(){ret;}"));
  const Function* body = take(first.body(0));
  const Module second = std::move(first);
  EXPECT_EQ(body->name, "k");
  EXPECT_EQ(second.target(), "sm_90");
  EXPECT_EQ(take(second.body(0)), body);
}

TEST(PtxModule, bodies_are_parsed_once_from_several_threads) {
  const Module module = take(Module::parse(head + ".entry k(){ .reg .b32 r; mov.b32 r, 1; ret; }"));
  std::vector<const Function*> found(8);
  std::vector<std::thread> threads;
  for (auto& each : found) threads.emplace_back([&] { each = take(module.body(0)); });
  for (auto& each : threads) each.join();
  for (const Function* each : found) EXPECT_EQ(each, found[0]);
  EXPECT_EQ(found[0]->code.size(), 2u);
}

TEST(PtxModule, debug_sections_are_skipped) {
  EXPECT_EQ(module_failure(
                head + ".file 1 \"a.cu\"\n.section .debug_abbrev\n{\n.b8 1\n.b32 .debug_str\n}\n"
                       ".section .debug_macinfo { }\n$L__end:\n"),
            "");
}

TEST(PtxModule, module_variables_are_found_by_bodies) {
  const Module module =
      take(Module::parse(head + ".const .align 4 .b8 t[4] = {1};\n.entry k() { .reg .b64 d; "
                                "mov.u64 d, t+2; ld.const.b8 d, [t+1]; }"));
  const Function& k = *take(module.body(0));
  EXPECT_EQ(module.find_variable("t"), 0u);
  EXPECT_EQ(k.code[0].operands[1].scope, Scope::module);
  EXPECT_EQ(k.code[0].operands[1].value, 2);
  EXPECT_EQ(k.code[1].operands[1].base, Operand::Kind::variable);
}

TEST(PtxModule, says_where_and_what_is_wrong) {
  EXPECT_EQ(module_failure(""), "PTX line 1, column 1: no .version");
  EXPECT_EQ(module_failure(".version 9.0"), "PTX line 1, column 13: no .target");
  EXPECT_EQ(module_failure(".version 9"),
            "PTX line 1, column 10: expected a version such as 9.0, found '9'");
  EXPECT_EQ(module_failure(".version 9.0e9"),
            "PTX line 1, column 10: expected a version such as 9.0, found '9.0e9'");
  EXPECT_EQ(module_failure(head + ".address_size 32"),
            "PTX line 4, column 15: only .address_size 64 is supported, got 32");
  EXPECT_EQ(module_failure(head + ".entry k() { ret;"),
            "PTX line 4, column 12: a body or section that starts here has no }");
  EXPECT_EQ(module_failure(head + ".entry k() {} .entry k() {}"),
            "PTX line 4, column 22: 'k' is declared twice");
  EXPECT_EQ(module_failure(head + ".global .b8 k; .entry k() {}"),
            "PTX line 4, column 23: 'k' is declared twice");
  EXPECT_EQ(module_failure(head + ".entry k(.reg .b32 a) {}"),
            "PTX line 4, column 10: parameters in registers are not supported, use .param");
  EXPECT_EQ(module_failure(head + ".alias f, g;"),
            "PTX line 4, column 1: the directive '.alias' is not known");
  EXPECT_EQ(module_failure(head + "/* x"),
            "PTX line 4, column 1: a comment that starts here has no */");
  EXPECT_EQ(module_failure(head + "\xff"),
            "PTX line 4, column 1: the character '\\xff' is not PTX");
  EXPECT_EQ(module_failure(head + ".entry k() .maxntid 4294967296 {}"),
            "PTX line 4, column 21: a number of threads or blocks must be in 0..2147483647, got "
            "4294967296");
}

TEST(PtxModule, every_truncation_is_a_sentence_or_a_module) {
  const std::string text = head + R"(.file 1 "a.cu"
.global .align 4 .b8 t[4] = {1, 2};
.visible .entry k(.param .u64 .ptr .align 1 p) .maxntid 32
{ .reg .pred %p<2>; .reg .b32 %r<9>; .loc 1 2 3
L: @!%p1 mad.lo.s32 %r1, %r2, -4, {%r3, _}; setp.eq.s32 %p0|%p1, [t+4], 0f3F800000; bra L; /* c */ }
)";
  for (std::size_t size = 0; size < text.size(); ++size) {
    const std::string failure = module_failure(text.substr(0, size));
    EXPECT_TRUE(failure.empty() || failure.starts_with("PTX line ")) << failure;
  }
  EXPECT_EQ(module_failure(text), "");
}

}  // namespace
}  // namespace microscale::emulator::ptx
