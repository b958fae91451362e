// Which stretches of a listing only some lanes of a warp run, when a branch parts them.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/ast.hpp"

namespace microscale::emulator::ptx {

/// Where a register is written and read: indexes of instructions.
struct Places {
  std::vector<std::uint32_t> writes, reads;
};

/// By register. A guard is a read.
std::vector<Places> places_of(const Function& body);

class Regions {
 public:
  explicit Regions(const Function& body);

  struct Branch {
    std::uint32_t guard = 0;                     // its predicate's register
    std::uint32_t from = 0, middle = 0, to = 0;  // one side [from, middle), the other [middle, to)
  };
  const std::vector<Branch>& branches() const { return branches_; }
  bool has_table() const { return has_table_; }  // a brx: nothing is known about sides

  /// Whether what is written on a side of the branch is read on that side only, so that lanes that
  /// took different sides never meet with different values.
  static bool keeps_apart(const Branch& branch, const Places& places);
  static bool keeps_apart(const Branch& branch, std::uint32_t write, std::uint32_t read);

 private:
  std::vector<Branch> branches_;
  bool has_table_ = false;
};

}  // namespace microscale::emulator::ptx
