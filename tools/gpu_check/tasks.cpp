#include "tasks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <span>
#include <vector>

#include "device_bytes.hpp"
#include "formats/elements.hpp"
#include "matmul_operands.hpp"
#include "matmul_tasks.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"
#include "product_operand.hpp"

namespace microscale::cuda {
namespace {

using bench::MatmulCase;
using bench::ProductKind;

// What a task's generator makes of random bits: a byte of two codes, and a scale.
std::uint8_t codes_of(const std::string& task, std::uint32_t bits) {
  if (task == "gemv") return static_cast<std::uint8_t>(bits % 4);  // the even elements alone
  return static_cast<std::uint8_t>(task == "gemm" ? bits : bits & 0xBB);
}
std::uint8_t scale_of(const std::string& task, std::uint32_t bits) {
  constexpr std::uint8_t whole[] = {0x00, 0x38, 0x40, 0x44};  // 0, 1, 2, 3
  if (task == "gemv") return whole[bits % 3];
  if (task == "gemm") return whole[bits % 4];
  if (task == "group") return whole[1 + bits % 2];
  return E4M3::encode(static_cast<float>(bits % (1u << 20)) * 0x1p-20f, Rounding::nearest_even);
}

// Matrices of `rows` rows each, side by side; scales in both forms.
struct TaskOperand {
  std::vector<std::int64_t> rows;
  std::int64_t k;
  std::vector<std::uint8_t> codes, scales, tiles;

  TaskOperand(const std::string& task, std::vector<std::int64_t> each, std::int64_t length,
              std::mt19937& random)
      : rows(std::move(each)), k(length) {
    for (const std::int64_t count : rows) {
      const BlockShape shape{count, k, Format::nvfp4};
      std::vector<std::uint8_t> own(static_cast<std::size_t>(shape.code_bytes())),
          linear(static_cast<std::size_t>(shape.scale_bytes()));
      for (std::uint8_t& byte : own) byte = codes_of(task, random() >> 4);
      for (std::uint8_t& byte : linear) byte = scale_of(task, random() >> 4);
      BlockShape tiled = shape;
      tiled.layout = Layout::tiled_128x4;
      std::vector<std::uint8_t> in_tiles(static_cast<std::size_t>(tiled.scale_bytes()));
      repack_scales({shape, own, linear}, Layout::tiled_128x4, in_tiles);
      codes.insert(codes.end(), own.begin(), own.end());
      scales.insert(scales.end(), linear.begin(), linear.end());
      tiles.insert(tiles.end(), in_tiles.begin(), in_tiles.end());
    }
  }
  const std::vector<std::uint8_t>& scales_in(Layout layout) const {
    return layout == Layout::row_major ? scales : tiles;
  }
};

// A case's operands on the host.
struct TaskData {
  const MatmulCase& c;
  std::mt19937 random{3};
  std::vector<std::int64_t> a_rows, b_rows;
  TaskOperand a, b, up;
  std::vector<std::int32_t> offsets{0};

  TaskData(const std::string& task, const MatmulCase& of)
      : c(of),
        a_rows(c.kind == ProductKind::grouped
                   ? c.groups
                   : std::vector<std::int64_t>(static_cast<std::size_t>(c.batch), c.m)),
        b_rows(static_cast<std::size_t>(c.matrices()), c.n),
        a(task, a_rows, c.k, random),
        b(task, b_rows, c.k, random),
        up(task, b_rows, c.k, random) {
    for (const std::int64_t rows : c.groups)
      offsets.push_back(offsets.back() + static_cast<std::int32_t>(rows));
  }
};

// Codes and scales, wherever they are, as a case's options want them.
BlockTensorView view_of(std::int64_t rows, std::int64_t k, Layout layout,
                        std::span<const std::uint8_t> codes, std::span<const std::uint8_t> scales,
                        const float* one) {
  BlockTensorView view{{rows, k, Format::nvfp4, BlockAxis::cols, layout}, codes, scales};
  if (one) view = on_device(view), view.global_scale = GlobalScale::on_device(one);
  return view;
}

std::vector<float> on_host(const TaskData& data) {
  const MatmulCase& c = data.c;
  std::vector<float> d(static_cast<std::size_t>(c.rows() * c.n));
  const auto view = [&](const TaskOperand& x, std::int64_t rows) {
    return view_of(rows, c.k, Layout::row_major, x.codes, x.scales, nullptr);
  };
  bench::multiply(c,
                  {.a = view(data.a, c.m),
                   .b = view(data.b, c.n),
                   .up = c.kind == ProductKind::gated ? view(data.up, c.n) : BlockTensorView{},
                   .d = MutableTensorView{d.data(), DType::f32, c.m, c.n, c.n},
                   .offsets = data.offsets.data()},
                  {});
  return d;
}

// Bytes, and room behind them as grouped_scale_bytes wants it.
DeviceBytes upload(Device& device, std::vector<std::uint8_t> bytes, std::int64_t room = 0) {
  bytes.resize(std::max(bytes.size(), static_cast<std::size_t>(room)));
  return {device, bytes};
}

class TaskOnDevice {
 public:
  TaskOnDevice(Device& device, const TaskData& data, Layout layout)
      : device_(device),
        data_(data),
        layout_(layout),
        a_(upload(device, data.a.codes)),
        a_scales_(upload(device, data.a.scales_in(layout), a_room())),
        b_(upload(device, data.b.codes)),
        b_scales_(upload(device, data.b.scales_in(layout))),
        up_(upload(device, data.up.codes)),
        up_scales_(upload(device, data.up.scales_in(layout))),
        one_(upload(device, {0, 0, 0x80, 0x3F})),  // 1.0f
        offsets_(upload(device, bytes_of_offsets())),
        d_(device, data.c.rows() * data.c.n * 2) {}

  /// d, in FP16.
  std::vector<std::uint8_t> run() {
    const MatmulCase& c = data_.c;
    const auto* one = reinterpret_cast<const float*>(one_.data());
    const auto view = [&](std::int64_t rows, const DeviceBytes& codes, const DeviceBytes& scales) {
      return view_of(rows, c.k, layout_, span_of(codes), span_of(scales), one);
    };
    const bench::MatmulOperandsView operands{
        .a = view(c.m, a_, a_scales_),
        .b = view(c.n, b_, b_scales_),
        .up = c.kind == ProductKind::gated ? view(c.n, up_, up_scales_) : BlockTensorView{},
        .d = MutableTensorView{d_.data(), DType::f16, c.m, c.n, c.n, Memory::device},
        .offsets = reinterpret_cast<const std::int32_t*>(offsets_.data())};
    Context context{.backend = Backend::cuda};
    const DeviceBytes workspace(device_, with_options(c, operands, [&](const auto& options) {
                                  return std::max<std::int64_t>(
                                      matmul_workspace_bytes(options, context), 1);
                                }));
    context.workspace = span_of(workspace);
    device_.synchronize(nullptr);  // weights count as constant
    bench::multiply(c, operands, context);
    return d_.to_host();
  }

 private:
  std::int64_t a_room() const {
    const MatmulCase& c = data_.c;
    return c.kind != ProductKind::grouped
               ? 0
               : grouped_scale_bytes(c.m, c.k, c.matrices(), Format::nvfp4, layout_);
  }
  std::vector<std::uint8_t> bytes_of_offsets() const {
    const auto* first = reinterpret_cast<const std::uint8_t*>(data_.offsets.data());
    return {first, first + 4 * data_.offsets.size()};
  }

  Device& device_;
  const TaskData& data_;
  const Layout layout_;
  const DeviceBytes a_, a_scales_, b_, b_scales_, up_, up_scales_, one_, offsets_, d_;
};

}  // namespace

void check_tasks(Device& device, const Scope& scope, EqualityTotals& totals) {
  for (const bench::MatmulTask& task : bench::matmul_tasks(scope.amount != Amount::full))
    for (const MatmulCase& c : task.cases) {
      const TaskData data(task.name, c);
      const std::vector<float> wanted = on_host(data);
      for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
        const std::vector<std::uint8_t> got = TaskOnDevice(device, data, layout).run();
        ++totals.calls;
        totals.elements += std::ssize(wanted);
        for (std::size_t i = 0; i < wanted.size(); ++i) {
          const double want = wanted[i],
                       value = load_dense(got.data(), DType::f16, static_cast<std::int64_t>(i));
          if (std::fabs(value - want) <= 1e-3 + 1e-3 * std::fabs(want)) continue;
          ++totals.failed;
          if (totals.differences.size() < 20)
            totals.differences.push_back(fmt::format(
                "{} {}, scales {}: element {} is {}, on the CPU {}", task.name, c.name,
                layout == Layout::row_major ? "row by row" : "in tiles", i, value, want));
          break;
        }
      }
    }
}

}  // namespace microscale::cuda
