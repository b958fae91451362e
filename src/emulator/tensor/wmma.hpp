// wmma: products of a warp whose fragments PTX leaves to the machine. Here they are those of mma:
// a product of 256 elements is two of m16n8, side by side (m16n16) or one below the other (m32n8;
// m8n32 is m32n8 of the transposed matrices), one of 64 elements is m8n8.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "emulator/tensor/mma_fragments.hpp"
#include "emulator/tensor/mma_shape.hpp"

namespace microscale::emulator::tensor {

enum class WmmaMatrix : std::uint8_t { a, b, c, d };

struct WmmaShape {
  int m = 16, n = 16, k = 16;
  Operand a = Operand::f16, b = Operand::f16;
  Result c = Result::f32, d = Result::f32;
  bool saturate = false;                  // integers of 8 and 4 bits
  bool ands = false;                      // b1: of a & b, else of a ^ b
  Rounding rounding = Rounding::nearest;  // f64

  bool operator==(const WmmaShape&) const = default;
};

/// One matrix of a product, as wmma.load and wmma.store name it.
struct WmmaMove {
  WmmaShape shape;  // of its types only that of the matrix counts
  WmmaMatrix matrix = WmmaMatrix::a;
  bool column_major = false;
};

/// What the modifiers of a wmma.load, a wmma.store and a wmma.mma spell. Throw Error{unsupported}
/// for what PTX does not have.
WmmaMove wmma_move(std::span<const std::string_view> modifiers);
WmmaShape wmma_shape(std::span<const std::string_view> modifiers);

/// Bits of an element in memory.
int wmma_element_bits(const WmmaShape& shape, WmmaMatrix matrix);
/// Rows and columns.
Coordinate wmma_extent(const WmmaShape& shape, WmmaMatrix matrix);
/// Registers of each lane, of 32 bits (f64: 64). A and B of f16 have always 8, which may hold
/// elements again.
int wmma_registers(const WmmaShape& shape, WmmaMatrix matrix);
/// The element that a lane's register holds at `item`, lowest bits first.
Coordinate wmma_place(const WmmaShape& shape, WmmaMatrix matrix, const Slot& slot);

/// D = A B + C of all types but f64; as many rows of 32 lanes as wmma_registers says, those of D
/// may be those of C. Where one of C and D is f16 and the other f32, the sum is f32's, then rounded
/// to nearest even.
void wmma(const WmmaShape& shape, Generation generation,
          const std::array<const std::uint32_t*, 8>& a,
          const std::array<const std::uint32_t*, 8>& b,
          const std::array<const std::uint32_t*, 8>& c, const std::array<std::uint32_t*, 8>& d);

/// The product of one of its parts.
MmaShape wmma_part(const WmmaShape& shape);

}  // namespace microscale::emulator::tensor
