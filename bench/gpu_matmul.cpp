#include "gpu_matmul.hpp"

#include <algorithm>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/choose.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/kernel_table.hpp"
#include "gpu_timing.hpp"
#include "matmul_operands.hpp"
#include "matmul_peak.hpp"
#include "microscale/error.hpp"
#include "microscale/matmul_plan.hpp"

namespace microscale::cuda {
namespace {

using bench::MatmulCase;
using bench::MatmulOperandsView;
using bench::ProductKind;
using bench::Result;

constexpr std::int64_t past_the_cache = std::int64_t{256} << 20;  // bytes to rotate through

std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

DeviceBytes uploaded(Device& device, const bench::HostMemory& host) {
  DeviceBytes memory(device, static_cast<std::int64_t>(host.size()));
  device.copy_to_device(memory.data(), host.data(), memory.size(), nullptr);
  return memory;
}

class Measurement {
 public:
  Measurement(Device& device, const MatmulCase& c)
      : device_(device),
        case_(c),
        operands_(c),
        input_(uploaded(device, operands_.input())),
        offsets_(device, static_cast<std::int64_t>(operands_.offsets().size()) * 4),
        global_(device, 4),
        output_(device, std::max<std::int64_t>(output_code_bytes(), 16)),
        output_scales_(device, c.quantized ? output_shape().scale_bytes() : 16),
        workspace_(device, 0) {
    device.copy_to_device(offsets_.data(), operands_.offsets().data(), offsets_.size(), nullptr);
    const float global_scale = 0.01f;
    device.copy_to_device(global_.data(), &global_scale, 4, nullptr);
    make_weights();
    device.synchronize(nullptr);
    const std::int64_t bytes = with_options(
        c, view(0), [&](const auto& o) { return matmul_workspace_bytes(o, context(nullptr)); });
    if (bytes > 0) workspace_ = DeviceMemory(device, bytes);
  }

  void run(Result& row) {
    multiply(case_, view(0), context(nullptr));
    device_.synchronize(nullptr);
    if (!case_.quantized) row.error = error();
    const auto sets = static_cast<int>(weights_.size());
    row.seconds = median_seconds(device_, std::max(sets, 4), [&](int i, Stream stream) {
      multiply(case_, view(static_cast<std::size_t>(i % sets)), context(stream));
    });
    constexpr double short_seconds = 200e-6;  // 64 calls of more keep the GPU busy for nothing
    if (row.seconds < short_seconds) add_host_times(row);
  }

 private:
  void add_host_times(Result& row) {
    const MatmulOperandsView operands = view(0);
    const double eager = host_seconds(
        device_, [&](int, Stream stream) { multiply(case_, operands, context(stream)); });
    const double kept = with_options(case_, operands, [&](const auto& options) {
      const MatmulPlan plan(options, context(nullptr));
      return host_seconds(device_, [&](int, Stream stream) { plan.run(options, context(stream)); });
    });
    row.extras.push_back({"host us", "host_microseconds", eager * 1e6});
    row.extras.push_back({"by a plan", "host_microseconds_by_plan", kept * 1e6});
  }

  // DeviceBytes, replaceable.
  class DeviceMemory {
   public:
    DeviceMemory(Device& device, std::int64_t bytes) { bytes_.emplace_back(device, bytes); }
    const DeviceBytes& bytes() const { return bytes_.front(); }

   private:
    std::vector<DeviceBytes> bytes_;
  };

  BlockShape output_shape() const { return {case_.rows(), case_.n, *case_.quantized}; }
  std::int64_t output_code_bytes() const {
    return case_.quantized ? output_shape().code_bytes()
                           : case_.rows() * case_.n * size_of(case_.output);
  }

  Context context(Stream stream) const {
    return {.backend = Backend::cuda, .stream = stream, .workspace = span_of(workspace_.bytes())};
  }

  BlockTensorView weights_at(const DeviceBytes& memory, std::int64_t side) const {
    BlockTensorView view = operands_.weights_in(memory.data(), side);
    view.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global_.data()));
    return on_device(view);
  }

  void make_weights() {
    const auto bytes = static_cast<std::int64_t>(case_.weight_bytes());
    const std::int64_t sets =
        bytes > past_the_cache ? 1 : std::clamp<std::int64_t>(past_the_cache / bytes + 1, 2, 64);
    const DeviceBytes plain = uploaded(device_, operands_.weights());
    PackOptions options{.b = weights_at(plain, 0), .matrices = case_.matrices()};
    if (case_.kind == ProductKind::gated) options.up = weights_at(plain, 1);
    for (std::int64_t i = 0; i < sets; ++i) {
      if (!case_.packed) {
        weights_.emplace_back(device_, plain.size());
        device_.copy_on_device(weights_.back().data(), plain.data(), plain.size(), nullptr);
        continue;
      }
      const Context here = context(nullptr);
      weights_.emplace_back(device_, packed_weights_bytes(options, here));
      const std::span<std::uint8_t> to = span_of(weights_.back());
      packed_.push_back(pack_weights(options, to, here));
    }
    device_.synchronize(nullptr);  // `plain` goes
  }

  MatmulOperandsView view(std::size_t set) const {
    const std::int64_t rows = case_.kind == ProductKind::grouped ? case_.rows() : case_.m;
    MatmulOperandsView view{.a = operands_.input_in(input_.data()),
                            .b = PackedWeights{},
                            .d = MutableTensorView{output_.data(), case_.output, rows, case_.n,
                                                   case_.n, Memory::device},
                            .offsets = reinterpret_cast<const std::int32_t*>(offsets_.data())};
    const auto* global = reinterpret_cast<const float*>(global_.data());
    std::visit([](auto& a) { a.memory = Memory::device; }, view.a);
    if (auto* blocks = std::get_if<BlockTensorView>(&view.a))
      blocks->global_scale = GlobalScale::on_device(global);
    if (case_.quantized)
      view.d = QuantizedOutput{
          .format = *case_.quantized,
          .numerics = {.scale_rule = info(*case_.quantized).e8m0_scale ? ScaleRule::floor
                                                                       : ScaleRule::nearest},
          .global_scale = GlobalScale::on_device(global),
          .codes = span_of(output_),
          .scales = span_of(output_scales_),
          .memory = Memory::device};
    if (case_.packed) {
      view.b = packed_[set];
    } else {
      view.b = weights_at(weights_[set], 0);
      if (case_.kind == ProductKind::gated) view.up = weights_at(weights_[set], 1);
    }
    return view;
  }

  // Matrix units may cut a sum's low bits off: for the random signs of these operands that stays
  // below 2^-13 of the sum of magnitudes, where one wrong element of a sum shows.
  double error() const {
    const double accumulation = (static_cast<double>(case_.k) + 8) * 0x1p-24 + 0x1p-13;
    return worst_sampled_error(case_, operands_, accumulation, [&](std::int64_t index) {
      std::uint16_t bits = 0;
      device_.copy_to_host(&bits, output_.data() + index * 2, 2, nullptr);
      device_.synchronize(nullptr);
      return bits;
    });
  }

  Device& device_;
  const MatmulCase& case_;
  bench::MatmulOperands operands_;
  DeviceBytes input_, offsets_, global_, output_, output_scales_;
  DeviceMemory workspace_;
  std::vector<DeviceBytes> weights_;
  std::vector<PackedWeights> packed_;
};

// A kernel that reads and keeps a maximum: bytes a second of 1 GiB.
double read_bytes_per_second(Device& device) {
  const std::int64_t rows = 32768, cols = 16384;
  const DeviceBytes matrix = random_matrix(device, DType::bf16, rows * cols), result(device, 16);
  device.set_bytes(result.data(), 0, 16, nullptr);
  AbsMaxArgs args{};
  args.input = matrix.data();
  args.rows = rows;
  args.cols = args.row_stride = cols;
  args.amax_bits = reinterpret_cast<std::uint32_t*>(result.data());
  const double seconds = median_seconds(device, 4, [&](int, Stream stream) {
    launch(device, abs_max_kernel(DType::bf16), "bench",
           abs_max_launch(rows, cols, device.info().multiprocessors), args, stream);
  });
  return static_cast<double>(matrix.size()) / seconds;
}

// 0 where no image is for this GPU.
double peak_operations(Device& device, const char* name, int depth) {
  const auto images = bench_images();
  const auto image = std::find_if(images.begin(), images.end(), [&](const KernelImage& i) {
    return i.architecture == architecture_of(device.info());
  });
  if (image == images.end()) return 0;
  constexpr int rounds = 4096;
  const int blocks = device.info().multiprocessors;
  const DeviceBytes sums(device, std::int64_t{4} * blocks * matmul_peak_threads);
  const MatmulPeakArgs args{reinterpret_cast<float*>(sums.data()), rounds};
  const Kernel kernel = device.find_kernel(device.load_image(*image), name);
  const double seconds = median_seconds(device, 4, [&](int, Stream stream) {
    device.launch({.kernel = kernel,
                   .grid = {static_cast<unsigned>(blocks)},
                   .threads = matmul_peak_threads,
                   .stream = stream,
                   .args = &args,
                   .args_bytes = sizeof args});
  });
  return matmul_peak_operations(rounds, depth) * blocks / seconds;
}

}  // namespace

MatmulLimits matmul_limits(Device& device) {
  MatmulLimits limits{.copy = copy_bytes_per_second(device)};
  limits.f16 = peak_operations(device, "matmul_peak_f16", 16);
  limits.fp8 = peak_operations(device, "matmul_peak_e4m3", 32);
  limits.read = std::max(read_bytes_per_second(device), limits.copy);
  limits.empty_node_seconds = empty_node_seconds(device);
  limits.launch_seconds = launch_seconds(device);
  return limits;
}

void measure_matmul(Device& device, const std::vector<MatmulCase>& cases, const std::string& filter,
                    const MatmulLimits& limits, const bench::Watcher& watcher) {
  bench::measure_each(cases, filter, watcher, [&](const MatmulCase& c) {
    Result row{.name = c.name, .bytes = c.bytes(), .operations = c.operations()};
    const double peak = c.fast_accumulation ? limits.fp8 : limits.f16;
    const double read = row.bytes / limits.read, multiply = peak > 0 ? row.operations / peak : 0;
    row.arithmetic = multiply > read || (peak == 0 && c.rows() > 64);
    if (multiply > read)
      row.limit = c.fast_accumulation ? "FP8" : "FP16";
    else if (!row.arithmetic)
      row.limit = "read";
    if (!row.limit.empty()) row.limit_seconds = std::max(read, multiply);
    try {
      Measurement(device, c).run(row);
    } catch (const Error& error) {
      row.problem = error.what();
    }
    return row;
  });
}

}  // namespace microscale::cuda
