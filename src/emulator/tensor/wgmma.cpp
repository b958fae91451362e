// The fused sums of Hopper: 25 fraction bits for f16, bf16 and tf32; 13 for FP8, whose FP32 results
// keep 13 fraction bits too.
#include "emulator/tensor/wgmma.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "emulator/tensor/element_numbers.hpp"
#include "emulator/tensor/fused_sum.hpp"
#include "emulator/tensor/wgmma_fragments.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator::tensor {
namespace {

bool is_integer(Operand type) { return type == Operand::s8 || type == Operand::u8; }
bool is_fp8(Operand type) { return type == Operand::e4m3 || type == Operand::e5m2; }

std::int32_t integer_of(Operand type, std::uint32_t code) {
  return type == Operand::s8 ? static_cast<std::int8_t>(code) : static_cast<std::int32_t>(code);
}

void multiply_integers(const WgmmaShape& shape, const WgmmaTile& a, const WgmmaTile& b,
                       std::vector<std::uint32_t>& values) {
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < shape.n; ++column) {
      std::uint32_t& value = values[static_cast<std::size_t>(row * shape.n + column)];
      std::int64_t sum = static_cast<std::int32_t>(value);
      for (int k = 0; k < shape.k(); ++k)
        sum += integer_of(shape.a, a.codes[static_cast<std::size_t>(row)][k]) *
               integer_of(shape.b, b.codes[static_cast<std::size_t>(column)][k]);
      if (shape.saturate) sum = sum < INT32_MIN ? INT32_MIN : sum > INT32_MAX ? INT32_MAX : sum;
      value = static_cast<std::uint32_t>(sum);
    }
}

void multiply_floats(const WgmmaShape& shape, const WgmmaOptions& options, const WgmmaTile& a,
                     const WgmmaTile& b, std::vector<std::uint32_t>& values) {
  const bool fp8 = is_fp8(shape.a);
  const Arithmetic how{fp8 ? 13 : 25, fraction_bits(shape.a) + fraction_bits(shape.b),
                       shape.d == Result::f16 ? Output::f16
                       : fp8                  ? Output::f32_e8m13
                                              : Output::f32};
  const auto rows = std::make_unique<Lines<64>>();
  const auto columns = std::make_unique<Lines<256>>();
  const auto fill = [&](auto& lines, int count, Operand type, bool negate, const WgmmaTile& tile) {
    const ElementNumbers numbers(type);
    for (int line = 0; line < count; ++line)
      for (int k = 0; k < shape.k(); ++k) {
        Number number = numbers(tile.codes[static_cast<std::size_t>(line)][k]);
        if (negate) number.significand = -number.significand;
        lines.set(line, k, number);
      }
  };
  fill(*rows, 64, shape.a, options.negate_a, a);
  fill(*columns, shape.n, shape.b, options.negate_b, b);
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < shape.n; ++column) {
      std::uint32_t& value = values[static_cast<std::size_t>(row * shape.n + column)];
      value = fused_dot(how, rows->line(row), columns->line(column), shape.k(), 0,
                        accumulator_number(shape.d, value));
    }
}

/// Calls visit(index in D, register row, lane, shift) for every element of D.
template <class Visit>
void for_each_result(const WgmmaShape& shape, Visit&& visit) {
  const int bits = shape.d == Result::f16 ? 16 : 32;
  for (int warp = 0; warp < 4; ++warp)
    for (int reg = 0; reg < shape.d_registers(); ++reg)
      for (int lane = 0; lane < 32; ++lane)
        for (int item = 0; item < 32 / bits; ++item) {
          const Coordinate at = wgmma_d_coordinate(bits, warp, {lane, reg, item});
          visit(static_cast<std::size_t>(at.row * shape.n + at.column),
                shape.d_registers() * warp + reg, lane, item * 16);
        }
}

}  // namespace

WgmmaShape wgmma_shape(std::span<const std::string_view> modifiers) {
  const auto refuse = [&](std::string_view why) {
    return Error(ErrorCode::unsupported,
                 fmt::format("wgmma.{}: {}", fmt::join(modifiers, "."), why));
  };
  WgmmaShape shape;
  int k = 0;
  shape.n = 0;
  std::vector<std::string_view> types;
  for (const std::string_view word : modifiers) {
    if (word == "mma_async" || word == "sync" || word == "aligned") continue;
    if (word == "satfinite") {
      shape.saturate = true;
    } else if (word.starts_with("m64n") && word.size() <= 10) {
      int* number = &shape.n;
      for (const char letter : word.substr(4)) {
        if (letter == 'k') {
          number = &k;
        } else if (letter >= '0' && letter <= '9') {
          *number = *number * 10 + (letter - '0');
        } else {
          throw refuse("unknown shape");
        }
      }
    } else {
      types.push_back(word);
    }
  }
  if (shape.n < 8 || shape.n > 256 || shape.n % 8 != 0)
    throw refuse("N must be 8 to 256 in eights");
  if (types.size() != 3) throw refuse("three types (D, A, B) are needed");
  bool known[3] = {};
  for (int i = 0; i <= static_cast<int>(Result::s32); ++i)
    if (name_of(static_cast<Result>(i)) == types[0])
      shape.d = static_cast<Result>(i), known[0] = true;
  for (int i = 0; i <= static_cast<int>(Operand::e5m2); ++i) {
    const auto type = static_cast<Operand>(i);
    if (name_of(type) == types[1]) shape.a = type, known[1] = true;
    if (name_of(type) == types[2]) shape.b = type, known[2] = true;
  }
  if (!known[0] || !known[1] || !known[2]) throw refuse("unknown type");
  const bool mixed =
      (is_integer(shape.a) && is_integer(shape.b)) || (is_fp8(shape.a) && is_fp8(shape.b));
  if (shape.a != shape.b && !mixed) throw refuse("A and B do not go together");
  if (is_integer(shape.a) != (shape.d == Result::s32))
    throw refuse("integers, and only they, give s32");
  if (shape.d == Result::f16 && (shape.a == Operand::bf16 || shape.a == Operand::tf32))
    throw refuse("the results of bf16 and tf32 are .f32");
  if (k != shape.k()) throw refuse(fmt::format("K must be {}", shape.k()));
  if (shape.saturate && !is_integer(shape.a)) throw refuse(".satfinite is for integers");
  if (is_integer(shape.a) && shape.n > 32 && shape.n % 16 != 0)
    throw refuse("N of integers beyond 32 must be a multiple of 16");
  return shape;
}

void read_shared_tile(Operand type, int lines, int k, const MatrixDescriptor& descriptor,
                      bool mn_major, const ReadChunk& read, WgmmaTile& tile) {
  const int bytes = container_bits(Kind::plain, type) / 8, per_chunk = 16 / bytes;
  std::uint8_t chunk[16];
  const auto code = [&](int index) {
    std::uint32_t value = 0;
    for (int byte = 0; byte < bytes; ++byte)
      value |= static_cast<std::uint32_t>(chunk[index * bytes + byte]) << (8 * byte);
    return value;
  };
  if (mn_major) {
    for (int at_k = 0; at_k < k; ++at_k)
      for (int line = 0; line < lines; line += per_chunk) {
        read(mn_major_chunk(descriptor, static_cast<std::uint32_t>(line / per_chunk),
                            static_cast<std::uint32_t>(at_k)),
             chunk);
        for (int i = 0; i < per_chunk; ++i)
          tile.codes[static_cast<std::size_t>(line + i)][at_k] = code(i);
      }
    return;
  }
  for (int line = 0; line < lines; ++line)
    for (int at_k = 0; at_k < k; at_k += per_chunk) {
      read(k_major_chunk(descriptor, static_cast<std::uint32_t>(line),
                         static_cast<std::uint32_t>(at_k / per_chunk)),
           chunk);
      for (int i = 0; i < per_chunk; ++i)
        tile.codes[static_cast<std::size_t>(line)][at_k + i] = code(i);
    }
}

void read_register_tile(const WgmmaShape& shape, const std::uint32_t* const* registers,
                        WgmmaTile& a) {
  const int bits = container_bits(Kind::plain, shape.a);
  for (int warp = 0; warp < 4; ++warp)
    for (int reg = 0; reg < 4; ++reg)
      for (int lane = 0; lane < 32; ++lane)
        for (int item = 0; item < 32 / bits; ++item) {
          const Coordinate at = wgmma_a_coordinate(bits, warp, {lane, reg, item});
          a.codes[static_cast<std::size_t>(at.row)][at.column] =
              registers[4 * warp + reg][lane] >> (bits * item) & (0xFFFFFFFFu >> (32 - bits));
        }
}

void wgmma(const WgmmaShape& shape, const WgmmaOptions& options, const WgmmaTile& a,
           const WgmmaTile& b, std::uint32_t* const* d) {
  const std::uint32_t mask = shape.d == Result::f16 ? 0xFFFFu : 0xFFFFFFFFu;
  std::vector<std::uint32_t> values(static_cast<std::size_t>(64 * shape.n), 0u);
  if (options.accumulate) {
    for_each_result(shape, [&](std::size_t index, int row, int lane, int shift) {
      values[index] = d[row][lane] >> (mask == 0xFFFFu ? shift : 0) & mask;
    });
  }
  if (shape.d == Result::s32)
    multiply_integers(shape, a, b, values);
  else
    multiply_floats(shape, options, a, b, values);
  for_each_result(shape, [&](std::size_t index, int row, int lane, int shift) {
    const int up = mask == 0xFFFFu ? shift : 0;
    d[row][lane] = (d[row][lane] & ~(mask << up)) | values[index] << up;
  });
}

}  // namespace microscale::emulator::tensor
