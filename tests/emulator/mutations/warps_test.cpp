// Faults in kernels whose warps, lanes and blocks talk to each other: a grid-wide sum, an exchange
// of words, a sum of two blocks of a cluster.
#include "emulator/mutations/mutation.hpp"

namespace microscale::emulator::mutations {
namespace {

Trial run_sum(const std::string& text, const LaunchOptions& options) {
  constexpr std::uint32_t n = 1500, blocks = 5;
  Memory memory;
  std::vector<float> input(n);
  double expected = 0;
  for (std::uint32_t i = 0; i < n; ++i) expected += input[i] = static_cast<float>(i % 37) * 0.25f;
  const std::uint64_t in = upload(memory, input), partial = memory.allocate(4 * blocks);
  const std::uint64_t ticket = upload(memory, std::vector<std::uint32_t>{0});
  const std::uint64_t out = upload(memory, std::vector<float>{-1});
  Trial trial = run_text(memory, text, request_for("sum", {blocks, 1, 1}, {128, 1, 1}), options,
                         [&] { return arguments(in, partial, ticket, out, n); });
  note(trial, download<float>(memory, out, 1)[0] == static_cast<float>(expected), "the sum");
  return trial;
}

Trial run_exchange(const std::string& text, const LaunchOptions& options) {
  Memory memory;
  std::vector<std::uint32_t> input(64), expected(32);
  for (std::uint32_t i = 0; i < 64; ++i) input[i] = i * i + 1;
  std::uint32_t total = 0;
  for (std::uint32_t i = 0; i < 32; ++i) expected[i] = total += input[31 - i] + input[63 - i];
  const std::uint64_t in = upload(memory, input),
                      out = upload(memory, std::vector<std::uint32_t>(32));
  Trial trial = run_text(memory, text, request_for("exchange", {1, 1, 1}, {64, 1, 1}), options,
                         [&] { return arguments(in, out); });
  note(trial, download<std::uint32_t>(memory, out, 32) == expected, "the running sums");
  return trial;
}

Trial run_pair(const std::string& text, const LaunchOptions& options) {
  Memory memory;
  std::vector<float> input(256), expected(128);
  for (std::size_t i = 0; i < 256; ++i) input[i] = static_cast<float>(i % 19 * i);
  for (std::size_t i = 0; i < 128; ++i) expected[i] = input[i] + input[128 + i];
  const std::uint64_t in = upload(memory, input), out = upload(memory, std::vector<float>(128));
  Trial trial = run_text(memory, text, request_for("pair_sum", {2, 1, 1}, {64, 1, 1}), options,
                         [&] { return arguments(in, out); });
  note(trial, download<float>(memory, out, 128) == expected, "the sums");
  return trial;
}

constexpr Kernel sum{"sum.ptx", run_sum}, exchange{"exchange.ptx", run_exchange},
    pair_sum{"pair_sum.ptx", run_pair};

using enum FindingKind;

constexpr Fault sum_faults[] = {
    {"sum: __syncthreads after the warps' sums dropped", "bar.sync 0;  // the warps' sums", "",
     finding(race, "st.shared.f32"), "warp"},
    {"sum: __syncthreads after the ticket dropped", "bar.sync 0;  // the ticket", "",
     finding(race, "st.shared.u32")},
    {"sum: fence between the block's sum and its ticket dropped",
     "fence.acq_rel.gpu;  // the block's sum before its ticket", "",
     finding(race, "ld.global.f32 \t%f21")},
    {"sum: the ticket is counted without an atomic", "atom.global.add.u32 \t%r16, [%rd11], 1;",
     "ld.global.u32 \t%r16, [%rd11]; add.u32 %r19, %r16, 1; st.global.u32 [%rd11], %r19;",
     finding(race, "ld.global.u32 \t%r16")},
    {"sum: every block adds up", "setp.ne.s32 \t%p5, %r18, %r17;", "setp.ne.s32 \t%p5, %r17, %r17;",
     finding(race, "st.global.f32 \t[%rd14]")},
    {"sum: the loop goes on behind the input", "setp.lt.u32 \t%p2, %r19, %r8;",
     "setp.lt.u32 \t%p2, %r19, 1600;", finding(out_of_bounds, "ld.global.f32 \t%f10")},
    {"sum: the loop does not advance", "add.s32 \t%r19, %r19, %r4;", "add.s32 \t%r19, %r19, 0;",
     finding(endless, "")},
    {"sum: lanes without a block keep an unwritten register", "mov.f32 \t%f21, 0f00000000;", "",
     finding(uninitialised_register, "st.param.f32"),
     "reads register %f21, which lanes 5-31 never wrote"},
    {"sum: shuffle mask without lane 31", "mov.u32 \t%r6, -1;", "mov.u32 \t%r6, 0x7fffffff;",
     finding(misuse, "shfl.sync.down"), "lane 31 executes with the mask 0x7fffffff"},
    {"sum: half of the last warp has left before the shuffle", "setp.gt.u32 \t%p6, %r2, 31;",
     "setp.gt.u32 \t%p6, %r2, 15;", finding(misuse, "shfl.sync.down"), "lanes 0-15 of shfl"},
    {"sum: a barrier for more threads than the block has", "bar.sync 0;  // the ticket",
     "bar.sync 0, 160;", finding(deadlock, "bar.sync 0, 160"),
     "waits for barrier 0, where 128 of 160 threads have come"},
};

constexpr Fault exchange_faults[] = {
    {"exchange: __syncwarp dropped", "bar.warp.sync 0xffffffff;  // the words of the warp", "",
     finding(race, "ld.shared.u32 \t%r2")},
    {"exchange: __syncwarp of half the warp", "bar.warp.sync 0xffffffff;  // the words of the warp",
     "bar.warp.sync 0x0000ffff;", finding(misuse, "bar.warp.sync"), "lanes 16-31"},
    {"exchange: arrives at another barrier", "bar.arrive 1, 64;  // handed over",
     "bar.arrive 2, 64;", finding(deadlock, "bar.sync 1, 64"),
     "waits for barrier 1, where 32 of 64 threads have come"},
    {"exchange: barrier counts that differ", "bar.arrive 1, 64;  // handed over",
     "bar.arrive 1, 96;", finding(misuse, "bar.arrive 1, 96"), "64"},
    {"exchange: takes without waiting", "bar.sync 1, 64;  // taken", "",
     finding(race, "st.shared.u32 \t[%r3]")},
    {"exchange: a shuffle for the first half of the warp only", "shfl.sync.up.b32 \t%r25|%p2,",
     "setp.lt.u32 %p3, %r1, 16;\n@%p3 shfl.sync.up.b32 \t%r25|%p2,",
     finding(divergent_aligned, "shfl.sync.up"), "lanes 16-31"},
    {"exchange: shuffle down for up", "shfl.sync.up.b32 \t%r25|%p2, %r28, %r27, %r23,",
     "shfl.sync.down.b32 \t%r25|%p2, %r28, %r27, 31,", check("the running sums")},
};

constexpr Fault pair_faults[] = {
    {"pair sum: does not wait until the other block has begun",
     "barrier.cluster.wait.acquire.aligned;  // the other has begun", "",
     finding(absent_block, "st.async"), "need not have begun"},
    {"pair sum: does not arrive when it has begun",
     "barrier.cluster.arrive.relaxed.aligned;  // has begun", "",
     finding(deadlock, "barrier.cluster.wait"), "waits for the cluster's barrier"},
    {"pair sum: fence behind the mbarrier dropped",
     "fence.mbarrier_init.release.cluster;  // the mbarrier", "", finding(race, "st.async"),
     "an mbarrier that warp 0 initialised"},
    {"pair sum: mbarrier wait dropped",
     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%r9], 0;  // all is here",
     "setp.eq.u32 done, %r9, %r9;", finding(missing_wait, "ld.shared.f32 \t%f3")},
    {"pair sum: arrives with its sums relaxed",
     "barrier.cluster.arrive.release.aligned;  // the sums\n",
     "barrier.cluster.arrive.relaxed.aligned;\n", finding(race, "ld.shared::cluster.f32")},
    {"pair sum: a block ends while the other reads its sums",
     "barrier.cluster.wait.acquire.aligned;  // the sums are read", "",
     finding(absent_block, "ld.shared::cluster.f32"), "may have ended"},
};

TEST(Mutations, sum_is_clean) { expect_clean(sum); }
TEST(Mutations, sum_faults_are_named) { expect_caught(sum, sum_faults); }
TEST(Mutations, exchange_is_clean) { expect_clean(exchange); }
TEST(Mutations, exchange_faults_are_named) { expect_caught(exchange, exchange_faults); }
TEST(Mutations, pair_sum_is_clean) { expect_clean(pair_sum); }
TEST(Mutations, pair_sum_faults_are_named) { expect_caught(pair_sum, pair_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
