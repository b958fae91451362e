#include "races.hpp"

#include <vector>

#include "device_bytes.hpp"
#include "microscale/fused.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"
#include "gpu_timing.hpp"

namespace microscale::cuda {
namespace {

constexpr std::int64_t rows = 160, cols = 544;  // 544: one tile of 512 and an edge; both 32 * n

constexpr Layout layouts[] = {Layout::row_major, Layout::tiled_128x4};

/// Memory for any of the calls, the same for all: what they write is of no interest.
class Launches {
 public:
  Launches(Device& device, DType dtype, Format format)
      : dtype_(dtype),
        format_(format),
        input_(random_matrix(device, dtype, rows * cols)),
        second_(random_matrix(device, dtype, rows * cols)),
        sum_(device, rows * cols * 4),
        outputs_{{device, room}, {device, room}, {device, room}, {device, room}},
        globals_(device, bytes_of_floats({0.01f, 0.02f, 0.03f})),
        offsets_(device, bytes_of_offsets({0, 5, 149, 160})) {}

  std::int64_t run(bool search) {
    Numerics numerics;
    if (!search)
      numerics.scale_rule = format_ == Format::nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
    for (const Layout layout : layouts) {
      quantize(layout, BlockAxis::cols, numerics);
      quantize(layout, BlockAxis::rows, numerics);
      both(layout, numerics);
      grouped(layout, numerics);
      fused(layout, numerics);
      if (search) continue;
      Numerics away = numerics;  // the general kernels
      away.rounding = Rounding::nearest_away;
      quantize(layout, BlockAxis::cols, away);
      quantize(layout, BlockAxis::rows, away);
      back(layout);
    }
    return calls_;
  }

 private:
  static constexpr std::int64_t room = 2 * rows * cols;

  static std::vector<std::uint8_t> bytes_of_floats(const std::vector<float>& values) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(float)};
  }
  static std::vector<std::uint8_t> bytes_of_offsets(const std::vector<std::int32_t>& values) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(values.data());
    return {first, first + values.size() * sizeof(std::int32_t)};
  }

  TensorView view(const DeviceBytes& memory) const {
    return {memory.data(), dtype_, rows, cols, cols, Memory::device};
  }
  std::span<std::uint8_t> output(int which, std::int64_t bytes) const {
    return {outputs_[which].data(), static_cast<std::size_t>(bytes)};
  }
  const float* global() const { return reinterpret_cast<const float*>(globals_.data()); }
  BlockShape shape(Layout layout, BlockAxis axis) const {
    return {rows, cols, format_, axis, layout};
  }

  QuantizeOptions options(Layout layout, BlockAxis axis, const Numerics& numerics) const {
    QuantizeOptions o;
    o.input = view(input_);
    o.format = format_;
    o.numerics = numerics;
    o.axis = axis;
    o.layout = layout;
    if (format_ == Format::nvfp4)  // amax pass and all
      o.computed_global_scale = reinterpret_cast<float*>(sum_.data());
    return o;
  }

  void quantize(Layout layout, BlockAxis axis, const Numerics& numerics) {
    const BlockShape s = shape(layout, axis);
    quantize_into(options(layout, axis, numerics), output(0, s.code_bytes()),
                  output(1, s.scale_bytes()), context_);
    ++calls_;
  }

  void both(Layout layout, const Numerics& numerics) {
    const BlockShape r = shape(layout, BlockAxis::cols), c = shape(layout, BlockAxis::rows);
    quantize_both_into(options(layout, BlockAxis::cols, numerics), output(0, r.code_bytes()),
                       output(1, r.scale_bytes()), output(2, c.code_bytes()),
                       output(3, c.scale_bytes()), context_);
    ++calls_;
  }

  void grouped(Layout layout, const Numerics& numerics) {
    GroupedQuantizeOptions o;
    o.input = view(input_);
    o.groups = {offsets_.data(), OffsetType::i32, 3};
    o.format = format_;
    o.numerics = numerics;
    o.layout = layout;
    if (format_ == Format::nvfp4)
      o.global_scale = GlobalScale::per_expert(global(), Memory::device);
    grouped_quantize_into(o, output(0, shape(layout, BlockAxis::cols).code_bytes()),
                          output(1, grouped_scale_bytes(rows, cols, 3, format_, layout)), context_);
    ++calls_;
  }

  void fused(Layout layout, const Numerics& numerics) {
    const BlockShape s = shape(layout, BlockAxis::cols);
    QuantizedOutput out{.format = format_, .numerics = numerics, .layout = layout};
    if (format_ == Format::nvfp4) out.global_scale = GlobalScale::on_device(global());
    out.memory = Memory::device;
    out.codes = output(0, s.code_bytes());
    out.scales = output(1, s.scale_bytes());
    silu_mul_quantize_into({view(input_), view(second_), out}, context_);
    hadamard_quantize_into({view(input_), 32, {}, out}, context_);
    RmsNormOptions norm{view(input_), second_.data(), 1e-5f, {}, {}, out};
    rms_norm_quantize_into(norm, context_);
    norm.residual = view(second_);
    norm.sum = {sum_.data(), dtype_, rows, cols, cols, Memory::device};
    rms_norm_quantize_into(norm, context_);
    calls_ += 4;
  }

  void back(Layout layout) {
    const BlockShape s = shape(layout, BlockAxis::cols);
    BlockTensorView packed{s, output(0, s.code_bytes()), output(1, s.scale_bytes())};
    packed.memory = Memory::device;
    packed.global_scale = GlobalScale::on_device(global());
    dequantize(packed, {sum_.data(), dtype_, rows, cols, cols, Memory::device}, context_);
    const Layout other = layout == Layout::row_major ? Layout::tiled_128x4 : Layout::row_major;
    repack_scales(packed, other, output(2, shape(other, BlockAxis::cols).scale_bytes()), context_);
    calls_ += 2;
  }

  DType dtype_;
  Format format_;
  DeviceBytes input_, second_, sum_;
  DeviceBytes outputs_[4];  // codes and scales, twice
  DeviceBytes globals_, offsets_;
  Context context_{.backend = Backend::cuda};
  std::int64_t calls_ = 0;
};

}  // namespace

std::int64_t launch_each_kernel(Device& device) {
  std::int64_t calls = 0;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Format format :
         {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
      for (const bool search : {false, true}) calls += Launches(device, dtype, format).run(search);
  device.synchronize(nullptr);
  return calls;
}

}  // namespace microscale::cuda
