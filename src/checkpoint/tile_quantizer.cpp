#include "checkpoint/tile_quantizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

class HostQuantizer final : public TileQuantizer {
 public:
  explicit HostQuantizer(const TileBufferSizes& sizes)
      : input_(static_cast<std::size_t>(sizes.input)),
        codes_(static_cast<std::size_t>(sizes.codes)),
        scales_(static_cast<std::size_t>(sizes.scales)) {}

  TileBuffers buffers() override { return {input_, codes_, scales_}; }

  float quantize(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                 std::span<std::uint8_t> scales) override {
    return quantize_into(options, codes, scales, {.threads = 1}).value();
  }

 private:
  std::vector<std::uint8_t> input_, codes_, scales_;
};

class WithHost final : public TileQuantizer {
 public:
  using Reason = std::string_view (*)(const QuantizeOptions&);
  WithHost(std::unique_ptr<TileQuantizer> on_gpu, Reason host_only_reason)
      : on_gpu_(std::move(on_gpu)), host_only_reason_(host_only_reason) {}

  TileBuffers buffers() override { return on_gpu_->buffers(); }

  float quantize(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                 std::span<std::uint8_t> scales) override {
    if (!host_only_reason_(options).empty())
      return quantize_into(options, codes, scales, {.threads = 1}).value();
    return on_gpu_->quantize(options, codes, scales);
  }

 private:
  std::unique_ptr<TileQuantizer> on_gpu_;
  Reason host_only_reason_;
};

}  // namespace

std::unique_ptr<TileQuantizer> make_host_quantizer(const TileBufferSizes& sizes) {
  return std::make_unique<HostQuantizer>(sizes);
}

std::unique_ptr<TileQuantizer> with_host_for_the_rest(
    std::unique_ptr<TileQuantizer> on_gpu,
    std::string_view (*host_only_reason)(const QuantizeOptions&)) {
  return std::make_unique<WithHost>(std::move(on_gpu), host_only_reason);
}

TileQuantizerFactory open_quantizers(const QuantizeModelOptions& options) {
  if (options.gpus.empty())
    return [](int, const TileBufferSizes& sizes) { return make_host_quantizer(sizes); };
  const GpuOperations& gpu = gpu_operations("quantize");
  for (const int ordinal : options.gpus) {
    gpu.name_of_gpu(ordinal);  // throws for one without kernels
    gpu.load_kernels(ordinal);
  }
  return [&gpu, gpus = options.gpus](int worker, const TileBufferSizes& sizes) {
    const int ordinal = gpus[static_cast<std::size_t>(worker) % gpus.size()];
    return with_host_for_the_rest(gpu.make_tile_quantizer(ordinal, sizes), gpu.host_only_reason);
  };
}

std::string computed_on(const QuantizeModelOptions& options) {
  if (options.gpus.empty()) return "the CPU";
  const GpuOperations& gpu = gpu_operations("quantize");
  std::string names;
  for (const int ordinal : options.gpus)
    names +=
        fmt::format("{}GPU {} ({})", names.empty() ? "" : ", ", ordinal, gpu.name_of_gpu(ordinal));
  const std::string_view reason =
      gpu.host_only_reason({.input = {}, .format = options.format, .numerics = options.numerics});
  if (!reason.empty()) return fmt::format("the CPU, with the same bytes: {}", reason);
  const bool rows = std::any_of(options.use.begin(), options.use.end(), [](const UseFormat& use) {
    return use.format == WeightFormat::fp8;
  });
  if (rows) names += "; fp8 layers on the CPU";
  if (!options.importance.empty())
    names += "; tensors with a Hessian or importance weights on the CPU";
  return names;
}

}  // namespace microscale
