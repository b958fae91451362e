#include "quantize_runs.hpp"

#include <bit>
#include <cstdio>
#include <cstring>
#include <random>
#include <stdexcept>

#include "cuda/quantize/choose.hpp"
#include "cuda/device/kernels.hpp"
#include "formats/half.hpp"

namespace levels {

using namespace microscale;

namespace {

void store(std::vector<std::uint8_t>& to, DType type, std::int64_t i, float value) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (type == DType::f16) bits = float_to_f16(value);
  if (type == DType::bf16) bits = float_to_bf16(value);
  std::memcpy(to.data() + i * size_of(type), &bits, static_cast<std::size_t>(size_of(type)));
}

Layout layout_of(const Problem& p) { return p.tiled ? Layout::tiled_128x4 : Layout::row_major; }

}  // namespace

BlockShape Problem::shape() const {
  return {rows, cols, format, BlockAxis::cols, layout_of(*this)};
}

std::vector<std::uint8_t> weights(DType type, std::int64_t elements) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(elements * size_of(type)));
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  for (std::int64_t i = 0; i < elements; ++i) store(bytes, type, i, normal(generator));
  return bytes;
}

std::vector<std::uint8_t> every_kind(DType type, std::int64_t elements) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(elements * size_of(type)));
  std::mt19937 generator(2);
  const std::uint32_t exponents = type == DType::f32   ? 0x7F800000u
                                  : type == DType::f16 ? 0x7C00u
                                                       : 0x7F80u;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint32_t random = generator();
    switch (i / 32 % 4) {
      case 0: {  // any bits but NaN and infinity
        std::uint32_t bits = generator();
        if ((bits & exponents) == exponents) bits &= ~(exponents / 2);
        std::memcpy(bytes.data() + i * size_of(type), &bits,
                    static_cast<std::size_t>(size_of(type)));
        break;
      }
      case 1:  // quarters up to 8, either sign
        store(bytes, type, i, (static_cast<float>(random % 65) - 32) / 4);
        break;
      case 2:  // the same, far smaller
        store(bytes, type, i, (static_cast<float>(random % 65) - 32) * 0x1p-12f);
        break;
      default:  // zeros, subnormals
        store(bytes, type, i, i / 128 % 2 ? static_cast<float>(random % 32) * 0x1p-24f : 0.0f);
    }
  }
  return bytes;
}

Buffers::Buffers(const Problem& p, int count) : problem(p), global(4) {
  const auto pattern =
      weights(p.input, std::min<std::int64_t>(p.rows * p.cols, std::int64_t{1} << 20));
  for (int i = 0; i < count; ++i) {
    inputs.emplace_back(p.input_bytes()).fill_with(pattern);
    codes.emplace_back(p.shape().code_bytes());
    scales.emplace_back(p.shape().scale_bytes()).set(0);
  }
  check(cudaMemcpy(global.data(), &nvfp4_global, 4, cudaMemcpyHostToDevice),
        "copying to the device");
}

Args Buffers::args(int set) const {
  const auto s = static_cast<std::size_t>(set);
  return {inputs[s].data(), problem.rows,     problem.cols,
          codes[s].data(),  scales[s].data(), nvfp4_global};
}

SharedBuffers buffers_for(const Problem& p) { return buffers_for(p, sets_past_cache(p.bytes())); }
SharedBuffers buffers_for(const Problem& p, int count) {
  return std::make_shared<Buffers>(p, count);
}

Case level_case(const Level& level, const SharedBuffers& b) {
  return {level.name,
          b->problem.bytes(),
          b->problem.rows * b->problem.cols,
          occupancy(level.kernel, level.threads),
          static_cast<int>(b->inputs.size()),
          [level, b](int set, cudaStream_t stream) { launch(level, b->args(set), stream); }};
}

Case shipped_case(const SharedBuffers& b) {
  const Problem& p = b->problem;
  const Numerics numerics{.scale_rule = p.rule};
  const auto kernel =
      cuda::quantize_kernel(p.format, p.input, cuda::kernel_mode(p.format, numerics), layout_of(p));
  return {"shipped kernel",
          p.bytes(),
          p.rows * p.cols,
          occupancy(cuda::entry_kernel(cuda::runtime_device(), kernel, "levels"), 256),
          static_cast<int>(b->inputs.size()),
          [b, numerics](int set, cudaStream_t stream) {
            const auto s = static_cast<std::size_t>(set);
            const Problem& q = b->problem;
            const auto span = [](const DeviceArray& a) {
              return std::span<std::uint8_t>(a.data(), static_cast<std::size_t>(a.size()));
            };
            QuantizeOptions options{
                .input = {b->inputs[s].data(), q.input, q.rows, q.cols, q.cols, Memory::device},
                .format = q.format,
                .numerics = numerics,
                .layout = layout_of(q)};
            if (q.format == Format::nvfp4)
              options.global_scale =
                  GlobalScale::on_device(reinterpret_cast<const float*>(b->global.data()));
            quantize_into(options, span(b->codes[s]), span(b->scales[s]),
                          {.backend = Backend::cuda, .stream = stream});
          }};
}

void compare(const std::string& name, const std::vector<std::uint8_t>& got,
             std::span<const std::uint8_t> want) {
  if (got.size() != want.size()) throw std::runtime_error(name + ": sizes differ");
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    char text[96];
    std::snprintf(text, sizeof text, ": byte %zu of %zu is 0x%02X, the CPU says 0x%02X", i,
                  got.size(), got[i], want[i]);
    throw std::runtime_error(name + text);
  }
}

void check_level(const Level& level, Format format, ScaleRule rule) {
  for (const auto& [rows, cols] :
       {std::pair{1, 32}, {7, 96}, {129, 160}, {300, 2080}, {256, 4096}}) {
    const Problem p{format, rule, level.input, rows, cols, level.tiled};
    const std::vector<std::uint8_t> values = every_kind(p.input, p.rows * p.cols);
    QuantizeOptions options{.input = {values.data(), p.input, p.rows, p.cols, p.cols},
                            .format = format,
                            .numerics = {.scale_rule = rule, .rounding = level.rounding},
                            .layout = layout_of(p)};
    if (format == Format::nvfp4) options.global_scale = nvfp4_global;
    const BlockTensor want = quantize(options);

    const Buffers buffers(p, 1);
    buffers.inputs[0].fill_with(values);
    buffers.codes[0].set(0xA5);
    launch(level, buffers.args(0), nullptr);
    compare(level.name + ", scales", buffers.scales[0].to_host(), want.scales());
    compare(level.name + ", codes", buffers.codes[0].to_host(), want.codes());
  }
}

}  // namespace levels
