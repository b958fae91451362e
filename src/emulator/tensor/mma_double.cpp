#include "emulator/tensor/mma_double.hpp"

#include <bit>
#include <cfenv>
#include <cmath>

#include "emulator/tensor/mma_fragments.hpp"

namespace microscale::emulator::tensor {
namespace {

constexpr std::uint64_t nan_f64 = 0x7FF8000000000000;

struct Tiles {
  double a[16][16], b[16][8], c[16][8];
};

void multiply(const MmaShape& shape, Tiles& tiles) {
  for (int row = 0; row < shape.m; ++row)
    for (int column = 0; column < 8; ++column) {
      double sum = tiles.c[row][column];
      for (int k = 0; k < shape.k; ++k) sum = std::fma(tiles.a[row][k], tiles.b[k][column], sum);
      tiles.c[row][column] = sum;
    }
}

int host_rounding(Rounding rounding) {
  switch (rounding) {
    case Rounding::zero:
      return FE_TOWARDZERO;
    case Rounding::down:
      return FE_DOWNWARD;
    case Rounding::up:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

}  // namespace

// A register of 64 bits holds the element that one of 32 bits would.
void mma_double(const MmaShape& shape, const MmaDoubles& in,
                const std::array<std::uint64_t*, 4>& d) {
  // Behind a volatile pointer, so that nothing is computed before the rounding is set.
  static void (*volatile const hidden)(const MmaShape&, Tiles&) = multiply;
  Tiles tiles;
  const int results = result_registers(shape, shape.d);
  for (int lane = 0; lane < 32; ++lane) {
    for (int reg = 0; reg < a_registers(shape); ++reg) {
      const Coordinate at = a_coordinate(32, {lane, reg, 0});
      tiles.a[at.row][at.column] = std::bit_cast<double>(in.a[static_cast<std::size_t>(reg)][lane]);
    }
    for (int reg = 0; reg < b_registers(shape); ++reg) {
      const Coordinate at = b_coordinate(32, {lane, reg, 0});
      tiles.b[at.row][at.column] = std::bit_cast<double>(in.b[static_cast<std::size_t>(reg)][lane]);
    }
    for (int reg = 0; reg < results; ++reg) {
      const Coordinate at = d_coordinate(32, {lane, reg, 0});
      tiles.c[at.row][at.column] = std::bit_cast<double>(in.c[static_cast<std::size_t>(reg)][lane]);
    }
  }
  const int before = std::fegetround();
  std::fesetround(host_rounding(shape.rounding));
  hidden(shape, tiles);
  std::fesetround(before);
  for (int reg = 0; reg < results; ++reg)
    for (int lane = 0; lane < 32; ++lane) {
      const Coordinate at = d_coordinate(32, {lane, reg, 0});
      const double value = tiles.c[at.row][at.column];
      d[static_cast<std::size_t>(reg)][lane] =
          std::isnan(value) ? nan_f64 : std::bit_cast<std::uint64_t>(value);
    }
}

}  // namespace microscale::emulator::tensor
