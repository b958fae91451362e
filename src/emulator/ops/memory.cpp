// ld and st: addresses from a row, bytes between memory's words and registers' rows.
#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

u32 element_bits(const LaneWords& words, int log2, int k, int lane) {
  if (log2 >= 2) return words.word[static_cast<std::size_t>(k)][lane];
  const int bit = (k << log2) * 8;
  const u32 word = words.word[static_cast<std::size_t>(bit / 32)][lane] >> (bit % 32);
  return word & (log2 == 0 ? 0xffu : 0xffffu);
}

/// What was loaded, into the registers of op.list.
void deliver(const Op& op, Warp& warp, u32 lanes, AccessBits access, const LaneWords& words) {
  const int log2 = access.element_log2();
  const int container = 16 << access.container_log2();
  for (int k = 0; k < op.count; ++k) {
    if (log2 == 3) {
      u64* d = warp.row64(op.list[k]);
      const u32* low = words.word[static_cast<std::size_t>(2 * k)].data();
      const u32* high = words.word[static_cast<std::size_t>(2 * k + 1)].data();
      MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] =
          (lanes & lane_bit[i]) ? (u64{high[i]} << 32 | low[i]) : d[i];
      continue;
    }
    if (log2 == 2 && container <= 32) {
      u32* d = warp.row32(op.list[k]);
      const u32* from = words.word[static_cast<std::size_t>(k)].data();
      MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = (lanes & lane_bit[i]) ? from[i] : d[i];
      continue;
    }
    const int bits = 8 << log2;
    const u64 sign = access.sign_extends() ? u64{1} << (bits - 1) : 0;
    for (int i = 0; i < 32; ++i) {
      if (!(lanes & lane_bit[i])) continue;
      const u64 value = (element_bits(words, log2, k, i) ^ sign) - sign;
      if (container == 64)
        warp.row64(op.list[k])[i] = value;
      else
        warp.row32(op.list[k])[i] = static_cast<u32>(value) & (container == 16 ? 0xffffu : ~0u);
    }
  }
}

/// What is to be stored, from the registers of op.list.
void collect(const Op& op, const Warp& warp, AccessBits access, LaneWords& words) {
  const int log2 = access.element_log2();
  const bool wide = access.container_log2() == 2;
  if (log2 < 2) {
    const int used = ((op.count << log2) + 3) / 4;
    for (int w = 0; w < used; ++w) words.word[static_cast<std::size_t>(w)].fill(0);
  }
  for (int k = 0; k < op.count; ++k) {
    const u32* narrow = warp.row32(op.list[k]);
    const u64* both = warp.row64(op.list[k]);
    if (log2 == 3) {
      u32* low = words.word[static_cast<std::size_t>(2 * k)].data();
      u32* high = words.word[static_cast<std::size_t>(2 * k + 1)].data();
      for (int i = 0; i < 32; ++i)
        low[i] = static_cast<u32>(both[i]), high[i] = static_cast<u32>(both[i] >> 32);
    } else if (log2 == 2) {
      u32* to = words.word[static_cast<std::size_t>(k)].data();
      for (int i = 0; i < 32; ++i) to[i] = wide ? static_cast<u32>(both[i]) : narrow[i];
    } else {
      const int bit = (k << log2) * 8;
      u32* to = words.word[static_cast<std::size_t>(bit / 32)].data();
      const u32 mask = log2 == 0 ? 0xffu : 0xffffu;
      for (int i = 0; i < 32; ++i)
        to[i] |= ((wide ? static_cast<u32>(both[i]) : narrow[i]) & mask) << (bit % 32);
    }
  }
}

WarpAccess access_of(const Op& op, u32 lanes, AccessBits access, const u64* address) {
  return {.lanes = lanes,
          .bytes = op.count << access.element_log2(),
          .address = address,
          .order = access.order(),
          .scope = access.scope()};
}

Step load(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  LaneWords words;
  UndefinedBytes undefined;
  warp.block().memory().load(warp.agent(op), access_of(op, lanes, access, address), words,
                             &undefined);
  deliver(op, warp, lanes, access, words);
  if (!undefined.lanes) [[likely]]
    return Step::next;
  const int bytes = 1 << access.element_log2();
  for (int k = 0; k < op.count; ++k)
    warp.became_undefined(op, op.list[k],
                          lanes & undefined.among(((1u << bytes) - 1) << (k * bytes)), undefined);
  return warp.carry_on();
}

Step store(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  alignas(64) u64 address[32];
  generic_addresses(warp, op.a, access.wide_address(), access.space(), op.value, address);
  LaneWords words;
  collect(op, warp, access, words);
  warp.block().memory().store(warp.agent(op), access_of(op, lanes, access, address), words);
  return Step::next;
}

/// A kernel parameter at a known place: the same bytes for every lane, always there.
Step load_parameter(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  u32 bytes[8] = {};
  std::memcpy(bytes, warp.block().launch().memory.params.data() + op.value,
              static_cast<std::size_t>(op.count) << access.element_log2());
  LaneWords words;
  for (std::size_t w = 0; w < 8; ++w)
    if (static_cast<int>(4 * w) < op.count << access.element_log2()) words.word[w].fill(bytes[w]);
  deliver(op, warp, lanes, access, words);
  return Step::next;
}

/// The place in a lane's call memory; null after a report.
std::uint8_t* call_place(const Op& op, Warp& warp, AccessBits access, int lane) {
  const u64 base = access.wide_address() ? warp.row64(op.a)[lane] : warp.row32(op.a)[lane];
  const u64 offset = base + static_cast<u64>(op.value);
  const auto size = static_cast<u64>(warp.program().call_bytes);
  if (offset < size && (u64{op.count} << access.element_log2()) <= size - offset)
    return warp.call_memory(lane) + offset;
  warp.report(op, FindingKind::out_of_bounds, lane, "reaches outside the parameters of calls",
              true);
  return nullptr;
}

Step load_call(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  LaneWords words;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const std::uint8_t* from = call_place(op, warp, access, i);
    if (!from) return Step::stop;
    u32 bytes[8] = {};
    std::memcpy(bytes, from, static_cast<std::size_t>(op.count) << access.element_log2());
    for (std::size_t w = 0; w < 8; ++w) words.word[w][static_cast<std::size_t>(i)] = bytes[w];
  }
  deliver(op, warp, lanes, access, words);
  return Step::next;
}

Step store_call(const Op& op, Warp& warp, u32 lanes) {
  const AccessBits access{op.extra};
  LaneWords words;
  collect(op, warp, access, words);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    std::uint8_t* to = call_place(op, warp, access, i);
    if (!to) return Step::stop;
    u32 bytes[8];
    for (std::size_t w = 0; w < 8; ++w) bytes[w] = words.word[w][static_cast<std::size_t>(i)];
    std::memcpy(to, bytes, static_cast<std::size_t>(op.count) << access.element_log2());
  }
  return Step::next;
}

Step fence(const Op& op, Warp& warp, u32) {
  warp.block().memory().on_fence(warp.agent(op), static_cast<MemoryScope>(op.mode));
  return Step::next;
}

Step proxy_fence(const Op& op, Warp& warp, u32) {
  warp.block().memory().on_proxy_fence(warp.agent(op));
  return Step::next;
}

Step nothing(const Op&, Warp&, u32) { return Step::next; }

}  // namespace

Family memory_family() {
  static constexpr HandlerEntry entries[] = {
      {"ld", load},
      {"st", store},
      {"ld.param", load_parameter},
      {"ld.param.call", load_call},
      {"st.param.call", store_call},
      {"fence", fence},
      {"fence.proxy.async", proxy_fence},
      {"nothing", nothing},
  };
  return entries;
}

}  // namespace microscale::emulator
