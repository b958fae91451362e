#include "emulator/memory/tensor_map.hpp"
#include "emulator/run_ptx.hpp"
#include "microscale/error.hpp"

namespace microscale::emulator {
namespace {

using namespace testing;

std::string bulk(const std::string& wait) {
  return ".shared .align 16 .b8 tile[128];\n.shared .align 8 .b8 bar[8];\n" + own_word +
         "mov.u32 %r1, tile; mov.u32 %r2, bar; setp.ne.u32 %p1, %r50, 0; @%p1 bra READY;\n"
         "mbarrier.init.shared::cta.b64 [%r2], 1; fence.proxy.async;\n"
         "mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], 128;\n"
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd30], 128, "
         "[%r2];\n"
         "READY: bar.sync 0;\n" +
         wait +
         "mul.lo.u32 %r3, %r50, 4; add.u32 %r4, %r1, %r3; ld.shared.u32 %r5, [%r4]; add.u32 %r6, "
         "%r5, 1; st.global.u32 [%rd32], %r6;";
}

TEST(Mbarriers, a_bulk_copy_completes_the_phase_that_is_waited_for) {
  for (const Completion completion : {Completion::eager, Completion::latest, Completion::random}) {
    const Ran ran = launch_words(
        entry(
            bulk("WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"),
            "", "sm_90a"),
        std::vector<std::uint32_t>(32, 41), shaped(1, 32, {.completion = completion}));
    EXPECT_EQ(ran.findings(), "");
    for (const std::uint32_t word : ran.words) EXPECT_EQ(word, 42u);
  }
}

// Block 1 of two copies to both, or to itself alone; each waits at its own barrier.
TEST(Mbarriers, a_bulk_copy_goes_to_the_blocks_of_a_mask) {
  const auto text = [](int mask) {
    return entry(
        ".shared .align 16 .b8 tile[128];\n.shared .align 8 .b8 bar[8];\n"
        "mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r7, %ctaid.x; mov.u32 %r8, %tid.x;\n"
        "setp.ne.u32 %p1, %r8, 0; @%p1 bra READY;\n"
        "mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], 128;\n"
        "READY: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n"
        "ld.param.u64 %rd1, [p];\n"
        "setp.ne.u32 %p1, %r7, 1; @%p1 bra WAIT; setp.ne.u32 %p1, %r8, 5; @%p1 bra WAIT;\n"
        "mov.u16 %rs1, " +
            std::to_string(mask) +
            ";\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%r1], [%rd1], 128, [%r2], %rs1;\n"
            "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"
            "shl.b32 %r3, %r8, 2; add.u32 %r4, %r1, %r3; ld.shared.u32 %r5, [%r4];\n"
            "shl.b32 %r6, %r7, 7; add.u32 %r6, %r6, %r3; cvt.u64.u32 %rd2, %r6;\n"
            "add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+128], %r5;",
        "", "sm_90a");
  };
  std::vector<std::uint32_t> words(96);
  for (std::uint32_t i = 0; i < 32; ++i) words[i] = 1000 + i;
  for (const Completion completion : {Completion::eager, Completion::latest, Completion::random}) {
    LaunchRequest request = shaped(2, 32, {.completion = completion});
    request.cluster = {2};
    const Ran ran = launch_words(text(3), words, request);
    EXPECT_EQ(ran.findings(), "");
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(ran.words[32 + i], 1000 + i % 32);
  }
  LaunchRequest request = shaped(2, 32);
  request.cluster = {2};
  const Ran ran = launch_words(text(2), words, request);
  EXPECT_EQ(ran.count(FindingKind::deadlock), 1) << "block 0 waits for bytes of nobody";
}

// Block 1 of two stores pairs of words into block 0, which waits for their bytes, or does not.
std::string sent_pairs(const std::string& wait) {
  return entry(
      ".shared .align 16 .b8 tile[256];\n.shared .align 8 .b8 bar[8];\n"
      "mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r7, %ctaid.x; mov.u32 %r8, %tid.x;\n"
      "setp.ne.u32 %p1, %r8, 0; @%p1 bra READY;\n"
      "mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], 256;\n"
      "READY: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n"
      "ld.param.u64 %rd1, [p]; shl.b32 %r3, %r8, 3; add.u32 %r4, %r1, %r3;\n"
      "setp.eq.u32 %p1, %r7, 0; @%p1 bra WAIT;\n"
      "mapa.shared::cluster.u32 %r5, %r4, 0; mapa.shared::cluster.u32 %r6, %r2, 0;\n"
      "add.u32 %r9, %r8, 1000;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r5], {%r8, %r9}, "
      "[%r6];\n"
      "bra END;\n"
      "WAIT: " +
          wait +
          "ld.shared.v2.u32 {%r5, %r6}, [%r4];\n"
          "cvt.u64.u32 %rd2, %r3; add.u64 %rd2, %rd1, %rd2; st.global.v2.u32 [%rd2], {%r5, %r6};\n"
          "END: barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
      "", "sm_90a");
}

TEST(Mbarriers, stores_to_another_block_complete_the_phase_that_is_waited_for) {
  for (const Completion completion : {Completion::eager, Completion::latest, Completion::random}) {
    LaunchRequest request = shaped(2, 32, {.completion = completion});
    request.cluster = {2};
    const Ran ran = launch_words(
        sent_pairs("mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"),
        std::vector<std::uint32_t>(64), request);
    EXPECT_EQ(ran.findings(), "");
    for (std::uint32_t i = 0; i < 64; ++i) EXPECT_EQ(ran.words[i], i / 2 + i % 2 * 1000);
  }
  LaunchRequest request = shaped(2, 32, {.completion = Completion::latest});
  request.cluster = {2};
  const Ran ran = launch_words(sent_pairs(""), std::vector<std::uint32_t>(64), request);
  EXPECT_FALSE(ran.report.findings.empty()) << "nobody waits for the pairs";
}

TEST(Mbarriers, a_tensor_copy_goes_to_the_blocks_of_a_mask) {
  // Rows 0 and 1 of 128 bytes, one by each block, to both blocks. Told: each block of what it got;
  // or, by .cta_group::2, the first block of the pair of all four boxes.
  for (const bool pair : {false, true})
    for (const Completion completion :
         {Completion::eager, Completion::latest, Completion::random}) {
      const std::string text =
          ".version 9.0\n.target sm_100f\n.address_size 64\n"
          ".visible .entry k(.param .align 64 .b8 map[128], .param .u64 p)\n{\n" +
          registers +
          ".shared .align 128 .b8 tile[256];\n.shared .align 8 .b8 bar[8];\n"
          "mov.b64 %rd1, map; cvta.param.u64 %rd2, %rd1; ld.param.u64 %rd30, [p];\n"
          "mov.u32 %r1, tile; mov.u32 %r2, bar; mov.u32 %r7, %ctaid.x; mov.u32 %r8, %tid.x;\n"
          "setp.ne.u32 %p1, %r8, 0; @%p1 bra READY;\n"
          "mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;\n"
          "mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], " +
          (pair ? "512" : "256") +
          ";\nREADY: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n"
          "@%p1 bra WAIT; shl.b32 %r3, %r7, 7; add.u32 %r4, %r1, %r3; mov.u16 %rs1, 3;\n" +
          (pair ? "mapa.shared::cluster.u32 %r6, %r2, 0;\n" : "mov.u32 %r6, %r2;\n") +
          "cp.async.bulk.tensor.2d" + (pair ? ".cta_group::2" : "") +
          ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r4], "
          "[%rd2, {0, %r7}], [%r6], %rs1;\nWAIT:\n" +
          (pair ? "setp.ne.u32 %p4, %r7, 0; @%p4 bra MEET;\n" : "") +
          "LOOP: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra LOOP;\n"
          "MEET: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;\n"
          "shl.b32 %r3, %r8, 2; add.u32 %r4, %r1, %r3; shl.b32 %r5, %r7, 8; add.u32 %r5, %r5, "
          "%r3;\n"
          "cvt.u64.u32 %rd5, %r5; add.u64 %rd5, %rd30, %rd5;\n"
          "ld.shared.u32 %r9, [%r4]; st.global.u32 [%rd5], %r9;\n"
          "ld.shared.u32 %r9, [%r4+128]; st.global.u32 [%rd5+128], %r9;\nret;\n}\n";
      Memory memory;
      const Module module(memory, text);
      std::vector<std::uint32_t> words(64), out(128);
      for (std::uint32_t i = 0; i < 64; ++i) words[i] = 500 + i;
      const std::uint64_t from = memory.allocate(256), to = memory.allocate(512);
      memory.write(from, words.data(), 256);
      TensorMap map;
      map.rank = 2, map.element_bytes = 4, map.address = from;
      map.size = {32, 2}, map.stride = {4, 128}, map.box = {32, 1};
      const TensorMapBytes bytes = encode(map);
      LaunchRequest request = shaped(2, 32, {.completion = completion});
      request.kernel = "k";
      request.cluster = {2};
      request.arguments.assign(bytes.begin(), bytes.end());
      const std::vector<std::uint8_t> rest = arguments(to);
      request.arguments.insert(request.arguments.end(), rest.begin(), rest.end());
      const LaunchReport report = launch(memory, module, request);
      for (const Finding& each : report.findings) ADD_FAILURE() << to_sentence(each);
      memory.read(out.data(), to, 512);
      for (std::uint32_t i = 0; i < 128; ++i) EXPECT_EQ(out[i], 500 + i % 64) << pair;
    }
}

// Every block adds one at its number, and goes on with blocks whose launch it could cancel.
std::string steals(const std::string& wait, const std::string& ask = "@!%p3 bra END;\n") {
  return entry(
      ".shared .align 16 .b8 answer[16];\n.shared .align 8 .b8 bar[8];\n.reg .b128 %q1;\n"
      "mov.u32 %r1, answer; mov.u32 %r2, bar; mov.u32 %r3, %ctaid.x; mov.u32 %r9, 0; mov.u32 %r8, "
      "0;\n"
      "ld.param.u64 %rd30, [p]; mbarrier.init.shared::cta.b64 [%r2], 1; fence.proxy.async;\n"
      "WORK: mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd30, %rd1; red.global.add.u32 [%rd1], 1;\n"
      "fence.proxy.async;\n"
      "mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], 16;\n"
      "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r1], "
      "[%r2];\n" +
          wait +
          "xor.b32 %r9, %r9, 1; ld.shared.b128 %q1, [%r1];\n"
          "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;\n" +
          ask +
          "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r3, %q1;\n"
          "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r4, %r5, %r6, _}, %q1;\n"
          "bra WORK;\nEND:",
      "", "sm_100f");
}
const std::string answer_wait =
    "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r9; @!%p2 bra WAIT;\n";

TEST(ClusterLaunchControl, every_block_is_begun_or_taken_over_once) {
  for (const Completion completion : {Completion::eager, Completion::latest, Completion::random}) {
    LaunchOptions options;
    options.completion = completion;
    options.threads = completion == Completion::latest ? 1 : 2;
    const Ran ran =
        launch_words(steals(answer_wait), std::vector<std::uint32_t>(40), shaped(40, 1, options));
    EXPECT_EQ(ran.findings(), "");
    EXPECT_EQ(ran.words, std::vector<std::uint32_t>(40, 1));
  }
}

TEST(ClusterLaunchControl, answers_must_be_waited_for_and_obeyed) {
  const std::vector<std::uint32_t> words(4);
  const Ran early = launch_words(steals(""), words, shaped(4, 1));
  EXPECT_GE(early.count(FindingKind::missing_wait), 1) << early.findings();
  const Ran deaf = launch_words(steals(answer_wait, ""), words, shaped(4, 1));
  EXPECT_NE(deaf.findings().find("that was not cancelled"), std::string::npos) << deaf.findings();
  const Ran again = launch_words(steals(answer_wait,
                                        "@%p3 bra GO; mov.u32 %r3, 0; add.u32 %r8, %r8, 1; "
                                        "setp.gt.u32 %p4, %r8, 2; @%p4 bra END; bra WORK;\nGO:\n"),
                                 words, shaped(4, 1));
  EXPECT_NE(again.findings().find("asks for another cluster"), std::string::npos)
      << again.findings();
}

TEST(ClusterLaunchControl, needs_its_types) {
  for (const char* line : {"clusterlaunchcontrol.query_cancel.is_canceled.b128 %p1, %q1;",
                           "clusterlaunchcontrol.query_cancel.is_canceled.pred %p1, %q1;",
                           "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b128 %r1, %q1;",
                           "clusterlaunchcontrol.query_cancel.get_first_ctaid.b32.b128 %r1, %q1;",
                           "clusterlaunchcontrol.try_cancel.async.shared::cta.b128 [%r1], [%r2];"})
    EXPECT_THROW(launch_words(entry(std::string(".reg .b128 %q1;\n") + line, "", "sm_100f"), {0},
                              shaped(1, 32)),
                 Error)
        << line;
}

TEST(Mbarriers, reading_without_waiting_is_found) {
  const Ran ran = launch_words(entry(bulk(""), "", "sm_90a"), std::vector<std::uint32_t>(32, 41),
                               shaped(1, 32));
  EXPECT_FALSE(ran.report.findings.empty());
}

TEST(Mbarriers, a_phase_that_nobody_ends_is_a_deadlock) {
  const Ran ran = launch_words(
      entry(".shared .align 8 .b8 bar[8];\n mbarrier.init.shared::cta.b64 [bar], 2;\n"
            "mbarrier.arrive.shared::cta.b64 %rd1, [bar];\n"
            "WAIT: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd1; @!%p1 bra WAIT;",
            "", "sm_90a"),
      {0}, shaped(1, 1));
  EXPECT_EQ(ran.count(FindingKind::deadlock), 1) << ran.findings();
}

}  // namespace
}  // namespace microscale::emulator
