// Elements to numbers by table: 8-bit ones are looked up, wider ones computed.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/tensor/number.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale::emulator::tensor {

/// As FP16 where the unit converts FP8 first: an e4m3 subnormal becomes a normal number.
constexpr Number number_through_f16(Operand type, std::uint32_t code) {
  const auto byte = static_cast<std::uint8_t>(code);
  const float value = type == Operand::e5m2 ? E5M2::decode(byte) : E4M3::decode(byte);
  return number_of(Operand::f16, float_to_f16(value));
}

template <Operand Type, bool ThroughF16>
inline constexpr std::array<Number, 256> number_table = [] {
  std::array<Number, 256> table{};
  for (std::uint32_t code = 0; code < 256; ++code)
    table[code] = ThroughF16 ? number_through_f16(Type, code) : number_of(Type, code);
  return table;
}();

/// The decoder of one type.
class ElementNumbers {
 public:
  explicit ElementNumbers(Operand type, bool through_f16 = false) : type_(type) {
    switch (type) {
      case Operand::e4m3:
        table_ = through_f16 ? number_table<Operand::e4m3, true>.data()
                             : number_table<Operand::e4m3, false>.data();
        break;
      case Operand::e5m2:
        table_ = through_f16 ? number_table<Operand::e5m2, true>.data()
                             : number_table<Operand::e5m2, false>.data();
        break;
      case Operand::e3m2:
        table_ = number_table<Operand::e3m2, false>.data();
        break;
      case Operand::e2m3:
        table_ = number_table<Operand::e2m3, false>.data();
        break;
      case Operand::e2m1:
        table_ = number_table<Operand::e2m1, false>.data();
        break;
      default:
        break;
    }
  }
  /// `code` without its padding.
  Number operator()(std::uint32_t code) const {
    return table_ != nullptr ? table_[code & 0xFF] : number_of(type_, code);
  }

 private:
  Operand type_;
  const Number* table_ = nullptr;
};

}  // namespace microscale::emulator::tensor
