// tcgen05.mma of a block, or of a pair of blocks: its instruction descriptor, and its arithmetic on
// rows of A and B of 32 bytes of K. Who reads shared and tensor memory, and when, is the
// executor's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator::tensor {

enum class Tcgen05Kind : std::uint8_t { f16, tf32, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 };

constexpr bool is_block_scaled(Tcgen05Kind kind) { return kind >= Tcgen05Kind::mxf8f6f4; }
constexpr bool is_packed_fp4(Tcgen05Kind kind) { return kind >= Tcgen05Kind::mxf4; }

/// What the instruction's name says.
struct Tcgen05Name {
  Tcgen05Kind kind = Tcgen05Kind::f16;
  int blocks = 1;       // .cta_group
  int scale_block = 0;  // elements along K that share a scale: 16 or 32; 0 without scales
  bool a_in_tensor = false;
};

/// The name and the descriptor together.
struct Tcgen05Shape {
  Tcgen05Kind kind = Tcgen05Kind::f16;
  int m = 128, n = 16, k = 16;  // of all blocks
  Operand a = Operand::f16, b = Operand::f16;
  bool negate_a = false, negate_b = false, mn_major_a = false, mn_major_b = false;
  ScaleType scale = ScaleType::none;
  int scale_vector = 0;                // scales along K: 1, 2 or 4
  int scale_id_a = 0, scale_id_b = 0;  // byte of a scale column that is the first used
};

/// Which descriptor goes wrong where; the words stand behind "the instruction descriptor ".
struct Tcgen05Problem {
  bool scale_id = false;  // of the ids of scales
  std::string what;       // "" if there is none
};

/// Reads the 32 bits of the instruction descriptor (PTX ISA, tables "Instruction descriptor"; K of
/// sparse and K = 96 forms are refused).
Tcgen05Problem read_instruction_descriptor(std::uint32_t bits, const Tcgen05Name& name,
                                           Tcgen05Shape& shape);

/// Rows of A or B, 32 bytes of K each, and their scales; as many as the shape has.
struct Tcgen05Rows {
  static constexpr int most = 256;
  alignas(32) std::uint8_t bytes[most][32];
  std::uint8_t scales[most][4];  // the first scale_vector of them
};

/// Bytes of an element as shared memory has it, of 16 bytes for 16 or fewer; packed FP4 has none.
int element_bytes(Tcgen05Kind kind, Operand type);
/// 16 bytes along K of a row as shared memory has them (FP4 and FP6 of kinds f8f6f4 and mxf8f6f4:
/// 16 codes without gaps, then bytes that no product reads) to 16 bytes of containers.
void unpack_chunk(Tcgen05Kind kind, Operand type, const std::uint8_t* chunk, std::uint8_t* row);

/// What hardware leaves undefined or would not say.
struct Tcgen05Findings {
  int padding_a = -1, padding_b = -1;        // a row with bits set beside its codes; -1: none
  int scale_sign_a = -1, scale_sign_b = -1;  // a row with a ue4m3 scale whose bit 7 is set
};

/// d[m * n + column]: FP32 bits, D before (where `accumulate`) and after. The sums are those of the
/// published models (MMA-Sim, arXiv 2511.10909; Khattak and Mikaitis, arXiv 2512.07004): one fused
/// sum with 25 fraction bits over the instruction's K; of packed FP4 exact sums of 16 products in
/// one fused sum with 35; cut toward zero.
Tcgen05Findings tcgen05_product(const Tcgen05Shape& shape, bool accumulate, const Tcgen05Rows& a,
                                const Tcgen05Rows& b, std::uint32_t* d);

}  // namespace microscale::emulator::tensor
