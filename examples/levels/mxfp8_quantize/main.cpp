// MXFP8 from one loop over K to the shipped kernel: checks every level against the CPU, then times
// it.
#include <cstdio>
#include <exception>

#include "../quantize_runs.hpp"
#include "ladder.hpp"

namespace {

using namespace levels;
using namespace microscale;

constexpr std::int64_t side = 16384;

std::vector<Level> ladder() {
  std::vector<Level> all{loop_over_k_level(), grid_split_over_k_level()};
  for (const Level& level : cp_async_stages_levels()) all.push_back(level);
  all.push_back(bulk_load_level());
  for (const Level& level : word_scales_levels()) all.push_back(level);
  return all;
}

/// Row-major scales and a second kernel that moves them into tiles, as one case.
Case repacked(const Level& rows, const Level& repack, const SharedBuffers& buffers) {
  const auto scales = std::make_shared<DeviceArray>(buffers->problem.shape().scale_bytes());
  Case c = level_case(rows, buffers);
  c.name = "row-major scales, then repack";
  c.launches = 2;
  c.occupancy = 0;
  c.run = [=](int set, cudaStream_t stream) {
    Args first = buffers->args(set), second = first;
    first.scales = second.codes = scales->data();
    launch(rows, first, stream);
    launch(repack, second, stream);
  };
  return c;
}

/// Row-major scales of odd shapes against the CPU's tiles, through the repack level.
void check_repack(const Level& rows, const Level& repack) {
  for (const auto& [r, c] : {std::pair{129, 160}, {300, 2080}, {256, 4096}}) {
    const Problem p{Format::mxfp8_e4m3, ScaleRule::rceil, DType::bf16, r, c, true};
    const auto buffers = buffers_for(p, 1);
    repacked(rows, repack, buffers).run(0, nullptr);
    const auto input = buffers->inputs[0].to_host();
    const BlockTensor want = quantize({.input = {input.data(), p.input, p.rows, p.cols, p.cols},
                                       .format = p.format,
                                       .numerics = {.scale_rule = p.rule},
                                       .layout = Layout::tiled_128x4});
    compare("repack, scales", buffers->scales[0].to_host(), want.scales());
    compare("repack, codes", buffers->codes[0].to_host(), want.codes());
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Bench bench(argc, argv);
  const Level rows = row_major_level(), repack = repack_level();
  if (!bench.profiling()) {
    for (const Level& level : ladder()) check_level(level, Format::mxfp8_e4m3, ScaleRule::rceil);
    check_level(rows, Format::mxfp8_e4m3, ScaleRule::rceil);
    check_repack(rows, repack);
    std::printf("%zu levels give the CPU's bytes\n", ladder().size() + 2);
  }
  if (bench.checking_only()) return 0;
  const SharedBuffers buffers =
      buffers_for({Format::mxfp8_e4m3, ScaleRule::rceil, DType::bf16, side, side, true});
  bench.table("BF16 16384 x 16384 to MXFP8 (E4M3), scales in 128x4 tiles");
  for (const Level& level : ladder()) bench.row(level_case(level, buffers));
  bench.row(shipped_case(buffers));
  bench.table("The scales' way into the tiles: 128 threads, written there (above) or repacked");
  bench.row(level_case(rows, buffers));
  bench.row(repacked(rows, repack, buffers));
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_mxfp8_quantize: %s\n", error.what());
  return 1;
}
