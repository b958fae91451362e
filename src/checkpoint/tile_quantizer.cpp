#include "checkpoint/tile_quantizer.hpp"

#include <fmt/format.h>

#include <vector>

#include "checkpoint/device_tile_quantizer.hpp"
#include "cuda/device/kernels.hpp"
#include "microscale/error.hpp"

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
    return quantize_into(options, codes, scales, {.threads = 1});
  }

 private:
  std::vector<std::uint8_t> input_, codes_, scales_;
};

// The GPU of that number, if kernels are built for it.
cuda::Device& usable_gpu(int ordinal) {
  cuda::Device& device = cuda::runtime_device(ordinal);
  const cuda::DeviceInfo& gpu = device.info();
  if (cuda::architecture_of(gpu).empty())
    throw Error(ErrorCode::unsupported,
                fmt::format("quantize: GPU {} ({}) has compute capability {}.{}; there are kernels "
                            "for 9.0, 10.x and 12.x, so choose another GPU or --device cpu",
                            ordinal, gpu.name, gpu.major, gpu.minor));
  return device;
}

}  // namespace

std::unique_ptr<TileQuantizer> make_host_quantizer(const TileBufferSizes& sizes) {
  return std::make_unique<HostQuantizer>(sizes);
}

TileQuantizerFactory open_quantizers(const QuantizeModelOptions& options) {
  if (options.gpus.empty())
    return [](int, const TileBufferSizes& sizes) { return make_host_quantizer(sizes); };
  std::vector<cuda::Device*> devices;
  for (const int ordinal : options.gpus) {
    devices.push_back(&usable_gpu(ordinal));
    devices.back()->make_current();
    cuda::load_all_kernels(*devices.back());
  }
  return [devices](int worker, const TileBufferSizes& sizes) {
    return make_device_quantizer(*devices[static_cast<std::size_t>(worker) % devices.size()],
                                 sizes);
  };
}

std::string computed_on(const QuantizeModelOptions& options) {
  if (options.gpus.empty()) return "the CPU";
  std::string names;
  for (const int ordinal : options.gpus) {
    const cuda::DeviceInfo& gpu = usable_gpu(ordinal).info();
    names += fmt::format("{}GPU {} ({}, {})", names.empty() ? "" : ", ", ordinal, gpu.name,
                         cuda::architecture_of(gpu));
  }
  const std::string_view reason =
      host_only_reason({.input = {}, .format = options.format, .numerics = options.numerics});
  if (!reason.empty()) return fmt::format("the CPU, with the same bytes: {}", reason);
  if (!options.importance.empty()) names += "; tensors with importance weights on the CPU";
  return names;
}

}  // namespace microscale
