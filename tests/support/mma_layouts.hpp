// Shapes of mma.sync with their fragments as layouts in shape:stride form.
#pragma once

#include <vector>

#include "support/mma_cases.hpp"

namespace microscale::testing {

inline tensor::MmaShape shape_of(tensor::Kind kind, int k, tensor::Operand a, tensor::Operand b) {
  tensor::MmaShape shape;
  shape.kind = kind, shape.k = k, shape.a = a, shape.b = b;
  if (a == tensor::Operand::s8) shape.c = shape.d = tensor::Result::s32;
  if (kind >= tensor::Kind::mxf8f6f4) {
    shape.scale =
        kind == tensor::Kind::mxf4nvf4 ? tensor::ScaleType::ue4m3 : tensor::ScaleType::ue8m0;
    shape.scale_vector = kind == tensor::Kind::mxf8f6f4 ? 1 : kind == tensor::Kind::mxf4 ? 2 : 4;
  }
  return shape;
}

/// Thread and value modes to row + 16 k (A), column + 8 k (B), row + 16 column (D).
struct MmaLayouts {
  tensor::MmaShape shape;
  const char *a, *b, *d;
};

inline const std::vector<MmaLayouts>& mma_layouts() {
  static const char* d32 = "((4,8),(2,2)):((32,1),(16,8))";
  static const std::vector<MmaLayouts> all = {
      {shape_of(tensor::Kind::plain, 8, tensor::Operand::f16, tensor::Operand::f16),
       "((4,8),(2,2)):((32,1),(16,8))", "((4,8),2):((16,1),8)", d32},
      {shape_of(tensor::Kind::plain, 16, tensor::Operand::bf16, tensor::Operand::bf16),
       "((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))", d32},
      {shape_of(tensor::Kind::plain, 4, tensor::Operand::tf32, tensor::Operand::tf32),
       "((4,8),2):((16,1),8)", "((4,8),1):((8,1),0)", d32},
      {shape_of(tensor::Kind::plain, 8, tensor::Operand::tf32, tensor::Operand::tf32),
       "((4,8),(2,2)):((16,1),(8,64))", "((4,8),2):((8,1),32)", d32},
      {shape_of(tensor::Kind::plain, 16, tensor::Operand::s8, tensor::Operand::s8),
       "((4,8),(4,2)):((64,1),(16,8))", "((4,8),4):((32,1),8)", d32},
      {shape_of(tensor::Kind::plain, 32, tensor::Operand::e4m3, tensor::Operand::e5m2),
       "((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(tensor::Kind::f8f6f4, 32, tensor::Operand::e3m2, tensor::Operand::e2m1),
       "((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(tensor::Kind::mxf8f6f4, 32, tensor::Operand::e2m1, tensor::Operand::e2m3),
       "((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", d32},
      {shape_of(tensor::Kind::mxf4, 64, tensor::Operand::e2m1, tensor::Operand::e2m1),
       "((4,8),(8,2,2)):((128,1),(16,8,512))", "((4,8),(8,2)):((64,1),(8,256))", d32},
      {shape_of(tensor::Kind::mxf4nvf4, 64, tensor::Operand::e2m1, tensor::Operand::e2m1),
       "((4,8),(8,2,2)):((128,1),(16,8,512))", "((4,8),(8,2)):((64,1),(8,256))", d32},
  };
  return all;
}

}  // namespace microscale::testing
