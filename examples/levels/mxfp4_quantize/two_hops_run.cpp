#include "two_hops_run.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "ladder.hpp"

namespace levels {
namespace {

using namespace microscale;

// A power of two that brings weights() (largest about 0.1) below 448.
constexpr float to_fp8 = 4096.0f;

/// One run: set `set` of `b` through `fp8`.
void run(const std::vector<Level>& hops, const Buffers& b, const DeviceArray& fp8, int set,
         cudaStream_t stream) {
  Args first = b.args(set), second = first;
  first.codes = fp8.data();
  second.input = fp8.data();
  first.global_scale = second.global_scale = to_fp8;
  launch(hops[0], first, stream);
  launch(hops[1], second, stream);
}

/// What the CPU says, hop by hop.
BlockTensor on_cpu(const std::vector<std::uint8_t>& halves, std::int64_t rows, std::int64_t cols) {
  std::vector<float> values(halves.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, halves.data() + 2 * i, 2);
    values[i] =
        E4M3::decode(E4M3::encode(f16_to_float(bits) * to_fp8, Rounding::nearest_even)) / to_fp8;
  }
  return quantize({.input = {values.data(), DType::f32, rows, cols, cols},
                   .format = Format::mxfp4,
                   .numerics = {.scale_rule = ScaleRule::floor}});
}

void check_and_count(const std::vector<Level>& hops) {
  const Problem p{Format::mxfp4, ScaleRule::floor, DType::f16, 1024, 1024};
  const Buffers b(p, 1);
  const DeviceArray fp8(p.rows * p.cols);
  run(hops, b, fp8, 0, nullptr);
  const auto halves = b.inputs[0].to_host(), two = b.codes[0].to_host(),
             scales = b.scales[0].to_host();
  const BlockTensor want = on_cpu(halves, p.rows, p.cols);
  compare("two hops, scales", scales, want.scales());
  compare("two hops, codes", two, want.codes());

  const BlockTensor one = quantize({.input = {halves.data(), DType::f16, p.rows, p.cols, p.cols},
                                    .format = Format::mxfp4,
                                    .numerics = {.scale_rule = ScaleRule::floor}});
  std::int64_t codes = 0, blocks = 0;
  for (std::size_t i = 0; i < two.size(); ++i) {
    const int differ = two[i] ^ one.codes()[i];
    codes += ((differ & 15) != 0) + (differ >> 4 != 0);
  }
  for (std::size_t i = 0; i < scales.size(); ++i) blocks += scales[i] != one.scales()[i];
  std::printf("\nTwo hops against one: %lld of %lld codes differ (%.2f %%), %lld of %zu scales\n",
              static_cast<long long>(codes), static_cast<long long>(p.rows * p.cols),
              100.0 * static_cast<double>(codes) / static_cast<double>(p.rows * p.cols),
              static_cast<long long>(blocks), scales.size());
}

}  // namespace

void two_hops(const Bench& bench, const SharedBuffers& b) {
  const std::vector<Level> hops = two_hop_levels();
  const Problem& p = b->problem;
  const auto fp8 = std::make_shared<DeviceArray>(p.rows * p.cols);
  if (!bench.profiling()) check_and_count(hops);
  bench.table("FP16 to MXFP4 by way of FP8, 64 Mi elements; TB/s counts the detour's bytes");
  bench.row({.name = "two hops",
             .bytes = p.bytes() + 2 * p.rows * p.cols,
             .elements = p.rows * p.cols,
             .occupancy = 0,
             .sets = static_cast<int>(b->inputs.size()),
             .run = [=](int set, cudaStream_t stream) { run(hops, *b, *fp8, set, stream); },
             .launches = 2});
}

}  // namespace levels
