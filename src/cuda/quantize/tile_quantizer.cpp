#include "cuda/operations.hpp"

#include <fmt/format.h>

#include <cstring>

#include "cuda/device/operands.hpp"
#include "formats/compat.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

std::size_t size(std::int64_t bytes) { return static_cast<std::size_t>(bytes); }

// A pinned host allocation and its mirror on the device: input, codes, scales, global scale.
class DeviceQuantizer final : public TileQuantizer {
 public:
  DeviceQuantizer(Device& device, const TileBufferSizes& sizes)
      : device_(device),
        sizes_(sizes),
        codes_at_(cuda::padded(sizes.input)),
        scales_at_(codes_at_ + cuda::padded(sizes.codes)),
        global_at_(scales_at_ + cuda::padded(sizes.scales)) {
    device.make_current();
    const std::int64_t bytes = global_at_ + std::int64_t{sizeof(float)};
    try {
      host_ = static_cast<std::uint8_t*>(device.allocate_host(bytes));
      there_ = static_cast<std::uint8_t*>(device.allocate(bytes));
      stream_ = device.make_stream();
    } catch (const Error& error) {
      release();
      if (error.code() != ErrorCode::out_of_memory) throw;
      throw Error(ErrorCode::out_of_memory,
                  fmt::format("quantize: GPU {} ({}) has no room for the {} bytes of one more "
                              "worker; free device memory, choose another GPU, or lower --threads "
                              "({})",
                              device.info().ordinal, device.info().name, bytes, error.what()));
    }
  }
  DeviceQuantizer(const DeviceQuantizer&) = delete;
  DeviceQuantizer& operator=(const DeviceQuantizer&) = delete;
  ~DeviceQuantizer() override { release(); }

  TileBuffers buffers() override {
    return {{host_, size(sizes_.input)},
            {host_ + codes_at_, size(sizes_.codes)},
            {host_ + scales_at_, size(sizes_.scales)}};
  }

  float quantize(const QuantizeOptions& options, std::span<std::uint8_t> codes,
                 std::span<std::uint8_t> scales) override {
    device_.make_current();
    const TensorView& in = options.input;
    device_.copy_to_device(there_, in.data,
                           ((in.rows - 1) * in.row_stride + in.cols) * size_of(in.dtype), stream_);
    QuantizeOptions there = options;
    there.input.data = there_;
    there.input.memory = Memory::device;
    float global_scale = 1.0f;
    if (options.format == Format::nvfp4) {
      global_scale = tool_global(options.numerics.compat, *options.tensor_amax, in.dtype).decode;
      if (global_scale != global_on_device_) {
        std::memcpy(host_ + global_at_, &global_scale, sizeof global_scale);
        device_.copy_to_device(there_ + global_at_, host_ + global_at_, sizeof global_scale,
                               stream_);
        global_on_device_ = global_scale;
      }
      there.tensor_amax.reset();
      there.global_scale =
          GlobalScale::on_device(reinterpret_cast<const float*>(there_ + global_at_));
    }
    const std::span codes_there(there_ + codes_at_, codes.size());
    const std::span scales_there(there_ + scales_at_, scales.size());
    cuda::quantize(device_, there, codes_there, scales_there, stream_);
    device_.copy_to_host(codes.data(), codes_there.data(), static_cast<std::int64_t>(codes.size()),
                         stream_);
    device_.copy_to_host(scales.data(), scales_there.data(),
                         static_cast<std::int64_t>(scales.size()), stream_);
    device_.synchronize(stream_);
    return global_scale;
  }

 private:
  void release() noexcept {
    if (stream_) device_.release_stream(stream_);
    if (there_) device_.release(there_);
    if (host_) device_.release_host(host_);
  }

  Device& device_;
  const TileBufferSizes sizes_;
  const std::int64_t codes_at_, scales_at_, global_at_;  // bytes from the start of either buffer
  std::uint8_t* host_ = nullptr;
  std::uint8_t* there_ = nullptr;
  Stream stream_ = nullptr;
  float global_on_device_ = 0.0f;  // no global scale is 0
};

}  // namespace

std::unique_ptr<TileQuantizer> make_tile_quantizer(Device& device, const TileBufferSizes& sizes) {
  return std::make_unique<DeviceQuantizer>(device, sizes);
}

std::string_view host_only_reason(const QuantizeOptions& options) {
  if (!options.weights.empty()) return "GPUs take no importance weights";
  if (options.numerics.compat != Compat::none && options.numerics.compat != Compat::ocp)
    return "GPUs do not follow the profiles of other tools";
  switch (options.format) {
    case Format::mxfp4:
    case Format::nvfp4:
    case Format::mxfp8_e4m3:
    case Format::mxfp8_e5m2:
      return {};
    default:
      return "GPUs have no kernels for this format";
  }
}

}  // namespace microscale::cuda
