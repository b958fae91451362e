// mbarrier objects, bulk copies, tensor copies, asynchronous stores and cluster launch control,
// lane by lane.
#include <algorithm>
#include <cstring>

#include "emulator/ops/address.hpp"
#include "emulator/ops/barrier.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/target.hpp"

namespace microscale::emulator {

std::uint64_t mbarrier_address(const Op& op, const Warp& warp, int lane) {
  return generic_address(warp, op.a, op.mode & 1,
                         (op.mode & 2) ? ptx::Space::shared : ptx::Space::generic, op.value, lane);
}

namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// The k-th address of op.list, five words each.
u64 listed(const Op& op, const Warp& warp, int k, int lane) {
  const u32* at = op.list + 5 * k;
  const u64 offset = u64{at[3]} << 32 | at[2];
  return generic_address(warp, at[0], at[1], static_cast<ptx::Space>(at[4]),
                         static_cast<std::int64_t>(offset), lane);
}

enum class What { init, invalidate, expect, complete };
template <What W>
Step manage(const Op& op, Warp& warp, u32 lanes) {
  ClusterMemory& memory = warp.block().memory();
  const Agent agent = warp.agent(op);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u64 address = mbarrier_address(op, warp, i);
    if (W == What::invalidate)
      memory.mbarrier_invalidate(agent, i, address);
    else if (W == What::init)
      memory.mbarrier_init(agent, i, address, warp.row32(op.b)[i]);
    else if (W == What::expect)
      memory.mbarrier_arrive(agent, i, address, 0, warp.row32(op.b)[i]);
    else
      memory.mbarrier_complete(agent, i, address, warp.row32(op.b)[i]);
  }
  return Step::next;
}

template <bool Expects>
Step arrive(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u32 number = warp.row32(op.b)[i];
    warp.row64(op.d)[i] =
        warp.block().memory().mbarrier_arrive(warp.agent(op), i, mbarrier_address(op, warp, i),
                                              Expects ? 1 : number, Expects ? number : 0);
  }
  return Step::next;
}

/// A try_wait (mode bit 2) whose phase is not over waits; a test_wait says so.
template <bool Parity>
Step wait(const Op& op, Warp& warp, u32 lanes) {
  ClusterMemory& memory = warp.block().memory();
  u32 over = 0;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const u64 address = mbarrier_address(op, warp, i);
    const bool done =
        Parity ? memory.mbarrier_test_parity(warp.agent(op), i, address, warp.row32(op.b)[i])
               : memory.mbarrier_test(warp.agent(op), i, address, warp.row64(op.b)[i]);
    if (done) over |= 1u << i;
  }
  if (over != lanes && (op.mode & 4)) return Step::wait;
  warp.set_predicate(op.d, lanes, over);
  return over ? Step::next : warp.pass();  // it will ask again, and what it waits for needs others
}

Step copy_arrive(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    warp.block().memory().cp_async_mbarrier_arrive(warp.agent(op), i, mbarrier_address(op, warp, i),
                                                   op.extra & 1);
  }
  return Step::next;
}

/// Mode bit 0: with an mbarrier; bit 1: to the blocks of the cluster that a mask in op.b names,
/// each at the same place, with an mbarrier at the same place.
Step bulk(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (op.mode & 2) {
      for (u32 blocks = warp.row32(op.b)[i] & 0xFFFFu; blocks; blocks &= blocks - 1) {
        const auto rank = static_cast<u32>(std::countr_zero(blocks));
        warp.block().memory().bulk_copy(
            warp.agent(op), i, cluster_shared(rank, listed(op, warp, 0, i)), listed(op, warp, 1, i),
            warp.row32(op.a)[i], cluster_shared(rank, listed(op, warp, 2, i)));
      }
      continue;
    }
    warp.block().memory().bulk_copy(warp.agent(op), i, listed(op, warp, 0, i),
                                    listed(op, warp, 1, i), warp.row32(op.a)[i],
                                    (op.mode & 1) ? listed(op, warp, 2, i) : 0);
  }
  return Step::next;
}

/// op.extra values of op.mode bytes.
Step store(const Op& op, Warp& warp, u32 lanes) {
  const std::size_t bytes = std::size_t{op.extra} * op.mode;
  std::uint8_t values[32 * 32];
  u64 to[32] = {}, barriers[32] = {};
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(rest));
    to[i] = listed(op, warp, 0, static_cast<int>(i));
    barriers[i] = listed(op, warp, 1, static_cast<int>(i));
    for (u32 k = 0; k < op.extra; ++k) {
      const u32 row = op.list[10 + k];
      const u64 value = op.mode == 8 ? warp.row64(row)[i] : warp.row32(row)[i];
      std::memcpy(values + i * bytes + k * op.mode, &value, op.mode);
    }
  }
  warp.block().memory().store_async(
      warp.agent(op), {.lanes = lanes, .bytes = static_cast<int>(bytes), .address = to}, values,
      barriers);
  return Step::next;
}

/// To the blocks that a mask in op.b names, each at the same place. It is told at the same place of
/// each, or with op.extra 2 (.cta_group::2) of that one of its pair that is, in its pair, the one
/// where the mbarrier is.
void multicast(const Op& op, Warp& warp, int lane, const std::int32_t* at) {
  const u64 to = listed(op, warp, 0, lane), mbarrier = listed(op, warp, 2, lane);
  const u32 own = warp.block().rank();
  const u32 parity = (names_block(mbarrier) ? rank_of(mbarrier) : own) & 1;
  for (u32 blocks = warp.row32(op.b)[lane] & 0xFFFFu; blocks; blocks &= blocks - 1) {
    const auto rank = static_cast<u32>(std::countr_zero(blocks));
    warp.block().memory().tensor_load(
        warp.agent(op), lane, cluster_shared(rank, to), listed(op, warp, 1, lane), at,
        cluster_shared(op.extra == 2 ? (rank & ~1u) | parity : rank, mbarrier));
  }
}

/// op.mode: coordinates; op.extra: a load for several blocks.
template <bool Loads>
Step tensor(const Op& op, Warp& warp, u32 lanes) {
  const u32* coordinate = op.list + (Loads ? 15 : 10);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    std::int32_t at[5] = {};
    for (int k = 0; k < op.mode; ++k)
      at[k] = static_cast<std::int32_t>(warp.row32(coordinate[k])[i]);
    ClusterMemory& memory = warp.block().memory();
    if (Loads && op.extra)
      multicast(op, warp, i, at);
    else if (Loads)
      memory.tensor_load(warp.agent(op), i, listed(op, warp, 0, i), listed(op, warp, 1, i), at,
                         listed(op, warp, 2, i));
    else
      memory.tensor_store(warp.agent(op), i, listed(op, warp, 1, i), at, listed(op, warp, 0, i));
  }
  return Step::next;
}

// An answer to try_cancel: the first block of a cluster that will not begin, and `cancelled`, or
// `nothing`. Programs cannot look into it but by query_cancel.
constexpr u32 cancelled = 0xC1C0'0001u, nothing = 0xC1C0'0000u;

/// Whether a launch is cancelled while there is one: under AsyncPolicy::random by chance.
bool lets_cancel(const Warp& warp, const Agent& agent) {
  const MemoryOptions& options = warp.block().launch().memory.options;
  if (options.policy != AsyncPolicy::random) return true;
  u64 mixed = (options.seed + 1) * 0x9e37'79b9'7f4a'7c15u + agent.block * 0x5851'f42d'4c95'7f2du;
  mixed += warp.now();
  mixed ^= mixed >> 29;
  return (mixed * 0xbf58'476d'1ce4'e5b9u >> 40) % 4 != 0;
}

/// op.mode bit 0: the answer goes to every block of the cluster, at the same place.
Step try_cancel(const Op& op, Warp& warp, u32 lanes) {
  LaunchState& launch = warp.block().launch();
  const Agent agent = warp.agent(op);
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    const auto number = lets_cancel(warp, agent) ? launch.take_cluster() : std::nullopt;
    u32 answer[4] = {0, 0, 0, nothing};
    if (number) {
      const auto first = launch.shape.origin(*number);
      std::copy(first.begin(), first.end(), answer);
      answer[3] = cancelled;
    }
    const u64 to = listed(op, warp, 0, i), mbarrier = listed(op, warp, 1, i);
    const u32 blocks = (op.mode & 1) ? launch.shape.cluster_blocks() : 0;
    if (!blocks) warp.block().memory().launch_answer(agent, i, to, mbarrier, answer, !number);
    for (u32 rank = 0; rank < blocks; ++rank)
      warp.block().memory().launch_answer(agent, i, cluster_shared(rank, to),
                                          cluster_shared(rank, mbarrier), answer, !number);
  }
  return Step::next;
}

/// Words 2 and 3 of an answer; false after a finding.
bool answered(const Op& op, Warp& warp, int lane, bool wants_block) {
  const u32 state = static_cast<u32>(warp.row64(op.a + row_bytes_64)[lane] >> 32);
  if (state == cancelled || (state == nothing && !wants_block)) return true;
  warp.report(op, FindingKind::misuse, lane,
              state == nothing ? "asks for the block of a launch that was not cancelled"
                               : "asks about 16 bytes that are no answer of try_cancel",
              true);
  return false;
}

Step is_cancelled(const Op& op, Warp& warp, u32 lanes) {
  u32 yes = 0;
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (!answered(op, warp, i, false)) return Step::stop;
    if (static_cast<u32>(warp.row64(op.a + row_bytes_64)[i] >> 32) == cancelled) yes |= 1u << i;
  }
  warp.set_predicate(op.d, lanes, yes);
  return Step::next;
}

/// op.list: rows for x, y, z and a fourth word, from coordinate op.mode on; op.extra of them.
Step first_block(const Op& op, Warp& warp, u32 lanes) {
  for (u32 rest = lanes; rest; rest &= rest - 1) {
    const int i = std::countr_zero(rest);
    if (!answered(op, warp, i, true)) return Step::stop;
    const u64 low = warp.row64(op.a)[i], high = warp.row64(op.a + row_bytes_64)[i];
    const u32 words[4] = {static_cast<u32>(low), static_cast<u32>(low >> 32),
                          static_cast<u32>(high), 0};
    for (u32 k = 0; k < op.extra; ++k) warp.row32(op.list[k])[i] = words[op.mode + k];
  }
  return Step::next;
}

}  // namespace

Family mbarrier_family() {
  static constexpr HandlerEntry entries[] = {
      {"mbarrier.init", manage<What::init>},
      {"mbarrier.inval", manage<What::invalidate>},
      {"mbarrier.expect_tx", manage<What::expect>},
      {"mbarrier.complete_tx", manage<What::complete>},
      {"mbarrier.arrive", arrive<false>},
      {"mbarrier.arrive.expect_tx", arrive<true>},
      {"mbarrier.wait.parity", wait<true>},
      {"mbarrier.wait.state", wait<false>},
      {"cp.async.mbarrier", copy_arrive},
      {"cp.bulk", bulk},
      {"st.async", store},
      {"cp.tensor.load", tensor<true>},
      {"cp.tensor.store", tensor<false>},
      {"cluster.try_cancel", try_cancel},
      {"cluster.cancelled", is_cancelled},
      {"cluster.first", first_block},
  };
  return entries;
}

}  // namespace microscale::emulator
