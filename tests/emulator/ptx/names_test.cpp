#include "emulator/ptx/names.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator::ptx {
namespace {

TEST(PtxNames, types_and_widths_go_both_ways) {
  for (const char* word :
       {"pred", "b8", "u16", "s32", "b64", "b128", "f16x2", "bf16", "tf32", "f64"}) {
    ASSERT_TRUE(type_of(word)) << word;
    EXPECT_EQ(name_of(*type_of(word)), word);
  }
  EXPECT_EQ(bits_of(Type::pred), 1);
  EXPECT_EQ(bits_of(Type::bf16x2), 32);
  EXPECT_EQ(bits_of(Type::b128), 128);
  EXPECT_FALSE(type_of("e4m3x2"));
}

TEST(PtxNames, spaces) {
  EXPECT_EQ(space_of("const"), Space::constant);
  EXPECT_EQ(space_of("shared"), Space::shared);
  EXPECT_FALSE(space_of("generic"));
}

TEST(PtxNames, every_special_register_has_a_name_and_some_have_components) {
  for (int i = 0; i <= static_cast<int>(SpecialRegister::globaltimer_hi); ++i) {
    const auto special = static_cast<SpecialRegister>(i);
    const auto found = special_of(name_of(special));
    ASSERT_TRUE(found) << i;
    EXPECT_EQ(found->special, special);
  }
  EXPECT_TRUE(special_of("%cluster_nctaid")->has_components);
  EXPECT_FALSE(special_of("%cluster_ctarank")->has_components);
  EXPECT_FALSE(special_of("%nosuch"));
}

}  // namespace
}  // namespace microscale::emulator::ptx
