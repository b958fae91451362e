// Which write of a register a read of it sees, where only one can reach it.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/listing_regions.hpp"

namespace microscale::emulator::ptx {

/// Of registers that are written in several places; along all paths through the code. Knows nothing
/// where there is a brx.
class Reaching {
 public:
  Reaching(const Function& body, const std::vector<Places>& places);

  /// The instruction that wrote what the instruction `at` reads; nothing where several may have.
  std::optional<std::uint32_t> only_write(std::uint32_t reg, std::uint32_t at) const;

 private:
  static std::uint64_t key(std::uint32_t reg, std::uint32_t at) {
    return std::uint64_t{reg} << 32 | at;
  }
  std::unordered_map<std::uint64_t, std::uint32_t> writes_;
};

}  // namespace microscale::emulator::ptx
