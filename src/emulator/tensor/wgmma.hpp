// wgmma of one warpgroup: tiles in, registers in and out. Who reads shared memory, and when, is the
// executor's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "emulator/tensor/matrix_descriptor.hpp"
#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator::tensor {

/// m64nNkK; K is 32 bytes of elements.
struct WgmmaShape {
  int n = 8;  // 8 to 256 in eights
  Operand a = Operand::f16, b = Operand::f16;
  Result d = Result::f32;
  bool saturate = false;  // s32 only

  int k() const { return 256 / container_bits(Kind::plain, a); }
  int d_registers() const { return d == Result::f16 ? n / 4 : n / 2; }
};

/// What the modifiers of wgmma.mma_async spell ("m64n64k32", "f32", "e4m3", "e4m3", ...). Throws
/// Error{unsupported}.
WgmmaShape wgmma_shape(std::span<const std::string_view> modifiers);

/// The immediate operands after D's predicate.
struct WgmmaOptions {
  bool accumulate = true;                       // scale-d: false takes C as zero
  bool negate_a = false, negate_b = false;      // imm-scale -1; floating point only
  bool mn_major_a = false, mn_major_b = false;  // imm-trans; f16 and bf16 only
};

/// Codes of 64 rows of A or N columns of B, each K (at most 32) long.
struct WgmmaTile {
  std::unique_ptr<std::uint32_t[][32]> codes = std::make_unique<std::uint32_t[][32]>(256);
};

/// Fills `bytes` with 16 bytes of shared memory at an address, which is a multiple of 16.
using ReadChunk = std::function<void(std::uint32_t address, std::uint8_t* bytes)>;

/// A (64 lines) or B (N lines) by its descriptor; reads every chunk once.
void read_shared_tile(Operand type, int lines, int k, const MatrixDescriptor& descriptor,
                      bool mn_major, const ReadChunk& read, WgmmaTile& tile);
/// A from four registers of the four warps: registers[4 * warp + reg] is a row of 32 lanes.
void read_register_tile(const WgmmaShape& shape, const std::uint32_t* const* registers,
                        WgmmaTile& a);

/// d[shape.d_registers() * warp + reg]: rows of 32 lanes, C before, D after.
void wgmma(const WgmmaShape& shape, const WgmmaOptions& options, const WgmmaTile& a,
           const WgmmaTile& b, std::uint32_t* const* d);

}  // namespace microscale::emulator::tensor
