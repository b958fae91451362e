// Asynchronous copies: the source is read and the destination noted as written when a copy is
// issued, both as of a time that only its wait makes known; the bytes land as the policy says.
#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "emulator/memory/cluster_memory.hpp"

namespace microscale::emulator {

namespace {

constexpr std::size_t index_of(AsyncKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

// ---- copies on their way
// ---------------------------------------------------------------------------

void ClusterMemory::launch_copy(const Agent&, AsyncCopy copy) {
  ++writes_;
  if (launch_.options.policy == AsyncPolicy::random) roll();
  if (launch_.options.policy != AsyncPolicy::eager) copy.poison();
  copies_.push_back(std::move(copy));
  if (launch_.options.policy == AsyncPolicy::eager) land(copies_.size() - 1);
}

void ClusterMemory::land(std::size_t index) {
  const AsyncCopy copy = std::move(copies_[index]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  copy.land();
  if (copy.barrier == 0) return;
  for (Barrier& barrier : barriers_) {
    if (barrier.key != copy.barrier || !barrier.live) continue;
    const std::uint64_t phase = barrier.state.phase();
    barrier.arriving.clock.set(beginning_of(copy.issuer.rank), 1);
    if (copy.known) barrier.arriving.join(*copy.known);
    const MbarrierError error =
        copy.arrive ? barrier.state.arrive(1) : barrier.state.complete(copy.transaction);
    report_misuse(copy.issuer, 0, error, barrier.key);
    completed_phases(barrier, phase);
    return;
  }
  reporter_.say(FindingKind::misuse, copy.issuer, 0, true, [&] {
    return fmt::format("an asynchronous copy completes at {:#x}, where the mbarrier is gone",
                       copy.barrier);
  });
}

template <class Want>
void ClusterMemory::land_where(const Want& want) {
  for (std::size_t i = 0; i < copies_.size();)
    if (want(copies_[i]))
      land(i);
    else
      ++i;
}

void ClusterMemory::roll() {
  land_where([&](const AsyncCopy& copy) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    if ((random_ >> 40 & 1) == 0) return false;
    return !(copy.arrive || copy.in_order()) ||
           std::none_of(copies_.begin(), copies_.end(), [&](const AsyncCopy& other) {
             return other.kind == copy.kind && other.warp == copy.warp &&
                    other.sequence < copy.sequence;
           });
  });
}

void ClusterMemory::land_for(std::uint64_t barrier) {
  if (launch_.options.policy == AsyncPolicy::random) return roll();
  // An arrive of cp.async, or a tcgen05.commit, stands behind the work of its warp.
  std::vector<std::uint64_t> last[2];  // arrive at this barrier, of each warp
  const auto last_of = [&](const AsyncCopy& copy) -> std::uint64_t& {
    return last[copy.kind == AsyncKind::tcgen05][copy.warp];
  };
  for (std::vector<std::uint64_t>& each : last) each.resize(warp_count());
  for (const AsyncCopy& copy : copies_)
    if (copy.barrier == barrier && copy.arrive)
      last_of(copy) = std::max(last_of(copy), copy.sequence);
  land_where([&](const AsyncCopy& copy) {
    const bool stands_before = copy.kind == AsyncKind::cp_async || copy.in_order();
    return copy.barrier == barrier || (stands_before && copy.sequence < last_of(copy));
  });
}

bool ClusterMemory::land_all() {
  std::uint64_t before = 0, after = 0;
  for (const Barrier& each : barriers_) before += each.state.phase();
  land_where([](const AsyncCopy&) { return true; });
  for (const Barrier& each : barriers_) after += each.state.phase();
  return after != before;
}

void ClusterMemory::end() {
  if (!copies_.empty()) {
    // A store to global memory may still be on its way when its block ends; a shared destination is
    // lost.
    for (const AsyncCopy& copy : copies_) {
      if (copy.in_order() && !copy.pieces.empty())
        reporter_.say(FindingKind::missing_wait, copy.issuer, 0, false, [&] {
          return fmt::format(
              "a {} of warp {} is still on its way when its block ends: no "
              "tcgen05.commit behind it was waited for",
              reporter_.opcode(copy.issuer.instruction), copy.issuer.warp);
        });
      if (copy.to_shared && !copy.pieces.empty()) {
        reporter_.say(FindingKind::missing_wait, copy.issuer, 0, false, [&] {
          return fmt::format(
              "an asynchronous copy of {} bytes to shared memory by warp {} is still on its way "
              "when its block ends: nothing waited for it",
              copy.data.size(), copy.issuer.warp);
        });
      }
    }
  }
  land_where([](const AsyncCopy&) { return true; });
}

// ---- groups
// ----------------------------------------------------------------------------------------

void ClusterMemory::commit(const Agent& agent, AsyncKind kind) {
  ++warp_of(agent).committed[index_of(kind)];
}

void ClusterMemory::wait(const Agent& agent, AsyncKind kind, std::uint32_t pending,
                         bool reads_only) {
  WarpMemory& warp = warp_of(agent);
  const std::uint32_t committed = warp.committed[index_of(kind)];
  const std::uint32_t done = committed > pending ? committed - pending : 0;  // groups 1 .. done
  if (launch_.options.policy == AsyncPolicy::random) roll();
  if (!reads_only)
    land_where([&](const AsyncCopy& copy) {
      return copy.kind == kind && copy.warp == warp.slot && copy.barrier == 0 && copy.group <= done;
    });
  if (done == 0) return;
  if (kind == AsyncKind::cp_async && warp.waited_epoch != warp.epoch) {
    warp.waited_slot = slot_of(warp, kind);
    warp.waited_before = warp.know.clock[warp.waited_slot];
    warp.waited_epoch = warp.epoch;
  }
  if (!reads_only) warp.know.clock.set(slot_of(warp, kind), done);
  if (kind == AsyncKind::bulk) warp.know.clock.set(slot_of(warp, kind, true), done);
}

// ---- cp.async
// --------------------------------------------------------------------------------------

void ClusterMemory::cp_async(const Agent& agent, const WarpAccess& destination,
                             const std::uint64_t* source, const std::uint32_t* source_bytes) {
  WarpMemory& warp = warp_of(agent);
  const auto bytes = static_cast<std::uint64_t>(destination.bytes);
  if (launch_.options.count) {
    WarpAccess reading = destination;
    reading.address = source;
    for (int lane = 0; source_bytes && lane < warp_lanes; ++lane)
      if (source_bytes[lane] == 0) reading.lanes &= ~(1u << lane);  // zeros, which are not read
    count(agent, reading);
    count(agent, destination);
  }
  AsyncCopy copy;
  copy.kind = AsyncKind::cp_async;
  copy.warp = warp.slot;
  copy.issuer = agent;
  copy.sequence = ++sequence_;
  copy.group = warp.committed[index_of(AsyncKind::cp_async)] + 1;
  copy.to_shared = true;
  Toucher reads = toucher(agent), writes = toucher(agent);
  reads.slot = writes.slot = slot_of(warp, AsyncKind::cp_async);
  reads.time = writes.time = copy.group;
  // Whole pieces are read together, and what is to be written is noted together, where nothing is
  // amiss; the rest lane by lane.
  std::uint32_t given[warp_lanes], whole = 0, none = 0;
  for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) {
    given[lane] =
        std::min(source_bytes ? source_bytes[lane] : ~0u, static_cast<std::uint32_t>(bytes));
    whole |= static_cast<std::uint32_t>(given[lane] == bytes) << lane;
    none |= static_cast<std::uint32_t>(given[lane] == 0) << lane;
  }
  alignas(64) std::uint8_t stage[warp_lanes * 32];
  WarpAccess from_source = destination;
  from_source.address = source;
  from_source.lanes &= whole;
  const std::uint32_t read =
      from_source.lanes & ~touch_together(reads, from_source, Mode::read, stage);
  WarpAccess to_shared = destination;
  if (to_shared.lanes & ~(read | none))
    to_shared.lanes = 0;  // lanes find each other in their order
  const std::uint32_t noted =
      to_shared.lanes & ~touch_together(writes, to_shared, Mode::write, nullptr);
  copy.data.reserve(warp_lanes * bytes);
  for (std::uint32_t left = destination.lanes; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const std::uint64_t to = destination.address[lane], from = source[lane];
    Region region;
    if (!aligned(agent, lane, to, bytes, Mode::write) ||
        !aligned(agent, lane, from, bytes, Mode::read) ||
        !resolve(agent, lane, to, bytes, Mode::write, region))
      continue;
    const auto start = static_cast<std::uint32_t>(copy.data.size());
    copy.data.resize(start + bytes);
    if (read >> lane & 1) {
      std::memcpy(copy.data.data() + start, stage + static_cast<std::uint64_t>(lane) * bytes,
                  bytes);
    } else if (given[lane] && !move_row(reads, lane, from, given[lane], Mode::read,
                                        copy.data.data() + start, nullptr)) {
      copy.data.resize(start);
      continue;
    }
    if (!(noted >> lane & 1)) move_row(writes, lane, to, bytes, Mode::write, nullptr, nullptr);
    copy.pieces.push_back(
        {region.data + (to - region.begin), start, static_cast<std::uint32_t>(bytes)});
  }
  launch_copy(agent, std::move(copy));
}

void ClusterMemory::cp_async_mbarrier_arrive(const Agent& agent, int lane, std::uint64_t address,
                                             bool increment) {
  Barrier* barrier = barrier_at(agent, lane, address, "arrives");
  if (!barrier) return;
  WarpMemory& warp = warp_of(agent);
  if (increment) report_misuse(agent, lane, barrier->state.raise(), address);
  // The phase tells that all cp.async issued so far are done: as if their group ended here.
  std::uint32_t& committed = warp.committed[index_of(AsyncKind::cp_async)];
  barrier->arriving.join(warp.know);
  barrier->arriving.clock.set(slot_of(warp, AsyncKind::cp_async), committed + 1);
  warp.know.clock.tick(warp.slot);
  AsyncCopy copy;
  copy.kind = AsyncKind::cp_async;
  copy.warp = warp.slot;
  copy.issuer = agent;
  copy.sequence = ++sequence_;
  copy.group = committed + 1;
  copy.barrier = barrier->key;
  copy.arrive = true;
  copies_.push_back(std::move(copy));
  if (launch_.options.policy == AsyncPolicy::eager) land(copies_.size() - 1);
}

// ---- bulk copies and tensor maps
// -------------------------------------------------------------------

/// Sets who reads and who writes for a bulk copy, and where it completes. False after a finding.
bool ClusterMemory::prepare_bulk(const Agent& agent, int lane, std::uint64_t mbarrier,
                                 std::uint64_t bytes, AsyncCopy& copy, Toucher& reads,
                                 Toucher& writes) {
  WarpMemory& warp = warp_of(agent);
  copy.kind = AsyncKind::bulk;
  copy.warp = warp.slot;
  copy.issuer = agent;
  copy.sequence = ++sequence_;
  reads.asynchronous = writes.asynchronous = true;
  if (mbarrier) {
    Barrier* barrier =
        barrier_at(agent, lane, mbarrier, "names as the place where a copy completes");
    if (!barrier) return false;
    const Knowledge& know = warp.know;
    if (launch_.options.races && barrier->init_time > know.proxy[barrier->init_slot] &&
        barrier->init_time > know.near_fenced[barrier->init_slot])
      reporter_.say(FindingKind::missing_fence, agent, lane, false, [&] {
        return fmt::format(
            "lane {} starts a copy that completes at the mbarrier at {:#x}, which was initialised "
            "at {}: no "
            "fence.mbarrier_init or fence.proxy.async stands between",
            lane, mbarrier, reporter_.name(barrier->init_instruction));
      });
    copy.barrier = barrier->key;
    copy.transaction = bytes;
    reads.slot = writes.slot = barrier->slot;
    reads.time = writes.time = static_cast<std::uint32_t>(barrier->state.phase()) + 1;
  } else {
    copy.group = warp.committed[index_of(AsyncKind::bulk)] + 1;
    reads.slot = slot_of(warp, AsyncKind::bulk, true);
    writes.slot = slot_of(warp, AsyncKind::bulk);
    reads.time = writes.time = copy.group;
  }
  return true;
}

void ClusterMemory::bulk_copy(const Agent& agent, int lane, std::uint64_t destination,
                              std::uint64_t source, std::uint64_t bytes, std::uint64_t mbarrier) {
  AsyncCopy copy;
  Toucher reads = toucher(agent), writes = toucher(agent);
  if (bytes % 16 != 0 || bytes == 0) {
    reporter_.say(FindingKind::misuse, agent, lane, true, [&] {
      return fmt::format(
          "lane {} starts a bulk copy of {} bytes; the size must be a multiple of 16 and not 0",
          lane, bytes);
    });
    return;
  }
  Region from, to;
  if (!aligned(agent, lane, destination, 16, Mode::write) ||
      !aligned(agent, lane, source, 16, Mode::read) ||
      !resolve(agent, lane, source, bytes, Mode::read, from) ||
      !resolve(agent, lane, destination, bytes, Mode::write, to) ||
      !prepare_bulk(agent, lane, mbarrier, bytes, copy, reads, writes))
    return;
  copy.to_shared = to.kind == SpaceKind::shared;
  copy.data.resize(bytes);
  move_row(reads, lane, source, bytes, Mode::read, copy.data.data(), nullptr);
  move_row(writes, lane, destination, bytes, Mode::write, nullptr, nullptr);
  copy.pieces.push_back({to.data + (destination - to.begin), 0, static_cast<std::uint32_t>(bytes)});
  launch_copy(agent, std::move(copy));
}

std::optional<TensorMap> ClusterMemory::tensor_map_at(const Agent& agent, int lane,
                                                      std::uint64_t address) {
  std::uint8_t bytes[tensor_map_bytes];
  Region region;
  if (!aligned(agent, lane, address, 64, Mode::read) ||
      !resolve(agent, lane, address, tensor_map_bytes, Mode::read, region))
    return std::nullopt;
  std::memcpy(bytes, region.data + (address - region.begin), sizeof bytes);
  std::optional<TensorMap> map = decode(bytes);
  if (!map)
    reporter_.say(FindingKind::misuse, agent, lane, true, [&] {
      return fmt::format("lane {} names a tensor map at {:#x}, where none is", lane, address);
    });
  return map;
}

void ClusterMemory::tensor_load(const Agent& agent, int lane, std::uint64_t destination,
                                std::uint64_t map_address, const std::int32_t* coordinates,
                                std::uint64_t mbarrier) {
  const std::optional<TensorMap> map = tensor_map_at(agent, lane, map_address);
  if (!map) return;
  const std::uint32_t bytes = map->box_bytes();
  AsyncCopy copy;
  Toucher reads = toucher(agent), writes = toucher(agent);
  Region to;
  if (!aligned(agent, lane, destination, 128, Mode::write) ||
      !resolve(agent, lane, destination, bytes, Mode::write, to) ||
      !prepare_bulk(agent, lane, mbarrier, bytes, copy, reads, writes))
    return;
  copy.to_shared = true;
  copy.data.resize(bytes);
  std::uint8_t* const start = to.data + (destination - to.begin);
  std::uint32_t at = 0;
  for (const BoxPiece& piece :
       pieces_of(*map, coordinates, static_cast<std::uint32_t>(destination & 0xffff'ffff))) {
    if (piece.inside && !move_row(reads, lane, piece.global, piece.bytes, Mode::read,
                                  copy.data.data() + at, nullptr))
      return;
    copy.pieces.push_back({start + piece.shared, at, piece.bytes});
    at += piece.bytes;
  }
  move_row(writes, lane, destination, bytes, Mode::write, nullptr, nullptr);
  launch_copy(agent, std::move(copy));
}

void ClusterMemory::tensor_store(const Agent& agent, int lane, std::uint64_t map_address,
                                 const std::int32_t* coordinates, std::uint64_t source) {
  const std::optional<TensorMap> map = tensor_map_at(agent, lane, map_address);
  if (!map) return;
  const std::uint32_t bytes = map->box_bytes();
  AsyncCopy copy;
  Toucher reads = toucher(agent), writes = toucher(agent);
  std::vector<std::uint8_t> box(bytes);
  if (!aligned(agent, lane, source, 128, Mode::read) ||
      !prepare_bulk(agent, lane, 0, bytes, copy, reads, writes) ||
      !move_row(reads, lane, source, bytes, Mode::read, box.data(), nullptr))
    return;
  for (const BoxPiece& piece :
       pieces_of(*map, coordinates, static_cast<std::uint32_t>(source & 0xffff'ffff))) {
    if (!piece.inside) continue;
    Region to;
    if (!resolve(agent, lane, piece.global, piece.bytes, Mode::write, to)) return;
    move_row(writes, lane, piece.global, piece.bytes, Mode::write, nullptr, nullptr);
    copy.pieces.push_back({to.data + (piece.global - to.begin),
                           static_cast<std::uint32_t>(copy.data.size()), piece.bytes});
    copy.data.insert(copy.data.end(), box.begin() + piece.shared,
                     box.begin() + piece.shared + piece.bytes);
  }
  launch_copy(agent, std::move(copy));
}

}  // namespace microscale::emulator
