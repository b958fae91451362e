// Faults in products by wgmma: of tiles that are stored while the one before is multiplied, and of
// tiles that a warp brings by tensor maps while others multiply.
#include "emulator/memory/tensor_map.hpp"
#include "emulator/mutations/mutation.hpp"
#include "support/mma_cases.hpp"

namespace microscale::emulator::mutations {
namespace {

using enum FindingKind;

/// Small integers as f16, so that every sum is exact: A of `rows` and B of 64, K fastest.
struct Tiles {
  static constexpr std::size_t count = 5, k = 64 * count;
  std::size_t rows;
  std::vector<int> values;
  std::vector<std::uint16_t> codes;

  explicit Tiles(std::size_t rows) : rows(rows), values((rows + 64) * k), codes(values.size()) {
    microscale::testing::Bits bits(5);
    constexpr std::uint16_t f16[] = {0xC000, 0xBC00, 0, 0x3C00, 0x4000};
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint32_t pick = bits.below(5);
      values[i] = static_cast<int>(pick) - 2, codes[i] = f16[pick];
    }
  }
  bool equal(const std::vector<float>& result) const {
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < 64; ++column) {
        int sum = 0;
        for (std::size_t i = 0; i < k; ++i)
          sum += values[row * k + i] * values[(rows + column) * k + i];
        if (result[64 * row + column] != static_cast<float>(sum)) return false;
      }
    return true;
  }
};

Trial run_tiles(const std::string& text, const LaunchOptions& options) {
  static const Tiles tiles(64);
  Memory memory;
  const std::uint64_t in = upload(memory, tiles.codes),
                      out = upload(memory, std::vector<float>(64 * 64, -1.0f));
  Trial trial = run_text(
      memory, text, request_for("multiply_tiles", {1, 1, 1}, {128, 1, 1}), options,
      [&] { return arguments(in, in + 2 * 64 * Tiles::k, out, std::uint32_t{Tiles::count}); });
  note(trial, tiles.equal(download<float>(memory, out, 64 * 64)), "the product");
  return trial;
}

TensorMapBytes map_of(std::uint64_t address, std::uint32_t rows) {
  TensorMap map;
  map.rank = 2, map.element_bytes = 2, map.address = address, map.swizzle = Swizzle::b128;
  map.size = {Tiles::k, rows}, map.stride = {2, 2 * Tiles::k}, map.box = {64, rows};
  return encode(map);
}

Trial run_pipelined(const std::string& text, const LaunchOptions& options) {
  static const Tiles tiles(128);
  Memory memory;
  const std::uint64_t in = upload(memory, tiles.codes),
                      out = upload(memory, std::vector<float>(128 * 64, -1.0f));
  LaunchRequest request = request_for("multiply_pipelined", {1, 1, 1}, {288, 1, 1});
  request.dynamic_shared_bytes = 2 * 24576;
  Trial trial = run_text(memory, text, request, options, [&] {
    std::vector<std::uint8_t> bytes;
    for (const TensorMapBytes& map : {map_of(in, 128), map_of(in + 2 * 128 * Tiles::k, 64)})
      bytes.insert(bytes.end(), map.begin(), map.end());
    const auto rest = arguments(out, std::uint32_t{Tiles::count});
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    return bytes;
  });
  note(trial, tiles.equal(download<float>(memory, out, 128 * 64)), "the product");
  return trial;
}

constexpr Kernel wgmma_ring{"wgmma_ring.ptx", run_tiles},
    wgmma_pipeline{"wgmma_pipeline.ptx", run_pipelined};

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
    {"wgmma: the products read a stage that was not filled", "and.b32  \t%r48, %r47, 16384;",
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

constexpr Fault pipeline_faults[] = {
    {"wgmma pipeline: a stage is given back before its products are done",
     "wgmma.wait_group.sync.aligned 1;  // the tile before", "wgmma.wait_group.sync.aligned 2;",
     finding(missing_wait, "cp.async.bulk.tensor.2d"), "which the wgmma of the warpgroup"},
    {"wgmma pipeline: a stage is free when one of two warpgroups gives it back",
     "mbarrier.init.shared::cta.b64 [%r11], 2;", "mbarrier.init.shared::cta.b64 [%r11], 1;",
     finding(deadlock, "mbarrier.try_wait")},
    {"wgmma pipeline: no warp waits for a free stage",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r70], %r71;  // the stage is free",
     "setp.eq.u32 done, %r71, %r71;", finding(missing_wait, "cp.async.bulk.tensor.2d")},
    {"wgmma pipeline: the products do not wait for the tile",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r15], %r16;  // the tile is here",
     "setp.eq.u32 done, %r16, %r16;", finding(missing_wait, "wgmma.mma_async")},
    {"wgmma pipeline: one warp of four does not wait for the tile",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r15], %r16;  // the tile is here",
     "mov.u32 %r20, %warpid; setp.eq.u32 done, %r20, 2; mov.u32 %r20, 1;\n"
     "@!done mbarrier.try_wait.parity.shared::cta.b64 done, [%r15], %r16;",
     finding(missing_wait, "wgmma.mma_async")},
    {"wgmma pipeline: fence before the products dropped",
     "wgmma.fence.sync.aligned;  // before the products", "",
     finding(missing_fence, "wgmma.mma_async")},
    {"wgmma pipeline: the first product accumulates", "selp.u32 \t%r17, 1, 0, %p6;",
     "mov.u32 \t%r17, 1;", finding(uninitialised_register, "wgmma.mma_async")},
    {"wgmma pipeline: both warpgroups multiply the same rows", "and.b32  \t%r30, %r29, -8192;",
     "and.b32  \t%r30, %r29, 0;", check("the product")},
    {"wgmma pipeline: the descriptors know no swizzle",
     "or.b64  \t%rd6, %rd14, 4611686293305360384;", "or.b64  \t%rd6, %rd14, 0x4000010000;",
     check("the product")},
};

TEST(Mutations, wgmma_ring_is_clean) { expect_clean(wgmma_ring); }
TEST(Mutations, wgmma_ring_faults_are_named) { expect_caught(wgmma_ring, wgmma_faults); }
TEST(Mutations, wgmma_pipeline_is_clean) { expect_clean(wgmma_pipeline); }
TEST(Mutations, wgmma_pipeline_faults_are_named) { expect_caught(wgmma_pipeline, pipeline_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
