#include "emulator/tensor/tcgen05.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "emulator/tensor/block_scaled_sum.hpp"
#include "emulator/tensor/element_numbers.hpp"
#include "emulator/tensor/fused_sum.hpp"

namespace microscale::emulator::tensor {
namespace {

constexpr Kind kind_of(Tcgen05Kind kind) {
  return is_packed_fp4(kind)           ? Kind::mxf4
         : kind == Tcgen05Kind::f16    ? Kind::plain
         : kind == Tcgen05Kind::tf32   ? Kind::plain
         : kind == Tcgen05Kind::f8f6f4 ? Kind::f8f6f4
                                       : Kind::mxf8f6f4;
}

std::optional<Operand> element_of(Tcgen05Kind kind, std::uint32_t code) {
  switch (kind) {
    case Tcgen05Kind::f16:
      return code == 0   ? std::optional(Operand::f16)
             : code == 1 ? std::optional(Operand::bf16)
                         : std::nullopt;
    case Tcgen05Kind::tf32:
      return code == 2 ? std::optional(Operand::tf32) : std::nullopt;
    case Tcgen05Kind::mxf4:
    case Tcgen05Kind::mxf4nvf4:
      return code == 1 ? std::optional(Operand::e2m1) : std::nullopt;
    default:
      break;
  }
  constexpr std::optional<Operand> small[8] = {Operand::e4m3, Operand::e5m2, std::nullopt,
                                               Operand::e2m3, Operand::e3m2, Operand::e2m1,
                                               std::nullopt,  std::nullopt};
  return small[code & 7];
}

/// Sizes of M and N that PTX's table of shapes has.
std::string size_problem(const Tcgen05Name& name, int m, int n) {
  const bool scaled = is_block_scaled(name.kind);
  const auto refuse = [&](const char* ms, int step) {
    return fmt::format("says M {} and N {}; here M is {} and N {} to 256 in steps of {}", m, n, ms,
                       step, step);
  };
  const int least = name.blocks == 2 ? (scaled ? 16 : 32) : scaled || m == 64 ? 8 : 16;
  const bool fits = n >= least && n <= 256 && n % least == 0;
  if (name.blocks == 2) return m == 256 && fits ? "" : refuse("256", least);
  const bool rows = m == 128 || (m == 64 && !scaled);
  return rows && fits ? "" : refuse(scaled ? "128" : "64 or 128", least);
}

/// The first row in which bits beside the codes are set, -1 if there is none.
int padded_row(Kind kind, Operand type, const Tcgen05Rows& rows, int count) {
  const std::uint8_t mask = padding_mask(kind, type);
  for (int row = 0; mask && row < count; ++row)
    for (const std::uint8_t byte : rows.bytes[row])
      if (byte & mask) return row;
  return -1;
}

int signed_scale_row(const Tcgen05Shape& shape, const Tcgen05Rows& rows, int count) {
  for (int row = 0; shape.scale == ScaleType::ue4m3 && row < count; ++row)
    for (int i = 0; i < shape.scale_vector; ++i)
      if (rows.scales[row][i] & 0x80) return row;
  return -1;
}

std::int16_t doubled(std::uint8_t byte, int item, bool negate) {
  const int value = doubled_e2m1[byte >> (4 * item) & 15];
  return static_cast<std::int16_t>(negate ? -value : value);
}

void multiply_fp4(const Tcgen05Shape& shape, const Tcgen05Rows& a, const Tcgen05Rows& b,
                  std::uint32_t* d) {
  const auto tile = std::make_unique<Fp4Tile>();
  // Columns of B eight at a time, k by k, as Fp4Tile has them; N is padded with zeros.
  const int groups = (shape.n + 7) / 8;
  std::vector<std::int16_t> columns(static_cast<std::size_t>(groups) * 64 * 8, 0);
  for (int n = 0; n < shape.n; ++n)
    for (int k = 0; k < 64; ++k)
      columns[static_cast<std::size_t>((n / 8 * 64 + k) * 8 + n % 8)] =
          doubled(b.bytes[n][k / 2], k % 2, shape.negate_b);
  for (int top = 0; top < shape.m; top += 16) {
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 64; ++k)
        tile->a[row][k] = doubled(a.bytes[top + row][k / 2], k % 2, shape.negate_a);
      std::memcpy(tile->scale_a[row], a.scales[top + row], 4);
    }
    for (int group = 0; group < groups; ++group) {
      std::memcpy(tile->b, columns.data() + static_cast<std::size_t>(group) * 64 * 8,
                  sizeof tile->b);
      std::uint32_t c[16][8] = {};
      for (int column = 0; column < 8; ++column)
        std::memcpy(tile->scale_b[column], b.scales[8 * group + column], 4);
      const auto at = [&](int row) {
        return d + static_cast<std::ptrdiff_t>(top + row) * shape.n + 8 * group;
      };
      for (int row = 0; row < 16; ++row) std::memcpy(c[row], at(row), 32);
      block_scaled_fp4(*tile, shape.scale, shape.scale_vector, c, c);
      for (int row = 0; row < 16; ++row) std::memcpy(at(row), c[row], 32);
    }
  }
}

/// The code of element k of a row in its container of 8, 16 or 32 bits.
std::uint32_t code_of(const std::uint8_t* row, int bits, int k) {
  std::uint32_t code = 0;
  std::memcpy(&code, row + k * bits / 8, static_cast<std::size_t>(bits / 8));
  return code;
}

void fill(Kind kind, Operand type, bool negate, int k, const Tcgen05Rows& rows, int count,
          Lines<Tcgen05Rows::most>& lines) {
  const ElementNumbers numbers(type);
  const int bits = container_bits(kind, type), down = container_shift(kind, type);
  const std::uint32_t keep = ~static_cast<std::uint32_t>(padding_mask(kind, type));
  for (int row = 0; row < count; ++row)
    for (int i = 0; i < k; ++i) {
      Number number = numbers((code_of(rows.bytes[row], bits, i) & keep) >> down);
      if (negate) number.significand = -number.significand;
      lines.set(row, i, number);
    }
}

void multiply_floats(const Tcgen05Shape& shape, const Tcgen05Rows& a, const Tcgen05Rows& b,
                     std::uint32_t* d) {
  const auto rows = std::make_unique<Lines<Tcgen05Rows::most>>();
  const auto columns = std::make_unique<Lines<Tcgen05Rows::most>>();
  const Kind kind = kind_of(shape.kind);
  fill(kind, shape.a, shape.negate_a, shape.k, a, shape.m, *rows);
  fill(kind, shape.b, shape.negate_b, shape.k, b, shape.n, *columns);
  const bool scaled = shape.scale != ScaleType::none;
  const auto scale_of = [&](const Tcgen05Rows& of, int row) {
    return scaled ? scale_number(shape.scale, of.scales[row][0]) : Number{};
  };
  const Arithmetic how{25, fraction_bits(shape.a) + fraction_bits(shape.b), Output::f32};
  for (int row = 0; row < shape.m; ++row) {
    const Number up = scale_of(a, row);
    for (int column = 0; column < shape.n; ++column) {
      const Number across = scale_of(b, column);
      std::uint32_t& value = d[static_cast<std::ptrdiff_t>(row) * shape.n + column];
      if (up.kind == Class::nan || across.kind == Class::nan) {
        value = tensor_nan_f32;
        continue;
      }
      value = fused_dot(how, rows->line(row), columns->line(column), shape.k,
                        up.exponent + across.exponent, accumulator_number(Result::f32, value));
    }
  }
}

}  // namespace

int element_bytes(Tcgen05Kind kind, Operand type) {
  return std::max(1, container_bits(kind_of(kind), type) / 8);
}

void unpack_chunk(Tcgen05Kind kind, Operand type, const std::uint8_t* chunk, std::uint8_t* row) {
  const bool six = type == Operand::e2m3 || type == Operand::e3m2;
  const bool narrow = kind == Tcgen05Kind::f8f6f4 || kind == Tcgen05Kind::mxf8f6f4;
  if (!narrow || (!six && type != Operand::e2m1)) {
    std::memcpy(row, chunk, 16);
    return;
  }
  const int bits = six ? 6 : 4;
  for (int i = 0; i < 16; ++i) {
    const int at = i * bits;
    const std::uint32_t pair = chunk[at / 8] | (at / 8 < 15 ? chunk[at / 8 + 1] << 8 : 0);
    const std::uint32_t code = pair >> (at % 8) & ((1u << bits) - 1);
    row[i] = static_cast<std::uint8_t>(code << container_shift(kind_of(kind), type));
  }
}

Tcgen05Problem read_instruction_descriptor(std::uint32_t bits, const Tcgen05Name& name,
                                           Tcgen05Shape& shape) {
  const auto field = [bits](int at, int count) { return bits >> at & ((1u << count) - 1); };
  const bool scaled = is_block_scaled(name.kind), fp4 = is_packed_fp4(name.kind);
  const auto refuse = [](std::string what) { return Tcgen05Problem{false, std::move(what)}; };
  if (field(2, 1)) return refuse("says A is sparse, which tcgen05.mma without .sp cannot read");
  // Bits that mean nothing in this form.
  const std::uint32_t reserved = !scaled ? 0x20800000u | 0xC000004Bu
                                 : fp4   ? 0x0700004Bu | 1u << 12
                                         : 0x8700004Bu;
  if (bits & reserved) return refuse(fmt::format("has reserved bits set: {:#x}", bits & reserved));
  if (fp4 && field(31, 1)) return refuse("says K is 96, which this machine does not model");
  if (!scaled && field(4, 2) != 1)
    return refuse(fmt::format("says D has the format {}; this machine has 1, FP32", field(4, 2)));
  shape = {};
  shape.kind = name.kind;
  const std::uint32_t code_a = field(7, 3), code_b = field(10, fp4 ? 2 : 3);
  const auto a = element_of(name.kind, code_a), b = element_of(name.kind, code_b);
  if (!a || !b)
    return refuse(fmt::format("says A has the format {} and B {}, which the kind does not have",
                              code_a, code_b));
  shape.a = *a, shape.b = *b;
  shape.negate_a = field(13, 1), shape.negate_b = field(14, 1);
  shape.mn_major_a = field(15, 1), shape.mn_major_b = field(16, 1);
  shape.n = static_cast<int>(field(17, 6) << 3);
  shape.m = static_cast<int>(scaled ? field(27, 2) << 7 : field(24, 5) << 4);
  shape.k = name.kind == Tcgen05Kind::f16 ? 16 : name.kind == Tcgen05Kind::tf32 ? 8 : fp4 ? 64 : 32;
  if (std::string problem = size_problem(name, shape.m, shape.n); !problem.empty())
    return refuse(std::move(problem));
  const auto whole_bytes = [&](Operand type) { return container_bits(kind_of(name.kind), type); };
  const bool narrow = shape.a >= Operand::e3m2 && name.kind != Tcgen05Kind::f16;
  const bool narrow_b = shape.b >= Operand::e3m2 && name.kind != Tcgen05Kind::f16;
  if ((shape.mn_major_a && (narrow || whole_bytes(shape.a) > 16)) ||
      (shape.mn_major_b && (narrow_b || whole_bytes(shape.b) > 16)))
    return refuse("says a matrix is MN-major; only elements of 8 and 16 bits can be here");
  if (!scaled) return {};
  shape.scale = field(23, 1) ? ScaleType::ue8m0 : ScaleType::ue4m3;
  shape.scale_vector = shape.k / name.scale_block;
  if (name.kind != Tcgen05Kind::mxf4nvf4 && shape.scale != ScaleType::ue8m0)
    return refuse("says scales are UE4M3, which only kind::mxf4nvf4 has");
  if (name.scale_block == 32 && shape.scale != ScaleType::ue8m0)
    return refuse("says scales are UE4M3, which need .block16");
  shape.scale_id_a = static_cast<int>(field(29, 2));
  shape.scale_id_b = static_cast<int>(field(4, 2));
  for (const int id : {shape.scale_id_a, shape.scale_id_b})
    if (id % shape.scale_vector != 0)
      return {true, fmt::format("says the scale id of A is {} and of B {}; with {} scales along K "
                                "it is {}",
                                shape.scale_id_a, shape.scale_id_b, shape.scale_vector,
                                shape.scale_vector == 2 ? "0 or 2" : "0")};
  return {};
}

Tcgen05Findings tcgen05_product(const Tcgen05Shape& shape, bool accumulate, const Tcgen05Rows& a,
                                const Tcgen05Rows& b, std::uint32_t* d) {
  const Kind kind = kind_of(shape.kind);
  Tcgen05Findings findings;
  findings.padding_a = padded_row(kind, shape.a, a, shape.m);
  findings.padding_b = padded_row(kind, shape.b, b, shape.n);
  findings.scale_sign_a = signed_scale_row(shape, a, shape.m);
  findings.scale_sign_b = signed_scale_row(shape, b, shape.n);
  if (!accumulate)
    std::fill_n(d, static_cast<std::size_t>(shape.m) * static_cast<std::size_t>(shape.n), 0u);
  if (is_packed_fp4(shape.kind))
    multiply_fp4(shape, a, b, d);
  else
    multiply_floats(shape, a, b, d);
  return findings;
}

}  // namespace microscale::emulator::tensor
