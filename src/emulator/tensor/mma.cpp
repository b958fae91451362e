// Fragments gathered into rows of A and columns of B, multiplied, scattered again.
#include "emulator/tensor/mma.hpp"

#include <bit>
#include <cstring>

#include "emulator/tensor/block_scaled_sum.hpp"
#include "emulator/tensor/element_numbers.hpp"
#include "emulator/tensor/fused_sum.hpp"

namespace microscale::emulator::tensor {
namespace {

using Tile = std::uint32_t[16][8];  // C or D: row, column

std::uint32_t add_f32(std::uint32_t a, std::uint32_t b) {
  const float sum = std::bit_cast<float>(a) + std::bit_cast<float>(b);
  return sum != sum ? tensor_nan_f32 : std::bit_cast<std::uint32_t>(sum);
}

std::uint32_t add_f16(std::uint32_t a, std::uint32_t b) {  // FP32 has bits enough for one rounding
  return float_to_f16(f16_to_float(static_cast<std::uint16_t>(a)) +
                      f16_to_float(static_cast<std::uint16_t>(b)));
}

/// Both doubled values of a byte of two codes.
constexpr auto fp4_pairs = [] {
  std::array<std::array<std::int16_t, 2>, 256> pairs{};
  for (std::size_t byte = 0; byte < 256; ++byte)
    pairs[byte] = {doubled_e2m1[byte & 15], doubled_e2m1[byte >> 4]};
  return pairs;
}();

/// Calls take(row, k, code) for every element of A; returns the lanes with padding.
template <int Bits, class Take>
std::uint32_t gather_a(const MmaShape& shape, const MmaOperands& in, Take&& take) {
  const std::uint32_t padding = padding_mask(shape.kind, shape.a) * 0x01010101u;
  const int down = container_shift(shape.kind, shape.a);
  std::uint32_t padded = 0;
  for (int reg = 0; reg < a_registers(shape); ++reg)
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t word = in.a[static_cast<std::size_t>(reg)][lane];
      padded |= static_cast<std::uint32_t>((word & padding) != 0) << lane;
      const std::uint32_t codes = (word & ~padding) >> down;
      for (int item = 0; item < 32 / Bits; ++item) {
        const Coordinate at = a_coordinate(Bits, {lane, reg, item});
        take(at.row, at.column, (codes >> (Bits * item)) & (0xFFFFFFFFu >> (32 - Bits)));
      }
    }
  return padded;
}

/// Calls take(k, column, code) for every element of B.
template <int Bits, class Take>
std::uint32_t gather_b(const MmaShape& shape, const MmaOperands& in, Take&& take) {
  const std::uint32_t padding = padding_mask(shape.kind, shape.b) * 0x01010101u;
  const int down = container_shift(shape.kind, shape.b);
  std::uint32_t padded = 0;
  for (int reg = 0; reg < b_registers(shape); ++reg)
    for (int lane = 0; lane < 32; ++lane) {
      const std::uint32_t word = in.b[static_cast<std::size_t>(reg)][lane];
      padded |= static_cast<std::uint32_t>((word & padding) != 0) << lane;
      const std::uint32_t codes = (word & ~padding) >> down;
      for (int item = 0; item < 32 / Bits; ++item) {
        const Coordinate at = b_coordinate(Bits, {lane, reg, item});
        take(at.row, at.column, (codes >> (Bits * item)) & (0xFFFFFFFFu >> (32 - Bits)));
      }
    }
  return padded;
}

template <int Bits>
void gather_c(const MmaShape& shape, const MmaOperands& in, Tile& c) {
  for (int reg = 0; reg < result_registers(shape, shape.c); ++reg)
    for (int lane = 0; lane < 32; ++lane)
      for (int item = 0; item < 32 / Bits; ++item) {
        const Coordinate at = d_coordinate(Bits, {lane, reg, item});
        const std::uint32_t word = in.c[static_cast<std::size_t>(reg)][lane];
        c[at.row][at.column] = Bits == 16 ? word >> (16 * item) & 0xFFFF : word;
      }
}

template <int Bits>
void scatter_d(const MmaShape& shape, const Tile& values, const std::array<std::uint32_t*, 4>& d) {
  for (int reg = 0; reg < result_registers(shape, shape.d); ++reg)
    for (int lane = 0; lane < 32; ++lane) {
      std::uint32_t word = 0;
      for (int item = 0; item < 32 / Bits; ++item) {
        const Coordinate at = d_coordinate(Bits, {lane, reg, item});
        word |= values[at.row][at.column] << (Bits == 16 ? 16 * item : 0);
      }
      d[static_cast<std::size_t>(reg)][lane] = word;
    }
}

/// The scale bytes of the rows of A and the columns of B, and what is wrong with them.
template <class Take>
void gather_scales(const MmaShape& shape, const MmaOperands& in, MmaFindings& findings,
                   Take&& take) {
  const bool unsigned_type = shape.scale == ScaleType::ue4m3;
  for (int chunk = 0; chunk < shape.scale_vector; ++chunk) {
    for (int row = 0; row < 16; ++row) {
      const Slot slot = a_scale_slot(in.select_a, row, chunk);
      const auto code = static_cast<std::uint8_t>(in.scale_a[slot.lane] >> (8 * slot.item));
      if (unsigned_type && code >= 0x80) findings.scale_sign_a |= 1u << slot.lane;
      take(true, row, chunk, code);
    }
    for (int column = 0; column < 8; ++column) {
      const Slot slot = b_scale_slot(in.select_b, column, chunk);
      const auto code = static_cast<std::uint8_t>(in.scale_b[slot.lane] >> (8 * slot.item));
      if (unsigned_type && code >= 0x80) findings.scale_sign_b |= 1u << slot.lane;
      take(false, column, chunk, code);
    }
  }
}

/// An element as a whole number; of bits the bit.
int integer_of(Operand type, std::uint32_t code) {
  switch (type) {
    case Operand::s8:
      return static_cast<std::int8_t>(code);
    case Operand::s4:
      return static_cast<int>(code ^ 8) - 8;
    default:
      return static_cast<int>(code);
  }
}

/// Sums of products; of bits, how many are in both (shape.ands) or in one of the two.
template <int Bits>
void multiply_integers(const MmaShape& shape, const MmaOperands& in, const Tile& c, Tile& d) {
  constexpr int longest = 256 / Bits < 32 ? 32 : 256 / Bits;
  std::int16_t a[16][longest] = {}, b[8][longest] = {};
  gather_a<Bits>(shape, in, [&](int row, int k, std::uint32_t code) {
    a[row][k] = static_cast<std::int16_t>(integer_of(shape.a, code));
  });
  gather_b<Bits>(shape, in, [&](int k, int col, std::uint32_t code) {
    b[col][k] = static_cast<std::int16_t>(integer_of(shape.b, code));
  });
  for (int row = 0; row < shape.m; ++row)
    for (int column = 0; column < 8; ++column) {
      std::int32_t products = 0;
      if (Bits == 1 && !shape.ands)
        for (int k = 0; k < shape.k; ++k) products += a[row][k] ^ b[column][k];
      else
        for (int k = 0; k < shape.k; ++k) products += a[row][k] * b[column][k];
      std::int64_t sum =
          static_cast<std::int64_t>(static_cast<std::int32_t>(c[row][column])) + products;
      if (shape.saturate) {
        sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
      }
      d[row][column] = static_cast<std::uint32_t>(sum);
    }
}

void multiply_fp4(const MmaShape& shape, const MmaOperands& in, const Tile& c, Tile& d,
                  MmaFindings& findings) {
  Fp4Tile tile;
  for (int reg = 0; reg < 4; ++reg)
    for (int lane = 0; lane < 32; ++lane) {  // a register is 8 neighbours along K
      const Coordinate at = a_coordinate(4, {lane, reg, 0});
      const std::uint32_t word = in.a[static_cast<std::size_t>(reg)][lane];
      for (int byte = 0; byte < 4; ++byte)
        std::memcpy(&tile.a[at.row][at.column + 2 * byte], &fp4_pairs[word >> (8 * byte) & 0xFF],
                    4);
    }
  for (int reg = 0; reg < 2; ++reg)
    for (int lane = 0; lane < 32; ++lane) {
      const Coordinate at = b_coordinate(4, {lane, reg, 0});
      const std::uint32_t word = in.b[static_cast<std::size_t>(reg)][lane];
      for (int byte = 0; byte < 4; ++byte) {
        const auto& pair = fp4_pairs[word >> (8 * byte) & 0xFF];
        tile.b[at.row + 2 * byte][at.column] = pair[0];
        tile.b[at.row + 2 * byte + 1][at.column] = pair[1];
      }
    }
  gather_scales(shape, in, findings, [&](bool of_a, int line, int chunk, std::uint8_t code) {
    (of_a ? tile.scale_a[line] : tile.scale_b[line])[chunk] = code;
  });
  block_scaled_fp4(tile, shape.scale, shape.scale_vector, c, d);
}

template <int Bits>
void gather_lines(const MmaShape& shape, const MmaOperands& in, Lines<16>& a, Lines<8>& b,
                  MmaFindings& findings) {
  const ElementNumbers a_numbers(shape.a), b_numbers(shape.b);
  findings.padding_a = gather_a<Bits>(
      shape, in, [&](int row, int k, std::uint32_t code) { a.set(row, k, a_numbers(code)); });
  findings.padding_b = gather_b<Bits>(
      shape, in, [&](int k, int col, std::uint32_t code) { b.set(col, k, b_numbers(code)); });
}

/// Hopper's FP8 mma.sync: elements converted to FP16; one FP16 product of the low two bytes of
/// every register, one of the high two on top of it, C added last, to nearest even.
void multiply_fp8_as_f16(const MmaShape& shape, const MmaOperands& in, const Tile& c, Tile& d) {
  Lines<16> a;
  Lines<8> b;
  const ElementNumbers a_numbers(shape.a, true), b_numbers(shape.b, true);
  const int half = shape.k / 2;
  const auto place = [half](int k) { return (k & 2) / 2 * half + k / 4 * 2 + (k & 1); };
  gather_a<8>(shape, in,
              [&](int row, int k, std::uint32_t code) { a.set(row, place(k), a_numbers(code)); });
  gather_b<8>(shape, in,
              [&](int k, int col, std::uint32_t code) { b.set(col, place(k), b_numbers(code)); });
  const bool to_f16 = shape.d == Result::f16;
  const Arithmetic how{25, 2 * fraction_bits(Operand::f16), to_f16 ? Output::f16 : Output::f32};
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      std::uint32_t sum = 0;
      for (const int k : {0, half})
        sum = fused_dot(how, a.line(row, k), b.line(column, k), half, 0,
                        accumulator_number(shape.d, sum));
      d[row][column] = to_f16 ? add_f16(c[row][column], sum) : add_f32(c[row][column], sum);
    }
}

void multiply_floats(const MmaShape& shape, Generation generation, const MmaOperands& in,
                     const Tile& c, Tile& d, MmaFindings& findings) {
  if (generation == Generation::hopper && shape.kind == Kind::plain &&
      container_bits(shape.kind, shape.a) == 8) {
    multiply_fp8_as_f16(shape, in, c, d);
    return;
  }
  Lines<16> a;
  Lines<8> b;
  switch (container_bits(shape.kind, shape.a)) {
    case 8:
      gather_lines<8>(shape, in, a, b, findings);
      break;
    case 16:
      gather_lines<16>(shape, in, a, b, findings);
      break;
    default:
      gather_lines<32>(shape, in, a, b, findings);
  }
  Number scale_a[16], scale_b[8];
  if (shape.scale != ScaleType::none) {
    gather_scales(shape, in, findings, [&](bool of_a, int line, int, std::uint8_t code) {
      (of_a ? scale_a[line] : scale_b[line]) = scale_number(shape.scale, code);
    });
  }
  const Arithmetic how{25, fraction_bits(shape.a) + fraction_bits(shape.b),
                       shape.d == Result::f16 ? Output::f16 : Output::f32};
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < 8; ++column) {
      if (scale_a[row].kind == Class::nan || scale_b[column].kind == Class::nan) {
        d[row][column] = nan_of(how.output);
        continue;
      }
      d[row][column] = fused_dot(how, a.line(row), b.line(column), shape.k,
                                 scale_a[row].exponent + scale_b[column].exponent,
                                 accumulator_number(shape.d, c[row][column]));
    }
}

}  // namespace

MmaFindings mma(const MmaShape& shape, Generation generation, const MmaOperands& operands,
                const std::array<std::uint32_t*, 4>& d) {
  MmaFindings findings;
  if (shape.scale != ScaleType::none) {
    findings.bad_selector_a = !valid_a_selector(operands.select_a, shape.scale_vector);
    findings.bad_selector_b = !valid_b_selector(operands.select_b, shape.scale_vector);
    if (findings.bad_selector_a || findings.bad_selector_b) return findings;
  }
  Tile c, results;
  shape.c == Result::f16 ? gather_c<16>(shape, operands, c) : gather_c<32>(shape, operands, c);
  const int bits = container_bits(shape.kind, shape.a);
  if (shape.d == Result::s32 && bits == 8)
    multiply_integers<8>(shape, operands, c, results);
  else if (shape.d == Result::s32)
    bits == 4 ? multiply_integers<4>(shape, operands, c, results)
              : multiply_integers<1>(shape, operands, c, results);
  else if (bits == 4)
    multiply_fp4(shape, operands, c, results, findings);
  else
    multiply_floats(shape, generation, operands, c, results, findings);
  shape.d == Result::f16 ? scatter_d<16>(shape, results, d) : scatter_d<32>(shape, results, d);
  return findings;
}

}  // namespace microscale::emulator::tensor
