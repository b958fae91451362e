#include "emulator/memory/cluster_memory.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::emulator {

ClusterMemory::ClusterMemory(LaunchMemory& launch, const ClusterShape& shape)
    : launch_(launch), shape_(shape), reporter_(launch.places, launch.sink) {
  if (shape.blocks == 0 || shape.warps == 0 || shape.warps > 64 || shape.shared_bytes > (1u << 20))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format(
            "emulator: a cluster of {} blocks of {} warps with {} bytes of shared memory; at "
            "least 1 block, 1 to 64 warps and at most 1 MiB are possible",
            shape.blocks, shape.warps, shape.shared_bytes));
  shared_.resize(shape.blocks);
  for (SharedBlock& each : shared_) {
    each.bytes.resize(shape.shared_bytes);
    each.shadow = std::make_unique<Shadow>(shape.shared_bytes);
  }
  local_stride_ = (shape.local_bytes + 63) / 64 * 64;
  if (shape.tensor_memory) tensors_.resize(shape.blocks);
  warps_.resize(std::size_t{shape.blocks} * shape.warps);
  local_.resize(warps_.size() * warp_lanes * local_stride_);
  local_shadow_ = std::make_unique<Shadow>(local_.size());
}

void ClusterMemory::begin(std::uint32_t number) {
  domain_ = number;
  ++tag_;
  for (SharedBlock& each : shared_) {
    each.shadow->forget();
    if (shape_.zeros_from >= shape_.shared_bytes) continue;
    std::fill(each.bytes.begin() + static_cast<std::ptrdiff_t>(shape_.zeros_from), each.bytes.end(),
              std::uint8_t{0});
    each.shadow->mark_written(shape_.zeros_from, shape_.shared_bytes - shape_.zeros_from);
  }
  for (TensorMemory& each : tensors_) each.begin();
  local_shadow_->forget();
  log_.clear();
  barriers_.clear();
  barrier_slots_ = 0;
  arriving_.clear(), met_.clear();
  ended_ = 0;
  copies_.clear();
  refused_time_ = 0;
  random_ = launch_.options.seed ^ (0x9e37'79b9'7f4a'7c15u * (std::uint64_t{number} + 1));
  for (std::uint32_t i = 0; i < warp_count(); ++i) {
    WarpMemory& warp = warps_[i];
    warp.know.clear();
    warp.tensor_after.clear();
    warp.tensor_lanes = 0;
    warp.slot = i;
    warp.epoch = 1;
    warp.know.clock.set(i, 1);
    if (shape_.blocks > 1) warp.know.clock.set(beginning_of(i / shape_.warps), 1);
    warp.global_records.clear();
    warp.shared_records.clear();
    warp.global_order = warp.shared_order = {};
    std::fill(std::begin(warp.committed), std::end(warp.committed), 0);
  }
}

std::uint32_t ClusterMemory::slot_of(const WarpMemory& warp, AsyncKind kind, bool reads) const {
  // Warps, then what each has in flight: cp.async, bulk, bulk sources, wgmma, and where there is
  // tensor memory tcgen05's work, loads and stores; beginnings of blocks and mbarriers follow.
  constexpr std::uint32_t rows[async_kinds] = {1, 2, 4, 5, 6, 7};
  const std::uint32_t row = rows[static_cast<std::size_t>(kind)] + (reads ? 1 : 0);
  // A wgmma's is its warpgroup's leader's.
  const std::uint32_t place = warp.slot % shape_.warps;
  return row * warp_count() + warp.slot - (kind == AsyncKind::wgmma ? place % 4 : 0);
}

Toucher ClusterMemory::toucher(const Agent& agent, Order order, MemoryScope scope) {
  WarpMemory& warp = warp_of(agent);
  return Toucher{launch_, reporter_, agent, warp,      domain_,
                 order,   scope,     false, warp.slot, warp.know.clock[warp.slot]};
}

Region ClusterMemory::shared_region(std::uint32_t rank) {
  SharedBlock& block = shared_[rank];
  return {SpaceKind::shared,
          shared_window,
          block.bytes.size(),
          block.bytes.data(),
          block.shadow.get(),
          tag_,
          &log_};
}

bool ClusterMemory::local_region(const Agent& agent, int lane, std::uint64_t address,
                                 Region& region) {
  const std::uint64_t thread =
      std::uint64_t{warp_of(agent).slot} * warp_lanes + static_cast<unsigned>(lane);
  const std::uint64_t offset = address & ~window_mask;
  if (offset >= shape_.local_bytes) return false;
  region = {SpaceKind::local,
            local_window - thread * local_stride_,
            (thread + 1) * local_stride_,
            local_.data(),
            local_shadow_.get(),
            tag_,
            nullptr};
  return true;
}

bool ClusterMemory::quick_resolve(const Agent& agent, std::uint64_t address, std::uint64_t bytes,
                                  Region& region) {
  const std::uint64_t window = address & window_mask;
  if (window == 0) {
    WarpMemory& warp = warp_of(agent);
    Allocation* at = nullptr;
    for (Allocation* each : warp.last)
      if (each && address >= each->begin && address < each->end && !each->freed) {
        at = each;
        break;
      }
    if (!at) {
      at = launch_.global.find(address);
      if (!at) return false;
      warp.last[warp.last_next++ % warp.last.size()] = at;
    }
    region = {SpaceKind::global, at->begin,      at->bytes(), at->at(at->begin),
              &at->shadow,       launch_.number, &launch_.log};
    return bytes <= at->end - address;
  }
  if (window == shared_window) {
    std::uint32_t rank = agent.rank;
    std::uint64_t offset = address & ~window_mask;
    if (address & cluster_flag) {
      rank = rank_of(address), offset = address & 0xffff'ffff;
      if (rank >= shape_.blocks || absent(agent, rank)) return false;
    }
    region = shared_region(rank);
    region.begin = address - offset;
    return offset <= region.bytes && bytes <= region.bytes - offset;
  }
  if (window == constant_window || window == param_window) {
    std::vector<std::uint8_t>& data =
        window == constant_window ? launch_.constants : launch_.params;
    const std::uint64_t offset = address & ~window_mask;
    region = {window == constant_window ? SpaceKind::constant : SpaceKind::param,
              window,
              data.size(),
              data.data(),
              nullptr,
              0,
              nullptr};
    return offset <= data.size() && bytes <= data.size() - offset;
  }
  return false;
}

bool ClusterMemory::resolve(const Agent& agent, int lane, std::uint64_t address,
                            std::uint64_t bytes, Mode mode, Region& region) {
  if (names_block(address) && !reach_block(agent, lane, address, bytes, mode)) return false;
  const bool local = (address & window_mask) == local_window;
  const bool found = local ? local_region(agent, lane, address, region) &&
                                 bytes <= shape_.local_bytes - (address & ~window_mask)
                           : quick_resolve(agent, address, bytes, region);
  if (!found) {
    report_bounds(agent, lane, address, bytes, mode);
    return false;
  }
  if (mode != Mode::read &&
      (region.kind == SpaceKind::constant || region.kind == SpaceKind::param)) {
    reporter_.say(
        FindingKind::misuse, agent, lane, true,
        [&] {
          return fmt::format("lane {} {} {} bytes at {:#x}, in {} memory, which is read only", lane,
                             verb(mode), bytes, address,
                             region.kind == SpaceKind::constant ? "constant" : "param");
        },
        address, verb(mode));
    return false;
  }
  return true;
}

bool ClusterMemory::aligned(const Agent& agent, int lane, std::uint64_t address,
                            std::uint64_t bytes, Mode mode) {
  if (address % bytes == 0) return true;
  reporter_.say(
      FindingKind::misaligned, agent, lane, true,
      [&] {
        return fmt::format("lane {} {} {} bytes at {:#x}, which is not a multiple of {}", lane,
                           verb(mode), bytes, address, bytes);
      },
      address, verb(mode));
  return false;
}

void ClusterMemory::report_bounds(const Agent& agent, int lane, std::uint64_t address,
                                  std::uint64_t bytes, Mode mode) {
  reporter_.say(
      FindingKind::out_of_bounds, agent, lane, true,
      [&] {
        const std::string start =
            fmt::format("lane {} {} {} bytes at {:#x}", lane, verb(mode), bytes, address);
        const std::uint64_t window = address & window_mask, offset = address & ~window_mask;
        const auto beyond = [&](std::uint64_t size, const std::string& of) {
          const std::uint64_t low = names_block(address) ? address & 0xffff'ffff : offset;
          if (low > ~window_mask / 2)  // an offset below 0
            return fmt::format("{}, {} bytes before the start of {}", start, ~window_mask - low + 1,
                               of);
          return fmt::format("{}, {} bytes past the end of {}", start, low + bytes - size, of);
        };
        if (window == shared_window) {
          if (names_block(address) && rank_of(address) >= shape_.blocks)
            return fmt::format("{}, in block {} of a cluster of {}", start, rank_of(address),
                               shape_.blocks);
          return beyond(shape_.shared_bytes,
                        fmt::format("the {} bytes of shared memory", shape_.shared_bytes));
        }
        if (window == local_window)
          return beyond(shape_.local_bytes,
                        fmt::format("the thread's {} bytes of local memory", shape_.local_bytes));
        if (window == constant_window)
          return beyond(launch_.constants.size(),
                        fmt::format("the {} constant bytes", launch_.constants.size()));
        if (window == param_window)
          return beyond(launch_.params.size(),
                        fmt::format("the {} bytes of parameters", launch_.params.size()));
        if (const std::uint64_t below = 0 - address; below - 1 < 1u << 24)
          return fmt::format(
              "{}, {} bytes below the lowest address: a negative index into an array in local or "
              "shared memory, or behind a null pointer",
              start, below);
        if (window != 0)
          return fmt::format("{}, which is in no window of the address space", start);
        if (address == 0) return start + ", the null address";
        const Allocation* near = launch_.global.nearest(address);
        if (!near) return start + "; nothing is allocated";
        if (near->freed && address >= near->begin && address < near->end)
          return fmt::format("{}, in {} bytes that free has given back", start, near->bytes());
        if (address < near->begin)
          return fmt::format("{}, {} bytes before the start of allocation of {} bytes", start,
                             near->begin - address, near->bytes());
        return fmt::format("{}, {} bytes past the end of allocation of {} bytes", start,
                           address + bytes - near->end, near->bytes());
      },
      address, verb(mode));
}

void ClusterMemory::count(const Agent& agent, const WarpAccess& access) {
  if (access.lanes == 0) return;
  const std::uint64_t window = access.address[std::countr_zero(access.lanes)] & window_mask;
  if (window == 0 || window == shared_window)
    launch_.counters.add(agent, access, window == shared_window);
}

}  // namespace microscale::emulator
