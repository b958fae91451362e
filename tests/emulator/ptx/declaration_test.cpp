#include "emulator/ptx/declaration.hpp"

#include <gtest/gtest.h>

#include "emulator/ptx/parse_text.hpp"

namespace microscale::emulator::ptx {
namespace {

using Bytes = std::vector<std::uint8_t>;

Variable variable(const std::string& text) {
  return take(Module::parse(head + text)).variables().at(0);
}

TEST(PtxDeclaration, arrays_have_sizes_and_alignments) {
  const Module module =
      take(Module::parse(head + ".global .align 16 .b8 a[48];.global .u64 b;"
                                ".shared .f32 tile[32][33];.extern .shared .align 64 .b8 s[];"
                                ".const .v4 .f32 c[2];"));
  const auto& all = module.variables();
  EXPECT_EQ(all[0].bytes, 48);
  EXPECT_EQ(all[0].align, 16);
  EXPECT_EQ(all[1].bytes, 8);
  EXPECT_EQ(all[1].align, 8);
  EXPECT_EQ(all[2].bytes, 32 * 33 * 4);
  EXPECT_EQ(all[2].space, Space::shared);
  EXPECT_EQ(all[3].bytes, 0);
  EXPECT_TRUE(all[3].external);
  EXPECT_EQ(all[4].bytes, 32);
  EXPECT_EQ(all[4].align, 16);
}

TEST(PtxDeclaration, initial_values_are_little_endian) {
  EXPECT_EQ(variable(".const .align 4 .b8 x[16] = {0, 255, -1, 0x7f};").initial,
            (Bytes{0, 255, 255, 127}));
  EXPECT_EQ(variable(".global .u16 x = 0x1234;").initial, (Bytes{0x34, 0x12}));
  EXPECT_EQ(variable(".global .f32 x[2] = {0f3F800000, -1.0};").initial,
            (Bytes{0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xbf}));
  EXPECT_EQ(variable(".global .f64 x = 0d3FF0000000000000;").initial,
            (Bytes{0, 0, 0, 0, 0, 0, 0xf0, 0x3f}));
}

TEST(PtxDeclaration, open_arrays_take_their_size_from_the_values) {
  EXPECT_EQ(variable(".global .s32 x[] = {1, 2, 3};").bytes, 12);
  const Variable rows = variable(".global .u8 x[][3] = {{1}, {2, 3}};");
  EXPECT_EQ(rows.bytes, 6);
  EXPECT_EQ(rows.initial, (Bytes{1, 0, 0, 2, 3}));
  EXPECT_EQ(variable(".global .u8 x[2][2] = {1, 2, 3};").initial, (Bytes{1, 2, 3}));
}

TEST(PtxDeclaration, initial_values_may_be_addresses) {
  const Variable t = variable(".global .u64 t[4] = {7, generic(x), f, y+16};");
  EXPECT_EQ(t.initial.size(), 32u);
  ASSERT_EQ(t.addresses.size(), 3u);
  EXPECT_EQ(t.addresses[0].name, "x");
  EXPECT_TRUE(t.addresses[0].generic);
  EXPECT_EQ(t.addresses[1].at, 16);
  EXPECT_EQ(t.addresses[2].plus, 16);
}

TEST(PtxDeclaration, refuses_what_it_cannot_hold) {
  const auto failure = [](const std::string& text) { return module_failure(head + text); };
  EXPECT_NE(failure(".global .u32 t[1] = {f};").find("addresses have 64 bits, not .u32"),
            std::string::npos);
  EXPECT_NE(failure(".global .u64 t = generic x;").find("'('"), std::string::npos);
  EXPECT_NE(failure(".global .b8 x[2] = {1, 2, 3};").find("more initial values than elements"),
            std::string::npos);
  EXPECT_NE(failure(".global .b8 x = 256;").find("256 does not fit .b8"), std::string::npos);
  EXPECT_NE(failure(".global .b8 x = -129;").find("-129 does not fit .b8"), std::string::npos);
  EXPECT_NE(failure(".global .align 3 .b8 x;").find("a power of two, got 3"), std::string::npos);
  EXPECT_NE(failure(".global .b8 x[0];").find("an array of 0 elements"), std::string::npos);
  EXPECT_NE(failure(".shared .b8 x[];").find("'x' needs a number of elements"), std::string::npos);
  EXPECT_NE(failure(".shared .b8 x = 1;").find("'x' cannot have initial values"),
            std::string::npos);
  EXPECT_NE(failure(".global .pred x;").find("a variable cannot be '.pred'"), std::string::npos);
}

TEST(PtxDeclaration, huge_sizes_are_sentences_not_allocations) {
  const auto failure = [](const std::string& text) { return module_failure(head + text); };
  EXPECT_NE(failure(".global .b64 x[34359738368];").find("larger than 64 GiB"), std::string::npos);
  EXPECT_NE(
      failure(".global .b8 x[4294967296][4294967296][4294967296];").find("larger than 64 GiB"),
      std::string::npos);
  EXPECT_NE(failure(".global .b8 x[18446744073709551615];").find("must be in"), std::string::npos);
  EXPECT_NE(
      failure(".global .b8 x[][1073741824] = {{1}, {1}, {1}};").find("leave out most elements"),
      std::string::npos);
  EXPECT_EQ(failure(".global .b8 x[1073741824] = {1, 2};"), "");  // only the given bytes are kept
  EXPECT_NE(failure(".global .b8 x[1][1][1][1][1][1][1][1][1];").find("more than 8 dimensions"),
            std::string::npos);
}

TEST(PtxDeclaration, params_are_laid_out_by_alignment) {
  const Module module =
      take(Module::parse(head + ".entry k(.param .u8 a, .param .u64 .ptr .global .align 1 b, "
                                ".param .align 8 .b8 c[20], .param .u32 d){}"));
  const auto& params = module.functions()[0].params;
  ASSERT_EQ(params.size(), 4u);
  EXPECT_EQ(params[1].offset, 8);
  EXPECT_EQ(params[2].offset, 16);
  EXPECT_EQ(params[3].offset, 36);
}

}  // namespace
}  // namespace microscale::emulator::ptx
