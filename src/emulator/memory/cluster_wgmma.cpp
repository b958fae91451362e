// The shared memory that a wgmma reads: as one who knows what all four warps of the warpgroup knew
// when they came to it, at the time of its group.
#include <cstring>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

void ClusterMemory::begin_matrix(const Agent& leader, const Knowledge& know, std::uint32_t group) {
  warpgroup_.know = know;
  warpgroup_.slot = slot_of(warp_of(leader), AsyncKind::wgmma);
  warpgroup_.global_records.clear();
  warpgroup_.shared_records.clear();
  warpgroup_.global_order = warpgroup_.shared_order = {};
  matrix_group_ = group;
}

bool ClusterMemory::read_matrix(const Agent& leader, std::uint32_t address, std::uint8_t* to) {
  Toucher reads{launch_, reporter_, leader, warpgroup_, domain_};
  reads.asynchronous = true;
  reads.slot = warpgroup_.slot;
  reads.time = matrix_group_;
  reads.unit = Unit::wgmma;
  return move_row(reads, 0, shared_window | address, 16, Mode::read, to, nullptr);
}

}  // namespace microscale::emulator
