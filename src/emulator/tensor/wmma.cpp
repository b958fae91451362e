#include "emulator/tensor/wmma.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "emulator/tensor/mma.hpp"
#include "formats/half.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator::tensor {
namespace {

[[noreturn]] void refuse(std::span<const std::string_view> modifiers, std::string_view why) {
  throw Error(ErrorCode::unsupported, fmt::format("wmma.{}: {}", fmt::join(modifiers, "."), why));
}

constexpr Operand operands[] = {Operand::f16, Operand::bf16, Operand::tf32,
                                Operand::f64, Operand::s8,   Operand::u8,
                                Operand::s4,  Operand::u4,   Operand::b1};
constexpr Result results[] = {Result::f16, Result::f32, Result::s32, Result::f64};

template <class Type, std::size_t N>
std::optional<Type> named(const Type (&types)[N], std::string_view word) {
  for (const Type each : types)
    if (name_of(each) == word) return each;
  return std::nullopt;
}

struct Size {
  std::string_view name;
  int m, n, k;
};
constexpr Size sizes[] = {{"m16n16k16", 16, 16, 16}, {"m8n32k16", 8, 32, 16},
                          {"m32n8k16", 32, 8, 16},   {"m16n16k8", 16, 16, 8},
                          {"m8n8k4", 8, 8, 4},       {"m8n8k32", 8, 8, 32},
                          {"m8n8k128", 8, 8, 128}};

bool take_size(std::string_view word, WmmaShape& shape) {
  for (const Size& each : sizes)
    if (each.name == word) return shape.m = each.m, shape.n = each.n, shape.k = each.k, true;
  return false;
}

bool turned(const WmmaShape& shape) { return shape.n == 32; }
int parts(const WmmaShape& shape) { return shape.m * shape.n / 128 + (shape.m * shape.n < 128); }

bool has_size(const WmmaShape& shape, Operand type) {
  const bool large = shape.m * shape.n == 256;
  switch (type) {
    case Operand::tf32:
      return large && shape.k == 8;
    case Operand::f64:
      return !large && shape.k == 4;
    case Operand::s4:
    case Operand::u4:
      return !large && shape.k == 32;
    case Operand::b1:
      return !large && shape.k == 128;
    default:
      return large && shape.k == 16;
  }
}

bool has_size(const WmmaShape& shape, Result type) {
  const bool large = shape.m * shape.n == 256;
  switch (type) {
    case Result::f64:
      return !large && shape.k == 4;
    case Result::s32:
      return large ? shape.k == 16 : shape.k != 4;
    case Result::f16:
      return large && shape.k == 16;
    default:
      return large;
  }
}

Operand operand_of(const WmmaShape& shape, WmmaMatrix matrix) {
  return matrix == WmmaMatrix::a ? shape.a : shape.b;
}
Result result_of(const WmmaShape& shape, WmmaMatrix matrix) {
  return matrix == WmmaMatrix::c ? shape.c : shape.d;
}
bool is_operand(WmmaMatrix matrix) { return matrix == WmmaMatrix::a || matrix == WmmaMatrix::b; }

/// Registers that hold elements once.
int distinct_registers(const WmmaShape& shape, WmmaMatrix matrix) {
  const Coordinate extent = wmma_extent(shape, matrix);
  const int elements = extent.row * extent.column;
  if (is_operand(matrix)) return elements / register_share(Kind::plain, operand_of(shape, matrix));
  return elements / (result_of(shape, matrix) == Result::f16 ? 64 : 32);
}

std::string_view types_fault(const WmmaShape& s) {
  const bool floats =
      s.c != Result::s32 && s.d != Result::s32 && s.c != Result::f64 && s.d != Result::f64;
  switch (s.a) {
    case Operand::f16:
      return floats ? "" : "the results of f16 are .f16 or .f32";
    case Operand::bf16:
    case Operand::tf32:
      return s.c == Result::f32 && s.d == Result::f32 ? ""
                                                      : "the results of bf16 and tf32 are .f32";
    case Operand::f64:
      return s.c == Result::f64 && s.d == Result::f64 ? "" : "the results of f64 are .f64";
    default:
      return s.c == Result::s32 && s.d == Result::s32 ? "" : "the results of integers are .s32";
  }
}

}  // namespace

WmmaMove wmma_move(std::span<const std::string_view> modifiers) {
  WmmaMove move;
  std::optional<Operand> operand;
  std::optional<Result> result;
  bool sized = false, laid = false, named_matrix = false;
  for (const std::string_view word : modifiers) {
    if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'd' && !named_matrix) {
      move.matrix = static_cast<WmmaMatrix>(word[0] - 'a');
      named_matrix = true;
    } else if (word == "row" || word == "col") {
      move.column_major = word == "col";
      laid = true;
    } else if (take_size(word, move.shape)) {
      sized = true;
    } else if (is_operand(move.matrix)) {
      if (const auto type = named(operands, word)) operand = type;
    } else if (const auto type = named(results, word)) {
      result = type;
    }
  }
  if (!named_matrix || !laid || !sized || (is_operand(move.matrix) ? !operand : !result))
    refuse(modifiers, "a matrix, a layout, a shape and a type are needed");
  if (operand) {
    move.shape.a = move.shape.b = *operand;
    if (!has_size(move.shape, *operand)) refuse(modifiers, "no such shape of these elements");
    const int bits = container_bits(Kind::plain, *operand);
    if (bits < 8 && move.column_major != (move.matrix == WmmaMatrix::b))
      refuse(modifiers, "elements of less than 8 bits are .row in A and .col in B");
  } else {
    move.shape.c = move.shape.d = *result;
    if (!has_size(move.shape, *result)) refuse(modifiers, "no such shape of these elements");
  }
  return move;
}

WmmaShape wmma_shape(std::span<const std::string_view> modifiers) {
  WmmaShape shape;
  std::vector<std::string_view> types;
  std::vector<bool> columns;
  bool sized = false, counts = false, counted = false;
  for (const std::string_view word : modifiers) {
    if (word == "row" || word == "col") {
      columns.push_back(word == "col");
    } else if (take_size(word, shape)) {
      sized = true;
    } else if (word == "satfinite") {
      shape.saturate = true;
    } else if (word == "xor" || word == "and") {
      shape.ands = word == "and";
      counts = true;
    } else if (word == "popc") {
      counted = true;
    } else if (word == "rz" || word == "rm" || word == "rp") {
      shape.rounding = word == "rz" ? Rounding::zero : word == "rm" ? Rounding::down : Rounding::up;
    } else if (named(operands, word) || named(results, word)) {
      types.push_back(word);
    }
  }
  if (!sized || columns.size() != 2) refuse(modifiers, "two layouts and a shape are needed");
  const bool halves = types.size() == 2;  // D and C; A and B are f16
  if (!halves && types.size() != 4) refuse(modifiers, "the types of D, A, B and C are needed");
  const auto d = named(results, types.front()), c = named(results, types.back());
  const auto a = halves ? Operand::f16 : named(operands, types[1]);
  const auto b = halves ? Operand::f16 : named(operands, types[2]);
  if (!a || !b || !c || !d) refuse(modifiers, "no such combination of types");
  shape.a = *a, shape.b = *b, shape.c = *c, shape.d = *d;
  if (shape.a != shape.b) refuse(modifiers, "A and B must have one type");
  if (const std::string_view fault = types_fault(shape); !fault.empty()) refuse(modifiers, fault);
  if (!has_size(shape, shape.a)) refuse(modifiers, "no such shape of these elements");
  if ((shape.a == Operand::b1) != (counts && counted))
    refuse(modifiers, "b1 has .xor.popc or .and.popc");
  if (shape.rounding != Rounding::nearest && shape.a != Operand::f64)
    refuse(modifiers, "a rounding is for .f64");
  if (shape.saturate && shape.a == Operand::f16) shape.saturate = false;  // was of PTX 6: no effect
  if (container_bits(Kind::plain, shape.a) < 8 && (columns[0] || !columns[1]))
    refuse(modifiers, "elements of less than 8 bits are .row in A and .col in B");
  return shape;
}

int wmma_element_bits(const WmmaShape& shape, WmmaMatrix matrix) {
  if (is_operand(matrix)) return container_bits(Kind::plain, operand_of(shape, matrix));
  const Result type = result_of(shape, matrix);
  return type == Result::f16 ? 16 : type == Result::f64 ? 64 : 32;
}

Coordinate wmma_extent(const WmmaShape& shape, WmmaMatrix matrix) {
  if (matrix == WmmaMatrix::a) return {shape.m, shape.k};
  if (matrix == WmmaMatrix::b) return {shape.k, shape.n};
  return {shape.m, shape.n};
}

int wmma_registers(const WmmaShape& shape, WmmaMatrix matrix) {
  if (is_operand(matrix) && operand_of(shape, matrix) == Operand::f16) return 8;
  return distinct_registers(shape, matrix);
}

Coordinate wmma_place(const WmmaShape& shape, WmmaMatrix matrix, const Slot& slot) {
  const int bits = std::min(wmma_element_bits(shape, matrix), 32);
  const int distinct = distinct_registers(shape, matrix);
  // A or B may be what all parts share.
  const bool shared = matrix == WmmaMatrix::a   ? shape.m != 32
                      : matrix == WmmaMatrix::b ? shape.n == 8
                                                : false;
  const int count = shared ? 1 : parts(shape);
  const int each = distinct / count, reg = slot.reg % distinct;
  const int part = reg / each;
  const Slot inner{slot.lane, reg % each, slot.item};
  if (turned(shape)) {  // of the transposed matrices
    if (matrix == WmmaMatrix::a) {
      const Coordinate at = b_coordinate(bits, inner);
      return {at.column, at.row};
    }
    const Coordinate at =
        matrix == WmmaMatrix::b ? a_coordinate(bits, inner) : d_coordinate(bits, inner);
    return {at.column, at.row + 16 * part};
  }
  if (matrix == WmmaMatrix::a) {
    const Coordinate at = a_coordinate(bits, inner);
    return {at.row + 16 * part, at.column};
  }
  const Coordinate at =
      matrix == WmmaMatrix::b ? b_coordinate(bits, inner) : d_coordinate(bits, inner);
  if (shape.m == 32) return {at.row + 16 * part, at.column};
  return {at.row, at.column + 8 * part};
}

MmaShape wmma_part(const WmmaShape& shape) {
  MmaShape part;
  part.m = shape.m == 8 && shape.n == 8 ? 8 : 16;
  part.k = shape.k;
  part.a = turned(shape) ? shape.b : shape.a;
  part.b = turned(shape) ? shape.a : shape.b;
  part.c = part.d = shape.c == shape.d ? shape.d : Result::f32;
  part.saturate = shape.saturate;
  part.ands = shape.ands;
  part.rounding = shape.rounding;
  return part;
}

void wmma(const WmmaShape& shape, Generation generation,
          const std::array<const std::uint32_t*, 8>& a,
          const std::array<const std::uint32_t*, 8>& b,
          const std::array<const std::uint32_t*, 8>& c, const std::array<std::uint32_t*, 8>& d) {
  const MmaShape part = wmma_part(shape);
  const bool widens = part.c != shape.c, narrows = part.d != shape.d;
  const auto& first = turned(shape) ? b : a;
  const auto& second = turned(shape) ? a : b;
  const int of_a = a_registers(part), of_b = b_registers(part),
            of_c = result_registers(part, part.c);
  std::uint32_t wide_c[4][32], wide_d[8][32];
  for (int i = 0; i < parts(shape); ++i) {
    MmaOperands in;
    std::array<std::uint32_t*, 4> out{};
    const bool moves_a = turned(shape) || shape.m == 32, moves_b = !moves_a;
    for (int reg = 0; reg < of_a; ++reg)
      in.a[static_cast<std::size_t>(reg)] =
          first[static_cast<std::size_t>(reg + (moves_a ? i * of_a : 0))];
    for (int reg = 0; reg < of_b; ++reg)
      in.b[static_cast<std::size_t>(reg)] =
          second[static_cast<std::size_t>(reg + (moves_b ? i * of_b : 0))];
    for (int reg = 0; reg < of_c; ++reg) {
      const auto r = static_cast<std::size_t>(reg), at = static_cast<std::size_t>(i * of_c + reg);
      if (widens) {  // two elements of a register of f16
        const std::uint32_t* from = c[at / 2];
        for (int lane = 0; lane < 32; ++lane)
          wide_c[r][lane] = std::bit_cast<std::uint32_t>(
              f16_to_float(static_cast<std::uint16_t>(from[lane] >> (16 * (reg & 1)))));
        in.c[r] = wide_c[r];
      } else {
        in.c[r] = c[at];
      }
      out[r] = narrows ? wide_d[at] : d[at];
    }
    mma(part, generation, in, out);
  }
  if (!narrows) return;
  for (std::size_t reg = 0; reg < 4; ++reg)
    for (int lane = 0; lane < 32; ++lane)
      d[reg][lane] =
          float_to_f16(std::bit_cast<float>(wide_d[2 * reg][lane])) |
          static_cast<std::uint32_t>(float_to_f16(std::bit_cast<float>(wide_d[2 * reg + 1][lane])))
              << 16;
}

}  // namespace microscale::emulator::tensor
