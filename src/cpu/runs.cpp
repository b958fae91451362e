#include "cpu/runs.hpp"

#include <array>
#include <bit>
#include <cstring>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"
#include "formats/nvfp4.hpp"
#include "formats/random.hpp"

namespace microscale::cpu {
namespace {

constexpr int max_group = 16;  // blocks
constexpr int max_block = 32;  // elements

// A call this large is one work item of a tensor that is past the caches; what it writes is not
// read soon.
constexpr std::int64_t stream_bytes = 64 * 1024;

std::uint8_t* advance(const void* data, std::int64_t bytes) {
  return const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(data)) + bytes;
}

}  // namespace

namespace {

void quantize_to_nearest(const QuantizeLines& call, int group, QuantizeKernel kernel) {
  const FormatInfo& format = info(call.format);
  const std::int64_t element = size_of(call.input_type), block_input = format.block * element,
                     block_codes = code_bytes(format, format.block);
  std::int64_t lines = call.lines, blocks = call.blocks;
  const bool joined = call.input_stride == blocks * format.block && call.scale_stride == blocks &&
                      call.code_stride == blocks * block_codes && !call.weights;
  if (joined) {  // lines without gaps are one line
    blocks *= lines;
    lines = blocks > 0 ? 1 : 0;
  }
  const bool stream = lines * blocks * block_codes >= stream_bytes;
  const std::int64_t whole = blocks / group * group, rest = blocks - whole;
  for (std::int64_t line = 0; line < lines; ++line) {
    const QuantizeRun run{.call = &call,
                          .input = advance(call.input, line * call.input_stride * element),
                          .weights = call.weights,
                          .codes = call.codes + line * call.code_stride,
                          .scales = call.scales + line * call.scale_stride,
                          .blocks = whole,
                          .stream = stream};
    if (whole > 0) kernel(run);
    if (rest == 0) continue;
    alignas(64) std::array<std::uint8_t, max_group * max_block * 4> input{};
    alignas(64) std::array<float, max_group * max_block> weights{};
    alignas(64) std::array<std::uint8_t, max_group * max_block> codes;
    std::array<std::uint8_t, max_group> scales;
    std::memcpy(input.data(), advance(run.input, whole * block_input),
                static_cast<std::size_t>(rest * block_input));
    if (call.weights)
      std::memcpy(weights.data(), call.weights + whole * format.block,
                  static_cast<std::size_t>(rest * format.block) * sizeof(float));
    kernel({.call = &call,
            .input = input.data(),
            .weights = call.weights ? weights.data() : nullptr,
            .codes = codes.data(),
            .scales = scales.data(),
            .blocks = group,
            .stream = false});
    std::memcpy(run.codes + whole * block_codes, codes.data(),
                static_cast<std::size_t>(rest * block_codes));
    std::memcpy(run.scales + whole, scales.data(), static_cast<std::size_t>(rest));
  }
}

// Lines whose elements have keys of their own, or lie too far apart, are the reference's.
void round_stochastically(const QuantizeLines& call, StochasticKernel kernel) {
  const FormatInfo& format = info(call.format);
  std::array<float, 256> multipliers;
  for (int s = 0; s < 256; ++s) {
    const auto scale = static_cast<std::uint8_t>(s);
    float& multiplier = multipliers[static_cast<std::size_t>(s)];
    multiplier =
        format.e8m0_scale ? inverse_e8m0(scale) : nvfp4_multiplier(scale, call.global_scale);
    if (scale == (format.e8m0_scale ? e8m0_nan : nvfp4_nan_scale)) multiplier = canonical_nan();
  }
  const auto elements = static_cast<std::uint64_t>(call.blocks * format.block);
  constexpr std::uint64_t too_far = std::uint64_t{1} << 27;
  for (std::int64_t line = 0; line < call.lines && elements > 0; ++line) {
    QuantizeLines one = call;
    one.lines = 1;
    one.input = advance(call.input, line * call.input_stride * size_of(call.input_type));
    one.codes += line * call.code_stride;
    one.scales += line * call.scale_stride;
    one.first_index += static_cast<std::uint64_t>(line) * call.index_line_stride;
    const std::uint64_t last = one.first_index + (elements - 1) * call.index_step;
    if (call.index_step >= too_far || one.first_index >> 33 != last >> 33) {
      reference_kernels.quantize(one);
      continue;
    }
    kernel({.input = one.input,
            .multipliers = multipliers.data(),
            .scales = one.scales,
            .codes = one.codes,
            .blocks = call.blocks,
            .first_index = one.first_index,
            .index_step = static_cast<std::uint32_t>(call.index_step),
            .key = random_key(call.numerics.seed, one.first_index)});
  }
}

}  // namespace

void quantize_runs(const QuantizeLines& call, int group, QuantizeKernel kernel,
                   StochasticKernel stochastic) {
  if (call.numerics.rounding != Rounding::stochastic)
    return quantize_to_nearest(call, group, kernel);
  QuantizeLines nearest = call;
  nearest.numerics.rounding = Rounding::nearest_even;
  quantize_to_nearest(nearest, group, kernel);
  round_stochastically(call, stochastic);
}

void requantize(const QuantizeRun& run, std::int64_t first, std::uint64_t mask) {
  const FormatInfo& format = info(run.call->format);
  QuantizeLines call = *run.call;
  call.lines = call.blocks = 1;
  for (; mask != 0; mask &= mask - 1) {
    const std::int64_t block = first + std::countr_zero(mask);
    call.input = advance(run.input, block * format.block * size_of(call.input_type));
    call.weights = run.weights ? run.weights + block * format.block : nullptr;
    call.codes = run.codes + code_bytes(format, block * format.block);
    call.scales = run.scales + block;
    reference_kernels.quantize(call);
  }
}

float nvfp4_factor(float global_scale) { return nvfp4_scale_factor(global_scale); }
std::uint8_t mxint8_scale(ScaleRule rule, float amax) { return e8m0_from_amax<Int8>(rule, amax); }

void dequantize_runs(const DequantizeLines& call, int group, DequantizeKernel kernel) {
  const FormatInfo& format = info(call.format);
  const std::int64_t block_output = format.block * size_of(call.output_type),
                     block_codes = code_bytes(format, format.block);
  std::array<float, 256> steps;
  for (int s = 0; s < 256; ++s) {
    const auto scale = static_cast<std::uint8_t>(s);
    steps[static_cast<std::size_t>(s)] =
        format.e8m0_scale ? decode_e8m0(scale) : nvfp4_step(scale, call.global_scale);
  }
  std::int64_t lines = call.lines, blocks = call.blocks;
  if (call.output_stride == blocks * format.block && call.scale_stride == blocks &&
      call.code_stride == blocks * block_codes) {
    blocks *= lines;
    lines = blocks > 0 ? 1 : 0;
  }
  const bool stream = !call.read_soon && lines * blocks * block_output >= stream_bytes;
  const std::int64_t whole = blocks / group * group, rest = blocks - whole;
  for (std::int64_t line = 0; line < lines; ++line) {
    const DequantizeRun run{
        .codes = call.codes + line * call.code_stride,
        .scales = call.scales + line * call.scale_stride,
        .steps = steps.data(),
        .output = advance(call.output, line * call.output_stride * size_of(call.output_type)),
        .blocks = whole,
        .stream = stream};
    if (whole > 0) kernel(run);
    if (rest == 0) continue;
    alignas(64) std::array<std::uint8_t, max_group * max_block> codes{};
    std::array<std::uint8_t, max_group> scales{};
    alignas(64) std::array<std::uint8_t, max_group * max_block * 4> output;
    std::memcpy(codes.data(), run.codes + whole * block_codes,
                static_cast<std::size_t>(rest * block_codes));
    std::memcpy(scales.data(), run.scales + whole, static_cast<std::size_t>(rest));
    kernel({.codes = codes.data(),
            .scales = scales.data(),
            .steps = steps.data(),
            .output = output.data(),
            .blocks = group,
            .stream = false});
    std::memcpy(advance(run.output, whole * block_output), output.data(),
                static_cast<std::size_t>(rest * block_output));
  }
}

}  // namespace microscale::cpu
