// Faults in a product by wgmma whose tiles are stored while the one before is multiplied.
#include "emulator/mutations/mutation.hpp"
#include "support/mma_cases.hpp"

namespace microscale::emulator::mutations {
namespace {

using enum FindingKind;

/// Small integers as f16, so that every sum is exact.
Trial run_tiles(const std::string& text, const LaunchOptions& options) {
  constexpr std::size_t tiles = 5, k = 64 * tiles;
  microscale::testing::Bits bits(5);
  std::vector<int> values(2 * 64 * k);
  std::vector<std::uint16_t> codes(values.size());
  constexpr std::uint16_t f16[] = {0xC000, 0xBC00, 0, 0x3C00, 0x4000};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t pick = bits.below(5);
    values[i] = static_cast<int>(pick) - 2, codes[i] = f16[pick];
  }
  Memory memory;
  const std::uint64_t in = upload(memory, codes),
                      out = upload(memory, std::vector<float>(64 * 64, -1.0f));
  Trial trial = run_text(
      memory, text, request_for("multiply_tiles", {1, 1, 1}, {128, 1, 1}), options,
      [&] { return arguments(in, in + 2 * 64 * k, out, static_cast<std::uint32_t>(tiles)); });
  const auto result = download<float>(memory, out, 64 * 64);
  bool equal = true;
  for (std::size_t row = 0; row < 64; ++row)
    for (std::size_t column = 0; column < 64; ++column) {
      int sum = 0;
      for (std::size_t i = 0; i < k; ++i)
        sum += values[row * k + i] * values[(64 + column) * k + i];
      equal &= result[64 * row + column] == static_cast<float>(sum);
    }
  note(trial, equal, "the product");
  return trial;
}

constexpr Kernel wgmma_ring{"wgmma_ring.ptx", run_tiles};

constexpr Fault wgmma_faults[] = {
    {"wgmma: proxy fence after the stores dropped", "fence.proxy.async.shared::cta;  // the tile",
     "", finding(missing_fence, "wgmma.mma_async")},
    {"wgmma: __syncthreads after the stores dropped", "bar.sync 0;  // the tile is whole", "",
     finding(race, "wgmma.mma_async")},
    {"wgmma: fence before the products dropped",
     "wgmma.fence.sync.aligned;  // before the products", "",
     finding(missing_fence, "wgmma.mma_async"), "no wgmma.fence"},
    {"wgmma: waits for one group too few", "wgmma.wait_group.sync.aligned 1;  // the tile before",
     "wgmma.wait_group.sync.aligned 2;", finding(missing_wait, "st.shared.v4.u32")},
    {"wgmma: last wait dropped", "wgmma.wait_group.sync.aligned 0;  // all tiles", "",
     finding(missing_wait, "st.global.f32")},
    {"wgmma: the products are in no group", "wgmma.commit_group.sync.aligned;  // the tile", "",
     finding(missing_wait, "st.global.f32")},
    {"wgmma: an accumulator is doubled while it is in flight",
     "wgmma.commit_group.sync.aligned;  // the tile",
     "wgmma.commit_group.sync.aligned;\n\tadd.rn.f32 %f448, %f448, %f448;",
     finding(missing_wait, "add.rn.f32")},
    {"wgmma: the products read one stage only", "and.b32  \t%r48, %r47, 16384;",
     "and.b32  \t%r48, %r47, 0;", finding(missing_wait, "st.shared.v4.u32")},
    {"wgmma: the products read a stage nobody has filled", "and.b32  \t%r48, %r47, 16384;",
     "xor.b32  \t%r48, %r47, 16384;", finding(uninitialised_memory, "wgmma.mma_async")},
    {"wgmma: the last step along K leaves the row", "add.s64 \t%rd15, %rd9, 6;",
     "add.s64 \t%rd15, %rd9, 8;", finding(misaligned, "wgmma.mma_async")},
    {"wgmma: A is read with another swizzle", "or.b64  \t%rd9, %rd17, 4611686293305360384;",
     "or.b64  \t%rd9, %rd17, 0x8000004000010000;", check("the product")},
    {"wgmma: a warp goes by the products", "wgmma.fence.sync.aligned;  // before the products",
     "{ .reg .pred q; .reg .b32 w; mov.u32 w, %warpid; setp.eq.u32 q, w, 1; @q bra $L__BB0_6; }\n"
     "wgmma.fence.sync.aligned;",
     finding(divergent_aligned, "wgmma.")},
    {"wgmma: the descriptor of B differs from warp to warp", "add.s32 \t%r52, %r50, 8192;",
     "mov.u32 %r52, %warpid; shl.b32 %r52, %r52, 10; add.s32 %r52, %r52, %r50;",
     finding(misuse, "wgmma.mma_async")},
    {"wgmma: built for sm_90", ".target sm_90a", ".target sm_90", refusal("needs sm_90a")},
};

TEST(Mutations, wgmma_ring_is_clean) { expect_clean(wgmma_ring); }
TEST(Mutations, wgmma_ring_faults_are_named) { expect_caught(wgmma_ring, wgmma_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
