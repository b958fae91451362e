#include "emulator/ptx/ast.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator::ptx {
namespace {

TEST(PtxAst, instruction_has_whole_modifiers_only) {
  Instruction instruction;
  instruction.modifiers = {"shared::cta", "b64"};
  EXPECT_TRUE(instruction.has("b64"));
  EXPECT_TRUE(instruction.has("shared::cta"));
  EXPECT_FALSE(instruction.has("shared"));
}

}  // namespace
}  // namespace microscale::emulator::ptx
