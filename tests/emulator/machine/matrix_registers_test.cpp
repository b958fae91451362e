#include "emulator/machine/matrix_registers.hpp"

#include "emulator/machine/loaded_module.hpp"
#include "emulator/ops/wgmma_text.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

TEST(MatrixRegisters, are_accumulators_and_fragments_and_marked_wherever_they_stand) {
  WgmmaText kernel;
  kernel.multiply = multiply_fragments;
  kernel.between = "mov.u32 %r20, 1; mov.b32 %r5, %f1;\n";
  GlobalMemory memory;
  const auto module = LoadedModule::load(memory, kernel.text(), "");
  ASSERT_TRUE(module.ok());
  const auto decoded = module.value()->program("k");
  ASSERT_TRUE(decoded.ok());
  const Program& program = *decoded.value();
  ASSERT_EQ(program.matrix_registers.size(), 8u);
  const auto names = [&](const OpInfo& info) {
    std::string text;
    for (const MatrixUse& use : info.matrix)
      text += name_of(program, program.matrix_registers[use.index]) + (use.write ? "! " : " ");
    return text;
  };
  int multiplies = 0, moves = 0;
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    const OpInfo& info = program.info[pc];
    EXPECT_EQ((program.code[pc].flags & touches_matrix) != 0, !info.matrix.empty());
    if (info.opcode == "wgmma.mma_async") {
      ++multiplies;
      EXPECT_TRUE(info.own_matrix);
      EXPECT_EQ(names(info), "%f0! %f1! %f2! %f3! %r4 %r5 %r6 %r7 ");
    } else {
      EXPECT_FALSE(info.own_matrix);
      moves += names(info) == "%r5! %f1 ";
    }
  }
  EXPECT_EQ(multiplies, 1);
  EXPECT_EQ(moves, 1);
}

}  // namespace
}  // namespace microscale::emulator
