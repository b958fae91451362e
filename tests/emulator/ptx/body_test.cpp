#include "emulator/ptx/body.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

using Kind = Operand::Kind;

const std::string regs =
    ".reg .pred %p<4>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .b32 %f<16>; .reg "
    ".b128 x;\n";

TEST(PtxBody, instruction_keeps_opcode_modifiers_guard_and_line) {
  const Kernel k =
      parse_kernel(regs + "@!%p1 ld.global.nc.L1::no_allocate.v2.b32 {%r0, _}, [%d1+-16];");
  const Instruction& load = k[0];
  EXPECT_EQ(load.opcode, "ld");
  EXPECT_EQ(load.modifiers,
            (std::vector<std::string_view>{"global", "nc", "L1::no_allocate", "v2", "b32"}));
  EXPECT_TRUE(load.guard.present && load.guard.negated);
  EXPECT_EQ(k.function.registers[load.guard.reg].name, "%p1");
  EXPECT_EQ(load.line, 6u);
  ASSERT_EQ(load.operands.size(), 2u);
  EXPECT_EQ(load.operands[0].kind, Kind::vector);
  EXPECT_EQ(load.operands[0].parts[1].kind, Kind::sink);
  EXPECT_EQ(load.operands[1].kind, Kind::address);
  EXPECT_EQ(load.operands[1].base, Kind::reg);
  EXPECT_EQ(load.operands[1].value, -16);
}

TEST(PtxBody, literals_take_the_type_of_the_instruction) {
  const Kernel k = parse_kernel(
      regs +
      ".reg .f64 e; mov.f32 %f0, 1.5; mov.f64 e, 0f3F800000; mov.f32 %f0, 0d3FF0000000000000;"
      "mov.b32 %r0, -5; mov.b64 %d0, 0xffffffffffffffff; mov.f32 %f0, -0f3F800000;"
      "mov.u32 %r0, WARP_SZ;");
  EXPECT_EQ(k.operand(0, 1).kind, Kind::real32);
  EXPECT_EQ(k.operand(0, 1).value, std::bit_cast<std::int32_t>(1.5f));
  EXPECT_EQ(k.operand(1, 1).kind, Kind::real64);
  EXPECT_EQ(k.operand(1, 1).value, std::bit_cast<std::int64_t>(1.0));
  EXPECT_EQ(k.operand(2, 1).kind, Kind::real32);
  EXPECT_EQ(k.operand(2, 1).value, std::bit_cast<std::int32_t>(1.0f));
  EXPECT_EQ(k.operand(3, 1).value, -5);
  EXPECT_EQ(k.operand(4, 1).value, -1);
  EXPECT_EQ(k.operand(5, 1).value, 0xBF800000);
  EXPECT_EQ(k.operand(6, 1).value, 32);
}

TEST(PtxBody, two_predicates_and_sinks) {
  const Kernel k =
      parse_kernel(regs +
                   "setp.lt.and.s32 %p0|%p1, %r0, 1, !%p2; elect.sync _|%p0, -1;"
                   "match.all.sync.b32 %r0|%p0, %r1, -1; mbarrier.arrive.shared.b64 _, [%r0], 1;");
  EXPECT_TRUE(k[0].two_predicates);
  ASSERT_EQ(k[0].operands.size(), 5u);
  EXPECT_TRUE(k.operand(0, 4).negated);
  EXPECT_TRUE(k[1].two_predicates);
  EXPECT_EQ(k.operand(1, 0).kind, Kind::sink);
  EXPECT_TRUE(k[2].two_predicates);
  EXPECT_FALSE(k[3].two_predicates);
}

TEST(PtxBody, special_registers_have_components) {
  const Kernel k = parse_kernel(
      regs + "mov.u32 %r0, %ctaid.y; mov.u32 %r0, %laneid; mov.u32 %r0, %cluster_ctaid.z;");
  EXPECT_EQ(k.operand(0, 1).special, SpecialRegister::ctaid);
  EXPECT_EQ(k.operand(0, 1).component, 1);
  EXPECT_EQ(k.operand(1, 1).special, SpecialRegister::laneid);
  EXPECT_EQ(k.operand(2, 1).component, 2);
  EXPECT_NE(body_failure(regs + "mov.u32 %r0, %tid;").find("expected .x, .y or .z behind %tid"),
            std::string::npos);
  EXPECT_NE(body_failure(regs + "mov.u32 %r0, %tid.w;").find(".x, .y or .z"), std::string::npos);
}

TEST(PtxBody, vectors_move_both_ways) {
  const Kernel k = parse_kernel(
      regs +
      ".reg .b8 b; mov.b64 {%r0, %r1}, %d0; mov.b64 %d0, {%r1, 0}; mov.b16 {b, _}, %h0;"
      "mov.b128 x, {%d0, %d1};");
  EXPECT_EQ(k.operand(0, 0).parts.size(), 2u);
  EXPECT_EQ(k.operand(1, 1).parts[1].kind, Kind::integer);
  EXPECT_EQ(k.operand(2, 0).parts[1].kind, Kind::sink);
  EXPECT_EQ(k.operand(3, 1).parts.size(), 2u);
}

TEST(PtxBody, block_scaled_mma_in_both_orders_of_modifiers) {
  const std::string operands =
      " {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7}, "
      "%r6, {0, 1}, %r7, {%h0, %h1};";
  const Kernel k = parse_kernel(regs +
                                "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X."
                                "m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3" +
                                operands +
                                "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale."
                                "scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3" +
                                operands);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(k[i].has("kind::mxf4nvf4"));
    ASSERT_EQ(k[i].operands.size(), 8u);
    EXPECT_EQ(k.operand(i, 5).parts[1].value, 1);
    EXPECT_EQ(k.operand(i, 7).parts[0].kind, Kind::reg);
  }
}

TEST(PtxBody, tensor_addresses_carry_coordinates) {
  const Kernel k = parse_kernel(
      regs +
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%r0], [%d0, {%r1, 7}], [%r3];");
  EXPECT_TRUE(k[0].has("mbarrier::complete_tx::bytes"));
  ASSERT_EQ(k.operand(0, 1).parts.size(), 2u);
  EXPECT_EQ(k.operand(0, 1).base, Kind::reg);
  EXPECT_EQ(k.operand(0, 1).parts[1].value, 7);
}

TEST(PtxBody, scopes_redeclare_registers) {
  const Kernel k =
      parse_kernel(regs +
                   "{ .reg .f32 x, y; mov.f32 x, y; }\n{ .reg .f32 x; mov.f32 x, 0f00000000; }\n"
                   "mov.b128 x, x; { .reg .b32 %r<2>; mov.b32 %r1, %r5; }");
  EXPECT_NE(k.operand(0, 0).index, k.operand(1, 0).index);
  EXPECT_NE(k.operand(2, 0).index, k.operand(0, 0).index);
  EXPECT_EQ(k.function.registers[k.operand(2, 0).index].type, Type::b128);
  EXPECT_NE(
      body_failure("{ .reg .b32 t; } mov.b32 t, 0;").find("line 5, column 26: unknown name 't'"),
      std::string::npos);
}

TEST(PtxBody, labels_are_scoped_and_may_come_later) {
  const Kernel k = parse_kernel(
      regs +
      "bra L;\n{ L: bra.uni L; }\n{ bra L; L: mov.b32 %r0, 1; }\nL: { @%p0 bra END; }\nEND:");
  EXPECT_EQ(k.operand(0, 0).kind, Kind::label);
  EXPECT_EQ(k.operand(0, 0).index, 4u);
  EXPECT_EQ(k.operand(1, 0).index, 1u);
  EXPECT_EQ(k.operand(2, 0).index, 3u);
  EXPECT_EQ(k.operand(4, 0).index, k.function.code.size());
  EXPECT_NE(body_failure("{ L: ret; } bra L;").find("'L' is no label of this function"),
            std::string::npos);
  EXPECT_NE(body_failure("L: L: ret;").find("the label 'L' stands twice"), std::string::npos);
}

TEST(PtxBody, branch_tables_become_labels) {
  const Kernel k = parse_kernel(regs + "T: .branchtargets A, B; brx.idx %r0, T; A: ret; B: ret;");
  ASSERT_EQ(k.operand(0, 1).parts.size(), 2u);
  EXPECT_EQ(k.operand(0, 1).parts[0].index, 1u);
  EXPECT_EQ(k.operand(0, 1).parts[1].index, 2u);
  EXPECT_NE(body_failure(regs + "A: brx.idx %r0, A;").find("no .branchtargets list"),
            std::string::npos);
}

TEST(PtxBody, variables_have_offsets_by_space) {
  const Kernel k = parse_kernel(
      ".shared .align 4 .b8 a[3]; .shared .align 16 .b8 b[16]; .local .align 8 .b8 depot[24];\n"
      "{ .param .b32 c; .param .align 16 .b8 d[16]; st.param.b32 [c+0], 0; }\n"
      "ld.param.u64 _, [p];");
  const auto& all = k.function.variables;
  ASSERT_EQ(all.size(), 7u);
  EXPECT_EQ(all[3].name, "b");
  EXPECT_EQ(all[3].offset, 16);
  EXPECT_EQ(k.function.shared_bytes, 32);
  EXPECT_EQ(k.function.local_bytes, 24);
  EXPECT_EQ(all[5].offset, 12);  // behind p and q
  EXPECT_EQ(all[6].offset, 16);
  EXPECT_EQ(k.function.param_bytes, 32);
  EXPECT_EQ(k.operand(0, 0).base, Kind::variable);
  EXPECT_EQ(k.operand(1, 1).index, 0u);
}

TEST(PtxBody, calls_name_function_results_and_arguments) {
  const std::string before = ".func (.param .b32 r) f(.param .b64 a, .param .b32 b);\n.func g();\n";
  const std::string pass = "{ .param .b64 a; .param .b32 b; .param .b32 r;\n";
  const Kernel k =
      parse_kernel(pass + "call.uni (r), f, (a, b); call g; call.uni g, (); }", before);
  ASSERT_EQ(k[0].operands.size(), 3u);
  EXPECT_EQ(k.operand(0, 0).parts.size(), 1u);
  EXPECT_EQ(k.operand(0, 1).kind, Kind::function);
  EXPECT_EQ(k.module.functions()[k.operand(0, 1).index].name, "f");
  EXPECT_EQ(k.operand(0, 2).parts.size(), 2u);
  EXPECT_EQ(k[1].operands.size(), 3u);
  const auto failure = [&](const std::string& call) {
    return module_failure(head + before + ".entry k() {\n.reg .b64 d;" + pass + call + " } }");
  };
  EXPECT_NE(failure("call (r), f, (a);").find("'f' has 2 parameters, the call gives 1"),
            std::string::npos);
  EXPECT_NE(failure("call (a), f, (a, b);").find("number 1 has 4 bytes, the call's has 8"),
            std::string::npos);
  EXPECT_NE(failure("call (r), h, (a, b);").find("'h' is no function of this module"),
            std::string::npos);
  EXPECT_EQ(failure("call (r), d, (a, b), proto;"), "");
  EXPECT_NE(failure("call (r), d, (a, d), proto;").find("only .param variables"),
            std::string::npos);
  EXPECT_NE(failure("call (r), a, (a, b), proto;").find("'a' is no function and no register"),
            std::string::npos);
  EXPECT_NE(failure("call k;").find("'k' is an entry"), std::string::npos);
  EXPECT_NE(failure("call (r), f, (d, b);").find("only .param variables"), std::string::npos);
}

TEST(PtxBody, lines_of_the_source_follow_loc) {
  const std::string files = ".file 7 \"a.cu\"\n.file 9 \"b.cuh\", 1, 2\n";
  const Kernel k = parse_kernel(
      ".loc 9 110 3, function_name $L__info_string0, inlined_at 7 14 5\nret;\n"
      ".loc 7 15 1, function_name L+12, inlined_at 7 14 5\nret;\n.loc 3 1 1\nret;",
      files);
  EXPECT_EQ(k[0].source.line, 110u);
  EXPECT_EQ(k.module.files()[k[0].source.file - 1u], "b.cuh");
  EXPECT_EQ(k.module.files()[k[1].source.file - 1u], "a.cu");
  EXPECT_EQ(k[2].source.file, 0);
  EXPECT_EQ(k.module.files()[k[0].source.outer_file - 1u], "a.cu");
  EXPECT_EQ(k[0].source.outer_line, 14u);
  EXPECT_EQ(k[2].source.outer_file, 0);
}

TEST(PtxBody, inlined_lines_know_the_outermost_call) {
  const std::string files = ".file 7 \"a.cu\"\n.file 9 \"b.cuh\"\n.file 4 \"c.cuh\"\n";
  const Kernel k = parse_kernel(
      ".loc 7 3 1\nret;\n.loc 9 20 2, function_name L, inlined_at 7 5 9\nret;\n"
      ".loc 4 30 3, function_name M, inlined_at 9 20 2\nret;",
      files);
  EXPECT_EQ(k[0].source.outer_file, 0);
  EXPECT_EQ(k[2].source.line, 30u);
  EXPECT_EQ(k.module.files()[k[2].source.outer_file - 1u], "a.cu");
  EXPECT_EQ(k[2].source.outer_line, 5u);
}

TEST(PtxBody, says_where_and_what_is_wrong) {
  EXPECT_EQ(body_failure("mov.b32 %r1, 0;"), "PTX line 5, column 9: unknown name '%r1'");
  EXPECT_EQ(body_failure("ret"), "PTX line 6, column 1: expected an operand, found '}'");
  EXPECT_EQ(body_failure(regs + "@%r0 ret;"),
            "PTX line 6, column 2: the guard '%r0' is not a predicate");
  EXPECT_EQ(body_failure(regs + "mov.b32 %r0, !%r1;"),
            "PTX line 6, column 15: '%r1' is not a predicate");
  EXPECT_EQ(body_failure(regs + "mov.b32 %r0, {{0}};"),
            "PTX line 6, column 15: expected an element of a vector, found '{'");
  EXPECT_EQ(body_failure(regs + "ld.b32 %r0, [%r1"),
            "PTX line 7, column 1: expected ']' behind an address, found '}'");
  EXPECT_EQ(body_failure(".reg .b32 a; .reg .b32 a;"),
            "PTX line 5, column 24: 'a' is declared twice");
  EXPECT_EQ(body_failure(".reg .v4 .f32 a;"),
            "PTX line 5, column 6: expected the type of a register, such as .b32, found '.v4'");
  EXPECT_EQ(body_failure(".tex x;"),
            "PTX line 5, column 1: the directive '.tex' is not known in a body");
  EXPECT_EQ(body_failure(regs + "mov.b32 %r1, 0x1g;"),
            "PTX line 6, column 14: '0x1g' is not a number");
  EXPECT_EQ(body_failure(regs + "mov.b32 %r1 5;"),
            "PTX line 6, column 13: expected ',' or ';' behind an operand of mov, found '5'");
}

TEST(PtxBody, hostile_sizes_are_sentences) {
  EXPECT_NE(body_failure(".reg .b32 %r<1099511627776>;")
                .find("a number of registers must be in 0..16777216, got 1099511627776"),
            std::string::npos);
  EXPECT_NE(body_failure(std::string(100000, '{') + std::string(100000, '}'))
                .find("braces nested deeper than 256"),
            std::string::npos);
  EXPECT_NE(body_failure(".shared .b8 a[68719476736]; .shared .b8 b;")
                .find("more than 64 GiB of variables"),
            std::string::npos);
  EXPECT_NE(body_failure(".pragma \"x\", ;").find("expected a string behind .pragma"),
            std::string::npos);
  std::string signs = ".reg .b32 r; mov.b32 r, " + std::string(100001, '-') + "5;";
  EXPECT_EQ(body_failure(signs), "");
}

}  // namespace
}  // namespace microscale::emulator::ptx
