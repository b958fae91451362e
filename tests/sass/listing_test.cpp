// Disassemblies as functions and instructions.
#include "sass/listing.hpp"

#include <gtest/gtest.h>

#include "microscale/error.hpp"
#include "sass/listings.hpp"

namespace microscale::testing {
namespace {

const std::string small = nvdisasm_text(
    "kernel", line_of(0x00, "LDC R1, c[0x0][0x37c]") + ".L_x_1:\n" + line_of(0x10, "@!UP1 EXIT") +
                  line_of(0x20, "LDG.E.NA.128.CONSTANT R8, desc[UR16][R8.64]") +
                  line_of(0x30, "BRA.U !UP0, `(.L_x_1)") +
                  line_of(0x40, "CALL.REL.NOINC `($kernel$helper)") + line_of(0x50, "EXIT") +
                  "        .type           $kernel$helper,@function\n$kernel$helper:\n" +
                  line_of(0x60, "RET.REL.NODEC R2 `(kernel)"));

TEST(Listing, has_every_instruction_with_predicate_and_operands) {
  const sass::Listing listing = sass::parse_listing(small);
  EXPECT_EQ(listing.architecture, "sm_100");
  ASSERT_EQ(listing.functions.size(), 1u);
  const sass::Function& kernel = listing.functions[0];
  EXPECT_EQ(kernel.name, "kernel");
  ASSERT_EQ(kernel.code.size(), 7u);
  EXPECT_EQ(kernel.code[1].predicate, "!UP1");
  EXPECT_EQ(kernel.code[1].opcode, "EXIT");
  EXPECT_EQ(kernel.code[2].address, 0x20);
  EXPECT_EQ(kernel.code[2].base(), "LDG");
  EXPECT_EQ(kernel.code[2].operands, "R8, desc[UR16][R8.64]");
}

TEST(Listing, knows_registers_and_shared_memory) {
  const sass::Function kernel = sass::parse_listing(small).functions[0];
  EXPECT_EQ(kernel.registers, 47);
  EXPECT_EQ(kernel.shared_bytes, 2048);
}

TEST(Listing, follows_branches_and_calls_to_their_labels) {
  const sass::Function kernel = sass::parse_listing(small).functions[0];
  EXPECT_EQ(kernel.code[3].target, 1);
  EXPECT_EQ(kernel.code[4].target, 6);
  EXPECT_EQ(kernel.code[5].target, -1);
}

// As `nvdisasm -gi` prints them: the innermost of inlined files first.
TEST(Listing, names_the_file_an_instruction_comes_from) {
  const sass::Listing listing = sass::parse_listing(nvdisasm_text(
      "kernel", line_of(0x00, "LDC R1, c[0x0][0x37c]") +
                    "\t//## File \"/a/inner.cuh\", line 3 inlined at \"/a/outer.cuh\", line 9\n" +
                    "\t//## File \"/a/outer.cuh\", line 9\n" + line_of(0x10, "FADD R0, R1, R2") +
                    line_of(0x20, "FADD R0, R0, R2") + "\t//## File \"/a/outer.cuh\", line 10\n" +
                    line_of(0x30, "EXIT") + "$kernel$helper:\n" + line_of(0x40, "NOP")));
  std::vector<std::string> files;
  for (const sass::Instruction& each : listing.functions[0].code) files.push_back(each.file);
  EXPECT_EQ(files,
            (std::vector<std::string>{"", "/a/inner.cuh", "/a/inner.cuh", "/a/outer.cuh", ""}));
}

TEST(Listing, reads_cuobjdump_too) {
  const std::string text =
      "\tcode for sm_90a\n\t.target\tsm_90a\n\n\t\tFunction : "
      "kernel\n\t.headerflags\t@\"EF_CUDA_SM90\"\n"
      "        /*0000*/                   LDC R1, c[0x0][0x28] ;      /* 0x00000a00ff017b82 */\n"
      "                                                               /* 0x000fe20000000800 */\n"
      "        /*0010*/              @!P0 BRA 0x20 ;                  /* 0x0000000800748947 */\n"
      "                                                               /* 0x000fea0003800000 */\n"
      "        /*0020*/                   EXIT ;                      /* 0x000000000000794d */\n";
  const sass::Listing listing = sass::parse_listing(text);
  EXPECT_EQ(listing.architecture, "sm_90a");
  ASSERT_EQ(listing.functions.at(0).code.size(), 3u);
  EXPECT_EQ(listing.functions[0].code[1].target, 2);
  EXPECT_EQ(listing.functions[0].registers, -1);
}

TEST(Listing, refuses_what_is_no_disassembly) {
  for (const char* text : {"", "hello\n", "\t.target\tsm_100\n"}) {
    try {
      sass::parse_listing(text);
      ADD_FAILURE() << "took '" << text << "'";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input);
    }
  }
}

TEST(Listing, survives_broken_lines) {
  const std::string text = nvdisasm_text("k", line_of(0, "EXIT") +
                                                  "        /*00\n/*zz*/ FOO ;\n/**/\n/*\n:\n"
                                                  "        /*0010*/ @P0\n        /*0020*/ ;\n");
  EXPECT_EQ(sass::parse_listing(text).functions[0].code.size(), 1u);
  for (std::size_t cut = 0; cut < small.size(); cut += 7) {
    try {
      sass::parse_listing(small.substr(0, cut));
    } catch (const Error&) {
    }
  }
}

TEST(Modifier, is_a_whole_part_of_the_opcode) {
  EXPECT_TRUE(sass::has_modifier("LDG.E.U8", "U8"));
  EXPECT_TRUE(sass::has_modifier("LDG.E.U8.CONSTANT", "U8"));
  EXPECT_FALSE(sass::has_modifier("LDG.E.128", "12"));
  EXPECT_FALSE(sass::has_modifier("LDG.E.128", "LDG"));
  EXPECT_FALSE(sass::has_modifier("EXIT", "EXIT"));
}

}  // namespace
}  // namespace microscale::testing
