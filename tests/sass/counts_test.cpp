// Classes of instructions, and what is counted apart.
#include "sass/counts.hpp"

#include <gtest/gtest.h>

#include "sass/listings.hpp"

namespace microscale::testing {
namespace {

using sass::Class;

TEST(Classes, follow_the_opcode) {
  const std::pair<const char*, Class> wanted[] = {
      {"F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C", Class::conversion},
      {"I2F.RP", Class::conversion},
      {"F2I.U32.TRUNC", Class::conversion},
      {"IMAD.WIDE.U32", Class::integer},
      {"LOP3.LUT", Class::integer},
      {"VIMNMX3.U32", Class::integer},
      {"ISETP.GE.U32.AND", Class::integer},
      {"SEL", Class::integer},
      {"PLOP3.LUT", Class::integer},
      {"FLO.U32", Class::integer},
      {"FFMA", Class::fp32},
      {"FSETP.GT.AND", Class::fp32},
      {"MUFU.RCP", Class::fp32},
      {"HFMA2.BF16_V2", Class::half},
      {"HMNMX2.BF16_V2.NAN.XORSIGN", Class::half},
      {"HMMA.16816.F32", Class::matrix},
      {"LDS.128", Class::shared},
      {"STS.U8", Class::shared},
      {"LDG.E.128", Class::global},
      {"LDGSTS.E.BYPASS.128", Class::global},
      {"LDL.64", Class::local},
      {"SHFL.BFLY", Class::shuffle},
      {"BRA.U", Class::branch},
      {"BSSY.RECONVERGENT", Class::branch},
      {"BAR.SYNC.DEFER_BLOCKING", Class::barrier},
      {"LDGDEPBAR", Class::barrier},
      {"UIMAD", Class::uniform},
      {"LDCU.128", Class::uniform},
      {"S2R", Class::other},
  };
  for (const auto& [opcode, which] : wanted) EXPECT_EQ(sass::class_of(opcode), which) << opcode;
}

TEST(AccessBytes, are_those_of_a_lane) {
  EXPECT_EQ(sass::access_bytes("STG.E.U8"), 1);
  EXPECT_EQ(sass::access_bytes("LDS.U16"), 2);
  EXPECT_EQ(sass::access_bytes("STG.E"), 4);
  EXPECT_EQ(sass::access_bytes("LDS.64"), 8);
  EXPECT_EQ(sass::access_bytes("LDGSTS.E.BYPASS.128.ZFILL"), 16);
}

TEST(Counts, tell_apart_what_costs_time) {
  std::string code;
  int at = 0;
  for (const char* text :
       {"LDG.E.U8 R0, [R2]", "STG.E.U8 [R2], R0", "STS.U8 [R1], R0", "LDL R0, [R1]",
        "STL.64 [R1], R2", "FSETP.GT.AND P0, PT, R0, R1, PT", "FSEL R0, R0, R1, P0",
        "FMNMX R0, R0, R1, PT", "VIMNMX3.U32 R0, R1, R2, R3, !PT", "CALL.REL.NOINC `($k$f)",
        "F2FP.SATFINITE.E2M1.F32.PACK_AB_MERGE_C R0, R1, R2, RZ",
        "F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C R0, R1, R2, RZ", "F2FP.F16.E4M3.UNPACK_B R0, R1",
        "EXIT", "NOP", "NOP"})
    code += line_of(16 * at++, text);
  const sass::Counts counts =
      sass::count(sass::parse_listing(nvdisasm_text("k", code)).functions[0]);
  EXPECT_EQ(counts.instructions, 14);
  EXPECT_EQ(counts.byte_global, 2);
  EXPECT_EQ(counts.byte_shared, 1);
  EXPECT_EQ(counts.local_loads, 1);
  EXPECT_EQ(counts.local_stores, 1);
  EXPECT_EQ(counts.compares, 1);
  EXPECT_EQ(counts.selects, 1);
  EXPECT_EQ(counts.min_max, 2);
  EXPECT_EQ(counts.calls, 1);
  EXPECT_EQ(counts.fp4_conversions, 1);
  EXPECT_EQ(counts.fp8_conversions, 1);
  int sum = 0;
  for (const int of_class : counts.by_class) sum += of_class;
  EXPECT_EQ(sum, counts.instructions);
}

}  // namespace
}  // namespace microscale::testing
