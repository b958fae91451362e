// What decoder and handlers of matrix instructions hand each other survives the packing.
#include <gtest/gtest.h>

#include "emulator/ops/matrix.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

TEST(MatrixInstruction, is_packed_into_an_integer_and_back) {
  for (const auto& shapes : {hopper_mma_shapes(), blackwell_mma_shapes()})
    for (const tensor::MmaShape& shape : shapes)
      for (const auto generation : {tensor::Generation::hopper, tensor::Generation::blackwell}) {
        const emulator::MatrixInstruction what{shape, generation};
        const auto back = emulator::MatrixInstruction::unpack(what.pack());
        EXPECT_EQ(back.shape, shape);
        EXPECT_EQ(back.generation, generation);
      }
}

TEST(MatrixMove, is_packed_into_a_byte_and_back) {
  using tensor::MatrixShape, tensor::RowFormat;
  for (const MatrixShape shape : {MatrixShape::m8n8, MatrixShape::m8n16, MatrixShape::m16n16})
    for (const RowFormat format :
         {RowFormat::b16, RowFormat::b8, RowFormat::b4x16_p64, RowFormat::b6x16_p32})
      for (const int count : {1, 2, 4})
        for (const bool transposed : {false, true}) {
          const tensor::MatrixMove move{shape, format, count, transposed};
          const tensor::MatrixMove back = emulator::unpack_move(emulator::pack_move(move));
          EXPECT_EQ(back.shape, shape);
          EXPECT_EQ(back.format, format);
          EXPECT_EQ(back.count, count);
          EXPECT_EQ(back.transposed, transposed);
        }
}

}  // namespace
}  // namespace microscale::testing
