// Values that nobody defined: registers that were never written, bytes that were never stored, and
// what is computed of them. They are carried along, and told of where they decide something: a
// branch, an address, what is stored, a matrix product, what other lanes get.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/finding.hpp"

namespace microscale::emulator {

/// Whether an instruction needs defined operands; others only carry them on.
bool decides_something(std::string_view opcode);

/// Where an undefined value came up.
struct UndefinedOrigin {
  FindingKind kind = FindingKind::uninitialised_register;
  std::uint32_t instruction = 0;
  int lane = 0;
  std::string message;
  std::uint64_t address = 0;  // of a byte that was read, or 0
  bool told = false;
};

/// Of one warp, from its first undefined value on.
class UndefinedValues {
 public:
  explicit UndefinedValues(std::size_t registers) : of_(registers, none) {}

  static constexpr std::uint32_t none = ~0u;
  /// The number of the origin at that instruction, made when it is not there yet.
  template <class Message>
  std::uint32_t origin(FindingKind kind, std::uint32_t instruction, int lane,
                       const Message& message, std::uint64_t address = 0) {
    for (std::uint32_t i = 0; i < origins_.size(); ++i)
      if (origins_[i].kind == kind && origins_[i].instruction == instruction) return i;
    origins_.push_back({kind, instruction, lane, message(), address, false});
    return static_cast<std::uint32_t>(origins_.size() - 1);
  }
  UndefinedOrigin& operator[](std::uint32_t number) { return origins_[number]; }
  /// Of a register that is undefined in some lanes: the origin's number, or none.
  std::uint32_t& of(std::uint32_t reg) { return of_[reg]; }

 private:
  std::vector<UndefinedOrigin> origins_;
  std::vector<std::uint32_t> of_;
};

}  // namespace microscale::emulator
