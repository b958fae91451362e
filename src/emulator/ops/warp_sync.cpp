// shfl, vote, match, redux, activemask, elect: what lanes of a warp tell each other.
#include <fmt/format.h>

#include "emulator/ops/address.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s32 = std::int32_t;

/// Calls part(op, warp, members) for each set of lanes that name the same mask, in row `slot`, once
/// all lanes of every mask are here.
template <Step (*Part)(const Op&, Warp&, u32)>
Step by_mask(const Op& op, Warp& warp, u32 lanes, Slot slot) {
  const u32* mask = warp.row32(slot);
  if ((slot & constant_slot) && lanes == ~0u && mask[0] == ~0u)
    return Part(op, warp, lanes);  // the usual
  for (u32 left = lanes; left;) {
    const int first = std::countr_zero(left);
    if (const Step step = warp.gather(op, mask[first], lanes); step != Step::next) return step;
    for (u32 each = left; each; each &= each - 1)
      if (mask[std::countr_zero(each)] == mask[first]) left &= ~(each & (0u - each));
  }
  for (u32 left = lanes; left;) {
    const int first = std::countr_zero(left);
    u32 members = 0;
    for (u32 each = left; each; each &= each - 1)
      if (mask[std::countr_zero(each)] == mask[first]) members |= each & (0u - each);
    left &= ~members;
    if (const u32 outside = members & ~mask[first]) {
      const Step step =
          warp.report(op, FindingKind::misuse, std::countr_zero(outside),
                      fmt::format("{} executes with the mask 0x{:08x}, which leaves it out",
                                  lane_list(outside), mask[first]));
      if (step != Step::next) return step;
    }
    if (const Step step = Part(op, warp, members); step != Step::next) return step;
  }
  return Step::next;
}

/// op.a value, op.b lane or distance, op.c clamp and segment; op.mode 0 up, 1 down, 2 bfly, 3 idx.
Step shuffle_part(const Op& op, Warp& warp, u32 members) {
  alignas(64) u32 from[32];
  std::memcpy(from, warp.row(op.a), sizeof from);
  const u32* b = warp.row32(op.b);
  const u32* c = warp.row32(op.c);
  if (op.mode == 2 && members == ~0u && (op.b & op.c & constant_slot) && (c[0] & 0x1f1f) == 31) {
    // A butterfly of the whole warp: every lane has a partner.
    u32* d = warp.row32(op.d);
    const u32 by = b[0] & 31;
    for (u32 i = 0; i < 32; ++i) d[i] = from[i ^ by];
    if (op.extra) warp.set_predicate(op.extra, members, ~0u);
    return Step::next;
  }
  u32 inside = 0, absent = 0;
  alignas(64) u32 r[32] = {};
  for (u32 rest = members; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const s32 by = static_cast<s32>(b[lane] & 31), clamp = static_cast<s32>(c[lane] & 31);
    const s32 segment = static_cast<s32>(c[lane] >> 8 & 31);
    const s32 last = (lane & segment) | (clamp & ~segment), base = lane & segment;
    s32 source = op.mode == 0   ? lane - by
                 : op.mode == 1 ? lane + by
                 : op.mode == 2 ? lane ^ by
                                : base | (by & ~segment);
    const bool good = op.mode == 0 ? source >= last : source <= last;
    if (good)
      inside |= 1u << lane;
    else
      source = lane;
    if (!(members >> source & 1)) absent |= 1u << lane;
    r[lane] = from[source];
  }
  u32* d = warp.row32(op.d);
  MICROSCALE_LANES for (int i = 0; i < 32; ++i) d[i] = (members & lane_bit[i]) ? r[i] : d[i];
  if (op.extra) warp.set_predicate(op.extra, members, inside);
  if (!absent) return Step::next;
  return warp.report(
      op, FindingKind::misuse, std::countr_zero(absent),
      fmt::format("{} of shfl read from a lane that does not take part", lane_list(absent)));
}
Step shuffle(const Op& op, Warp& warp, u32 lanes) {
  return by_mask<shuffle_part>(op, warp, lanes, op.list[0]);
}

enum class Vote { all, any, uni, ballot };
template <Vote V>
Step vote_part(const Op& op, Warp& warp, u32 members) {
  const u32 ballot = warp.predicate(op, op.a, 1) & members;
  if (V == Vote::ballot) {
    u32* d = warp.row32(op.d);
    for (u32 rest = members; rest; rest &= rest - 1) d[std::countr_zero(rest)] = ballot;
  } else {
    const bool holds = V == Vote::all   ? ballot == members
                       : V == Vote::any ? ballot != 0
                                        : ballot == 0 || ballot == members;
    warp.set_predicate(op.d, members, holds ? ~0u : 0);
  }
  return Step::next;
}
template <class T, bool All>
Step match_part(const Op& op, Warp& warp, u32 members) {
  const T* a = reinterpret_cast<const T*>(warp.row(op.a));
  T values[32];
  std::memcpy(values, a, sizeof values);
  u32* d = warp.row32(op.d);
  u32 matched = 0;
  for (u32 rest = members; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    u32 same = 0;
    for (u32 each = members; each; each &= each - 1)
      if (values[std::countr_zero(each)] == values[i]) same |= each & (0u - each);
    if (same == members) matched |= 1u << i;
    d[i] = !All ? same : same == members ? members : 0;
  }
  if (All && op.extra) warp.set_predicate(op.extra, members, matched);
  return Step::next;
}

struct RAdd {
  static u32 of(u32 a, u32 b) { return a + b; }
};
struct RAnd {
  static u32 of(u32 a, u32 b) { return a & b; }
};
struct ROr {
  static u32 of(u32 a, u32 b) { return a | b; }
};
struct RXor {
  static u32 of(u32 a, u32 b) { return a ^ b; }
};
struct RMinU {
  static u32 of(u32 a, u32 b) { return a < b ? a : b; }
};
struct RMaxU {
  static u32 of(u32 a, u32 b) { return a > b ? a : b; }
};
struct RMinS {
  static u32 of(u32 a, u32 b) { return static_cast<s32>(a) < static_cast<s32>(b) ? a : b; }
};
struct RMaxS {
  static u32 of(u32 a, u32 b) { return static_cast<s32>(a) > static_cast<s32>(b) ? a : b; }
};

void spread(const Op& op, Warp& warp, u32 members, u32 value) {
  u32* d = warp.row32(op.d);
  for (u32 rest = members; rest; rest &= rest - 1) d[std::countr_zero(rest)] = value;
}
template <class F>
Step redux_part(const Op& op, Warp& warp, u32 members) {
  const u32* a = warp.row32(op.a);
  u32 rest = members;
  u32 result = a[std::countr_zero(rest)];
  for (rest &= rest - 1; rest; rest &= rest - 1) result = F::of(result, a[std::countr_zero(rest)]);
  spread(op, warp, members, result);
  return Step::next;
}
/// op.mode: 1 of magnitudes, 2 NaN wins.
template <bool Less>
Step redux_float_part(const Op& op, Warp& warp, u32 members) {
  const u32* a = warp.row32(op.a);
  bool have = false, any_nan = false;
  u32 result = 0x7fffffffu;
  for (u32 rest = members; rest; rest &= rest - 1) {
    const u32 bits =
        (op.mode & 1) ? a[std::countr_zero(rest)] & 0x7fffffffu : a[std::countr_zero(rest)];
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      any_nan = true;
      continue;
    }
    const s32 order = static_cast<s32>(bits ^ ((0 - (bits >> 31)) >> 1));
    const s32 best = static_cast<s32>(result ^ ((0 - (result >> 31)) >> 1));
    if (!have || (Less ? order < best : order > best)) result = bits;
    have = true;
  }
  spread(op, warp, members, any_nan && (op.mode & 2) ? 0x7fffffffu : result);
  return Step::next;
}
Step elect_part(const Op& op, Warp& warp, u32 members) {
  const int leader = std::countr_zero(members);
  if (op.extra) warp.set_predicate(op.extra, members, 1u << leader);
  spread(op, warp, members, static_cast<u32>(leader));
  return Step::next;
}

/// The mask is row op.c.
template <Step (*Part)(const Op&, Warp&, u32)>
Step sync(const Op& op, Warp& warp, u32 lanes) {
  return by_mask<Part>(op, warp, lanes, op.c);
}

Step activemask(const Op& op, Warp& warp, u32 lanes) {
  spread(op, warp, lanes, lanes);
  return Step::next;
}

}  // namespace

Family warp_family() {
  static constexpr HandlerEntry entries[] = {
      {"shfl", shuffle},
      {"activemask", activemask},
      {"elect", sync<elect_part>},
      {"vote.all", sync<vote_part<Vote::all>>},
      {"vote.any", sync<vote_part<Vote::any>>},
      {"vote.uni", sync<vote_part<Vote::uni>>},
      {"vote.ballot", sync<vote_part<Vote::ballot>>},
      {"match.any.32", sync<match_part<u32, false>>},
      {"match.any.64", sync<match_part<u64, false>>},
      {"match.all.32", sync<match_part<u32, true>>},
      {"match.all.64", sync<match_part<u64, true>>},
      {"redux.add", sync<redux_part<RAdd>>},
      {"redux.and", sync<redux_part<RAnd>>},
      {"redux.or", sync<redux_part<ROr>>},
      {"redux.xor", sync<redux_part<RXor>>},
      {"redux.min.u32", sync<redux_part<RMinU>>},
      {"redux.max.u32", sync<redux_part<RMaxU>>},
      {"redux.min.s32", sync<redux_part<RMinS>>},
      {"redux.max.s32", sync<redux_part<RMaxS>>},
      {"redux.min.f32", sync<redux_float_part<true>>},
      {"redux.max.f32", sync<redux_float_part<false>>},
  };
  return entries;
}

}  // namespace microscale::emulator
