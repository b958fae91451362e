// Loads and stores: an access is cut into runs of lanes that touch neighbouring bytes (usually one
// run of 32), and each run is checked and moved as one piece.
#include <bit>
#include <cstring>

#include <emmintrin.h>

#include "emulator/memory/cluster_memory.hpp"
#include "emulator/memory/lane_loops.hpp"
#include "emulator/memory/runs.hpp"
#include "emulator/memory/touch_lanes.hpp"

namespace microscale::emulator {

namespace {

const LaneLoops& loops = lane_loops();

__m128 four(const void* from) { return _mm_loadu_ps(static_cast<const float*>(from)); }
void put(void* to, __m128 value) { _mm_storeu_ps(static_cast<float*>(to), value); }

void split_pairs(const std::uint8_t* stage, LaneWords& out) {
  for (std::size_t lane = 0; lane < warp_lanes; lane += 4, stage += 32) {
    const __m128 a = four(stage), b = four(stage + 16);
    put(&out.word[0][lane], _mm_shuffle_ps(a, b, 0x88));
    put(&out.word[1][lane], _mm_shuffle_ps(a, b, 0xdd));
  }
}

void join_pairs(const LaneWords& in, std::uint8_t* stage) {
  for (std::size_t lane = 0; lane < warp_lanes; lane += 4, stage += 32) {
    const __m128 a = four(&in.word[0][lane]), b = four(&in.word[1][lane]);
    put(stage, _mm_unpacklo_ps(a, b));
    put(stage + 16, _mm_unpackhi_ps(a, b));
  }
}

void split_quads(const std::uint8_t* stage, LaneWords& out) {
  for (std::size_t lane = 0; lane < warp_lanes; lane += 4, stage += 64) {
    __m128 a = four(stage), b = four(stage + 16), c = four(stage + 32), d = four(stage + 48);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    put(&out.word[0][lane], a);
    put(&out.word[1][lane], b);
    put(&out.word[2][lane], c);
    put(&out.word[3][lane], d);
  }
}

void join_quads(const LaneWords& in, std::uint8_t* stage) {
  for (std::size_t lane = 0; lane < warp_lanes; lane += 4, stage += 64) {
    __m128 a = four(&in.word[0][lane]), b = four(&in.word[1][lane]), c = four(&in.word[2][lane]),
           d = four(&in.word[3][lane]);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    put(stage, a);
    put(stage + 16, b);
    put(stage + 32, c);
    put(stage + 48, d);
  }
}

/// What all lanes of a run got from one place.
void share_undefined(const UndefinedBytes& one, int first, int lanes, UndefinedBytes& all) {
  if (all.lanes == 0) {
    all.lane = first;
    all.message = one.message;
  }
  const std::uint32_t mask = one.bytes[static_cast<std::size_t>(std::countr_zero(one.lanes))];
  for (int lane = first; lane < first + lanes; ++lane)
    for (std::uint32_t left = mask; left; left &= left - 1)
      all.add(lane, static_cast<std::uint32_t>(std::countr_zero(left)));
}

}  // namespace

void lanes_to_words(const std::uint8_t* stage, int bytes, LaneWords& out) {
  const auto widen = [&]<class Narrow>(Narrow) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      Narrow value;
      std::memcpy(&value, stage + lane * sizeof value, sizeof value);
      out.word[0][static_cast<std::size_t>(lane)] = value;
    }
  };
  if (bytes == 1) return widen(std::uint8_t{});
  if (bytes == 2) return widen(std::uint16_t{});
  if (bytes == 8 || bytes == 16)
    return bytes == 8 ? split_pairs(stage, out) : split_quads(stage, out);
  const int words = bytes / 4;
  for (int lane = 0; lane < warp_lanes; ++lane)
    for (int word = 0; word < words; ++word)
      std::memcpy(&out.word[static_cast<std::size_t>(word)][static_cast<std::size_t>(lane)],
                  stage + lane * bytes + word * 4, 4);
}

void words_to_lanes(const LaneWords& in, int bytes, std::uint8_t* stage) {
  if (bytes <= 2) {
    for (int lane = 0; lane < warp_lanes; ++lane)
      std::memcpy(stage + lane * bytes, &in.word[0][static_cast<std::size_t>(lane)],
                  static_cast<std::size_t>(bytes));
    return;
  }
  if (bytes == 8 || bytes == 16) return bytes == 8 ? join_pairs(in, stage) : join_quads(in, stage);
  if (bytes == 4) return void(std::memcpy(stage, in.word[0].data(), sizeof in.word[0]));
  for (int lane = 0; lane < warp_lanes; ++lane)
    for (int word = 0; word < bytes / 4; ++word)
      std::memcpy(stage + lane * bytes + word * 4,
                  &in.word[static_cast<std::size_t>(word)][static_cast<std::size_t>(lane)], 4);
}

bool consecutive(const std::uint64_t* address, int bytes) {
  const __m128i step = _mm_set1_epi64x(2 * bytes);
  __m128i wanted = _mm_set_epi64x(static_cast<long long>(address[0]) + bytes,
                                  static_cast<long long>(address[0]));
  __m128i difference = _mm_setzero_si128();
  for (int lane = 0; lane < warp_lanes; lane += 2, wanted = _mm_add_epi64(wanted, step))
    difference = _mm_or_si128(
        difference,
        _mm_xor_si128(wanted, _mm_loadu_si128(reinterpret_cast<const __m128i*>(address + lane))));
  return _mm_movemask_epi8(_mm_cmpeq_epi32(difference, _mm_setzero_si128())) == 0xffff;
}

/// Calls each(region, offset, first lane, lanes, same) for every run; `same`: all at one address.
template <class Each>
void ClusterMemory::each_run(const Agent& agent, const WarpAccess& access, Mode mode,
                             const Each& each) {
  const std::uint64_t* at = access.address;
  const auto bytes = static_cast<std::uint64_t>(access.bytes);
  Region region;
  if (access.lanes == all_lanes && at[0] % bytes == 0 && consecutive(at, access.bytes) &&
      quick_resolve(agent, at[0], warp_lanes * bytes, region) &&
      (mode == Mode::read || region.shadow != nullptr)) {
    each(region, at[0] - region.begin, 0, warp_lanes, false);
    return;
  }
  for (std::uint32_t left = access.lanes; left;) {
    const int first = std::countr_zero(left);
    const auto active = [&](int lane) { return lane < warp_lanes && (left >> lane & 1); };
    const bool same = mode == Mode::read && active(first + 1) && at[first + 1] == at[first];
    int end = first + 1;
    while (active(end) && at[end] == at[end - 1] + (same ? 0 : bytes)) ++end;
    const int lanes = end - first;
    left &= end == warp_lanes ? 0u : ~0u << end;
    if (at[first] % bytes == 0 &&
        quick_resolve(agent, at[first], same ? bytes : bytes * static_cast<std::uint64_t>(lanes),
                      region) &&
        (mode == Mode::read || region.shadow != nullptr)) {
      each(region, at[first] - region.begin, first, lanes, same);
      continue;
    }
    for (int lane = first; lane < end; ++lane)
      if (aligned(agent, lane, at[lane], bytes, mode) &&
          resolve(agent, lane, at[lane], bytes, mode, region))
        each(region, at[lane] - region.begin, lane, 1, false);
  }
}

/// Those of the access's lanes that cannot be done at once; the others are.
std::uint32_t ClusterMemory::touch_together(const Toucher& who, const WarpAccess& access, Mode mode,
                                            std::uint8_t* stage) {
  const auto bytes = static_cast<std::uint32_t>(access.bytes);
  if (access.order != Order::weak || access.lanes == 0 || !launch_.options.together)
    return access.lanes;
  const std::uint64_t* address = access.address;
  Region region;
  const bool consecutive = access.lanes == all_lanes && loops.consecutive(address, bytes);
  if (consecutive &&
      quick_resolve(who.agent, address[0], warp_lanes * std::uint64_t{bytes}, region) &&
      (mode == Mode::read || region.shadow) &&
      touch_row(who, region, address[0] - region.begin, bytes, mode, stage))
    return 0;
  const int first = std::countr_zero(access.lanes);
  alignas(64) std::uint64_t offset[warp_lanes], taking_part[warp_lanes];
  if (access.lanes != all_lanes) {
    for (int i = 0; i < warp_lanes; ++i)
      taking_part[i] = address[access.lanes >> i & 1 ? i : first];
    address = taking_part;
  }
  std::uint64_t size = shape_.local_bytes;
  const bool local = (address[first] & window_mask) == local_window;
  if (local) {
    local_region(who.agent, 0, local_window, region);
  } else {
    if (!quick_resolve(who.agent, address[first], bytes, region)) return access.lanes;
    size = region.bytes;
  }
  if (bytes > size || (mode == Mode::write && !region.shadow)) return access.lanes;
  const Survey found =
      loops.survey(address, local ? local_window : region.begin, size - bytes, bytes, offset);
  if (!found.fits) return access.lanes;
  LaneBatch batch{offset, access.lanes, bytes, found.one_page, consecutive};
  if (local) {  // thread by thread
    std::uint64_t thread = std::uint64_t{who.warp.slot} * warp_lanes * local_stride_;
    for (int i = 0; i < warp_lanes; ++i, thread += local_stride_) offset[i] += thread;
    batch.one_page = batch.consecutive = false;
  }
  return touch_lanes(who, region, batch, mode, stage);
}

void ClusterMemory::load(const Agent& agent, const WarpAccess& access, LaneWords& out,
                         UndefinedBytes* undefined) {
  if (launch_.options.count) count(agent, access);
  alignas(64) std::uint8_t stage[warp_lanes * 32];
  const auto bytes = static_cast<std::size_t>(access.bytes);
  const bool direct = access.bytes == 4;  // word[0] is what the lanes' bytes look like
  auto* to = direct ? reinterpret_cast<std::uint8_t*>(out.word[0].data()) : stage;
  const Toucher who = toucher(agent, access.order, access.scope);
  if (access.lanes != all_lanes) std::memset(to, 0, warp_lanes * bytes);
  WarpAccess rest = access;
  rest.lanes = touch_together(who, access, Mode::read, to);
  if (rest.lanes) {
    for (std::uint32_t left = rest.lanes; left; left &= left - 1)
      std::memset(to + static_cast<std::size_t>(std::countr_zero(left)) * bytes, 0, bytes);
    each_run(agent, rest, Mode::read,
             [&](const Region& region, std::uint64_t offset, int first, int lanes, bool same) {
               UndefinedBytes of_one;
               reporter_.undefined = same && undefined ? &of_one : undefined;
               std::uint8_t* begin = to + static_cast<std::size_t>(first) * bytes;
               const Lanes touching = same ? Lanes{std::uint32_t{warp_lanes}, 0}
                                           : Lanes{static_cast<std::uint32_t>(first),
                                                   static_cast<std::uint32_t>(bytes)};
               touch(who, region, offset, same ? bytes : bytes * static_cast<std::size_t>(lanes),
                     touching, Mode::read, nullptr,
                     [&](const std::uint8_t* from, std::uint64_t done, std::uint64_t part) {
                       std::memcpy(begin + done, from, part);
                     });
               reporter_.undefined = nullptr;
               if (same)
                 for (int lane = 1; lane < lanes; ++lane)
                   std::memcpy(begin + static_cast<std::size_t>(lane) * bytes, begin, bytes);
               if (of_one.lanes) share_undefined(of_one, first, lanes, *undefined);
             });
  }
  if (!direct) lanes_to_words(stage, access.bytes, out);
  if (access.order != Order::weak) after_strong(agent, access);
}

void ClusterMemory::store(const Agent& agent, const WarpAccess& access, const LaneWords& in) {
  ++writes_;
  if (launch_.options.count) count(agent, access);
  if (access.order != Order::weak) before_strong(agent, access);
  alignas(64) std::uint8_t stage[warp_lanes * 32];
  const auto bytes = static_cast<std::size_t>(access.bytes);
  words_to_lanes(in, access.bytes, stage);
  const Toucher who = toucher(agent, access.order, access.scope);
  WarpAccess rest = access;
  rest.lanes = touch_together(who, access, Mode::write, stage);
  if (rest.lanes == 0) return;
  each_run(agent, rest, Mode::write,
           [&](const Region& region, std::uint64_t offset, int first, int lanes, bool) {
             const std::uint8_t* begin = stage + static_cast<std::size_t>(first) * bytes;
             touch(who, region, offset, bytes * static_cast<std::size_t>(lanes),
                   {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(bytes)},
                   Mode::write, begin,
                   [&](std::uint8_t* to, std::uint64_t done, std::uint64_t part) {
                     std::memcpy(to, begin + done, part);
                   });
           });
}

bool ClusterMemory::move_row(const Toucher& who, int lane, std::uint64_t address,
                             std::uint64_t bytes, Mode mode, std::uint8_t* to,
                             const std::uint8_t* from) {
  Region region;
  if (!resolve(who.agent, lane, address, bytes, mode, region)) {
    if (to) std::memset(to, 0, bytes);
    return false;
  }
  touch(who, region, address - region.begin, bytes, {static_cast<std::uint32_t>(lane), 0}, mode,
        from, [&](std::uint8_t* data, std::uint64_t done, std::uint64_t part) {
          if (mode == Mode::read && to) std::memcpy(to + done, data, part);
          if (mode == Mode::write && from) std::memcpy(data, from + done, part);
        });
  return true;
}

bool ClusterMemory::read_row(const Agent& agent, int lane, std::uint64_t address, int bytes,
                             void* to) {
  if (!aligned(agent, lane, address, static_cast<std::uint64_t>(bytes), Mode::read)) {
    std::memset(to, 0, static_cast<std::size_t>(bytes));
    return false;
  }
  return move_row(toucher(agent), lane, address, static_cast<std::uint64_t>(bytes), Mode::read,
                  static_cast<std::uint8_t*>(to), nullptr);
}

bool ClusterMemory::write_row(const Agent& agent, int lane, std::uint64_t address, int bytes,
                              const void* from) {
  if (!aligned(agent, lane, address, static_cast<std::uint64_t>(bytes), Mode::write)) return false;
  return move_row(toucher(agent), lane, address, static_cast<std::uint64_t>(bytes), Mode::write,
                  nullptr, static_cast<const std::uint8_t*>(from));
}

}  // namespace microscale::emulator
