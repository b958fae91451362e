#include "emulator/memory/atomic_value.hpp"

#include <bit>
#include <cmath>
#include <type_traits>

#include "formats/half.hpp"

namespace microscale::emulator {

int bytes_of(AtomicType type) {
  switch (type) {
    case AtomicType::b16:
    case AtomicType::f16:
    case AtomicType::bf16:
      return 2;
    case AtomicType::b64:
    case AtomicType::u64:
    case AtomicType::s64:
    case AtomicType::f64:
      return 8;
    case AtomicType::b128:
      return 16;
    default:
      return 4;
  }
}

namespace {

template <class Word>
std::uint64_t integer(AtomicOp op, std::uint64_t old_bits, std::uint64_t operand_bits,
                      std::uint64_t compare) {
  using Bits = std::make_unsigned_t<Word>;
  const auto a = static_cast<Word>(old_bits), b = static_cast<Word>(operand_bits);
  const auto ua = static_cast<Bits>(a), ub = static_cast<Bits>(b);
  Bits result = 0;
  switch (op) {
    case AtomicOp::exch:
      result = ub;
      break;
    case AtomicOp::cas:
      result = ua == static_cast<Bits>(compare) ? ub : ua;
      break;
    case AtomicOp::add:
      result = ua + ub;
      break;
    case AtomicOp::inc:
      result = ua >= ub ? 0 : ua + 1;
      break;
    case AtomicOp::dec:
      result = ua == 0 || ua > ub ? ub : ua - 1;
      break;
    case AtomicOp::min:
      result = static_cast<Bits>(a < b ? a : b);
      break;
    case AtomicOp::max:
      result = static_cast<Bits>(a < b ? b : a);
      break;
    case AtomicOp::bit_and:
      result = ua & ub;
      break;
    case AtomicOp::bit_or:
      result = ua | ub;
      break;
    case AtomicOp::bit_xor:
      result = ua ^ ub;
      break;
  }
  return result;
}

template <class Real>
Real combine(AtomicOp op, Real a, Real b) {
  if (op == AtomicOp::add) return a + b;
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return op == AtomicOp::min ? (std::signbit(a) ? a : b) : (std::signbit(a) ? b : a);
  return (op == AtomicOp::min) == (a < b) ? a : b;
}

float flushed(float value, bool flush) {
  return flush && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

std::uint32_t single(AtomicOp op, std::uint32_t old, std::uint32_t operand, bool flush) {
  const float result = flushed(combine(op, flushed(std::bit_cast<float>(old), flush),
                                       flushed(std::bit_cast<float>(operand), flush)),
                               flush);
  return std::isnan(result) ? canonical_nan_f32 : std::bit_cast<std::uint32_t>(result);
}

/// Sums of two halves are exact in FP32 up to a rounding that the second one does not disturb.
std::uint16_t half(AtomicOp op, std::uint16_t old, std::uint16_t operand, bool bf16) {
  const auto widen = [&](std::uint16_t bits) {
    return bf16 ? bf16_to_float(bits) : f16_to_float(bits);
  };
  const float result = combine(op, widen(old), widen(operand));
  return bf16 ? float_to_bf16(result) : float_to_f16(result);
}

}  // namespace

AtomicValue apply(AtomicOp op, AtomicType type, AtomicValue old, AtomicValue operand,
                  AtomicValue compare, bool flush) {
  const bool arithmetic = op == AtomicOp::add || op == AtomicOp::min || op == AtomicOp::max;
  const bool wide = bytes_of(type) == 8;
  if (type == AtomicType::b128) {
    if (op == AtomicOp::cas) return old == compare ? operand : old;
    return operand;
  }
  if (arithmetic) {
    const auto low = static_cast<std::uint32_t>(old[0]),
               other = static_cast<std::uint32_t>(operand[0]);
    const auto halves = [&](bool bf16) -> AtomicValue {
      const std::uint32_t bottom =
          half(op, static_cast<std::uint16_t>(low), static_cast<std::uint16_t>(other), bf16);
      if (bytes_of(type) == 2) return {bottom, 0};
      const std::uint32_t top = half(op, static_cast<std::uint16_t>(low >> 16),
                                     static_cast<std::uint16_t>(other >> 16), bf16);
      return {top << 16 | bottom, 0};
    };
    switch (type) {
      case AtomicType::s32:
        return {integer<std::int32_t>(op, old[0], operand[0], 0), 0};
      case AtomicType::s64:
        return {integer<std::int64_t>(op, old[0], operand[0], 0), 0};
      case AtomicType::f32:
        return {single(op, low, other, flush), 0};
      case AtomicType::f64:
        return {std::bit_cast<std::uint64_t>(
                    combine(op, std::bit_cast<double>(old[0]), std::bit_cast<double>(operand[0]))),
                0};
      case AtomicType::f16:
      case AtomicType::f16x2:
        return halves(false);
      case AtomicType::bf16:
      case AtomicType::bf16x2:
        return halves(true);
      default:
        break;
    }
  }
  if (bytes_of(type) == 2) return {integer<std::uint16_t>(op, old[0], operand[0], compare[0]), 0};
  return {wide ? integer<std::uint64_t>(op, old[0], operand[0], compare[0])
               : integer<std::uint32_t>(op, old[0], operand[0], compare[0]),
          0};
}

}  // namespace microscale::emulator
