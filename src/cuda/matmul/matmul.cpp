#include "cuda/matmul/matmul.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "cuda/device/launch.hpp"
#include "cuda/matmul/blackwell.hpp"
#include "cuda/matmul/fallback/launch.hpp"
#include "cuda/matmul/in_registers/launch.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/quantize/operations.hpp"
#include "layouts/fragment_tiles.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda {
namespace {

void check_formats(const MatmulCall& call) {
  if (call.k() == 0)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: backend cuda multiplies rows of one block or more, k is 0 here; d is "
                    "the bias then, which a CPU backend stores",
                    call.operation));
  const auto check = [&](const char* name, Format format) {
    if (!has_kernels(format))
      throw Error(ErrorCode::unsupported,
                  fmt::format("{}: backend cuda multiplies MXFP4, NVFP4 and MXFP8, {} is {}; use "
                              "one of these, or a CPU backend",
                              call.operation, name, info(format).name));
  };
  check("b", call.b_shape().format);
  if (const BlockTensorView* a = call.a_blocks())
    check("a", a->shape.format);
  else if (call.a_dense()->dtype == DType::f32)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda multiplies a of BF16 and FP16, this one is FP32; "
                            "round it to BF16, or quantize it",
                            call.operation));
}

// Rows of a and d of all matrices.
std::int64_t all_rows(const MatmulCall& call) {
  return call.groups ? call.rows() : call.rows() * call.matrices;
}

// A quantized d is made in FP32 first, unless the product's kernel quantizes.
std::int64_t sums_bytes(const MatmulCall& call, bool quantizes = false) {
  return call.quantized() && !quantizes ? padded(all_rows(call) * call.n() * 4) : 0;
}

ProductRows rows_of(const MatmulCall& call) {
  ProductRows rows{call.rows(), call.matrices, nullptr, 0};
  if (call.groups) {
    const grouped::ExpertTable table = expert_table(*call.groups, rows.m);
    rows.expert_rows = table.numbers;
    rows.wide_numbers = table.wide;
    rows.capacity = table.capacity;
  }
  return rows;
}

// `sums`: where a quantized d is made.
ProductOutput output_of(const MatmulCall& call, float* sums) {
  ProductOutput out{};
  if (const MutableTensorView* d = call.d_dense()) {
    out.d = d->data;
    out.d_stride = d->row_stride;
    out.d_type = static_cast<std::int32_t>(d->dtype);
  } else {
    out.d = sums;
    out.d_stride = call.n();
    out.d_type = static_cast<std::int32_t>(DType::f32);
  }
  out.d_matrix = call.groups ? 0 : call.rows() * out.d_stride;
  out.bias = call.bias.data;
  out.bias_type = static_cast<std::int32_t>(call.bias.dtype);
  out.bias_matrix = call.groups ? call.bias.row_stride : 0;
  out.up_bias = call.up_bias.data;
  out.up_bias_type = static_cast<std::int32_t>(call.up_bias.dtype);
  if (const BlockTensorView* a = call.a_blocks(); a && a->shape.format == Format::nvfp4) {
    out.a_global = call.a_global_scales ? call.a_global_scales : a->device_global_scale;
    out.a_global_step = call.a_global_scales != nullptr;
  }
  if (call.b_shape().format == Format::nvfp4) {
    const PackedWeights* packed = call.packed();
    const float* one = packed ? packed->device_global_scale
                              : std::get<BlockTensorView>(call.b).device_global_scale;
    out.b_global = call.b_global_scales ? call.b_global_scales : one;
    out.b_global_step = call.b_global_scales != nullptr;
    if (call.gated)
      out.up_global = packed ? packed->device_up_global_scale : call.up->device_global_scale;
  }
  out.row_weights = call.row_weights;
  out.alpha = call.alpha;
  out.gated = call.gated;
  out.gelu = call.activation == Activation::gelu_tanh;
  return out;
}

// The quantizer writes matrix by matrix where scales are tiled, from multiples of 16 bytes on.
void check_quantized(const MatmulCall& call) {
  const QuantizedOutput* d = call.quantized();
  if (!d) return;
  if (call.groups && d->format == Format::nvfp4 && call.d_global_scales == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: backend cuda wants a global scale for each expert's NVFP4 d; set "
                            "d_global_scales",
                            call.operation));
  if (call.groups || call.matrices <= 1 || d->layout == Layout::row_major) return;
  const std::int64_t bytes = BlockShape{call.rows(), call.n(), d->format}.code_bytes();
  if (bytes % 16 != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda writes each of {} matrices with tiled scales from a "
                            "multiple of 16 bytes on, and their codes have {} bytes; take an even "
                            "number of rows, row-major scales, or one matrix a call",
                            call.operation, call.matrices, bytes));
}

// What the end of a product reads: add(what, data, bytes, written).
template <class Add>
void add_epilogue(const MatmulCall& call, Add&& add) {
  const auto add_bias = [&](const char* what, const TensorView& bias) {
    if (bias.data != nullptr)
      add(what, bias.data, extent_bytes(bias.rows, bias.cols, bias.row_stride, size_of(bias.dtype)),
          false);
  };
  const auto add_floats = [&](const char* what, const float* values, std::int64_t count) {
    if (values != nullptr) add(what, values, count * 4, false);
  };
  add_bias("the bias", call.bias);
  add_bias("up's bias", call.up_bias);
  add_floats("row_weights", call.row_weights, all_rows(call));
  const ProductOutput out = output_of(call, nullptr);
  add_floats("the global scale of a", out.a_global, out.a_global_step ? call.matrices : 1);
  add_floats("the global scale of the weights", out.b_global,
             out.b_global_step ? call.matrices : 1);
  add_floats("the global scale of up", out.up_global, 1);
}

void check_memory(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace) {
  std::vector<Operand> operands;
  const auto add = [&](const char* what, const void* data, std::int64_t bytes, bool written) {
    if (bytes > 0) operands.push_back({what, data, bytes, written});
  };
  const auto add_blocks = [&](const char* codes, const char* scales, const BlockTensorView& b) {
    add(codes, b.codes.data(), static_cast<std::int64_t>(b.codes.size()), false);
    add(scales, b.scales.data(), static_cast<std::int64_t>(b.scales.size()), false);
  };
  const std::int64_t rows = all_rows(call);
  if (const TensorView* a = call.a_dense())
    add("a", a->data, extent_bytes(rows, a->cols, a->row_stride, size_of(a->dtype)), false);
  else
    add_blocks("the codes of a", "the scales of a", *call.a_blocks());
  if (const PackedWeights* packed = call.packed()) {
    add("the packed weights", packed->bytes.data(), static_cast<std::int64_t>(packed->bytes.size()),
        false);
  } else {
    add_blocks("the weights' codes", "the weights' scales", std::get<BlockTensorView>(call.b));
    if (call.gated) add_blocks("the codes of up", "the scales of up", *call.up);
  }
  if (const MutableTensorView* d = call.d_dense()) {
    add("d", d->data, extent_bytes(rows, d->cols, d->row_stride, size_of(d->dtype)), true);
  } else {
    const QuantizedOutput& out = *call.quantized();
    add("the codes of d", out.codes.data(), static_cast<std::int64_t>(out.codes.size()), true);
    add("the scales of d", out.scales.data(), static_cast<std::int64_t>(out.scales.size()), true);
    if (out.format == Format::nvfp4 && out.device_global_scale != nullptr)
      add("the global scale of d", out.device_global_scale, 4, false);
  }
  if (call.groups) {
    const ExpertNumbers numbers = expert_numbers(*call.groups);
    add(numbers.name, numbers.data, numbers.bytes, false);
  }
  add_epilogue(call, add);
  const std::int64_t needed = matmul_workspace_bytes(device, call);
  check_workspace(call.operation, "matmul_workspace_bytes", workspace, needed);
  add("the workspace", workspace.data(), needed, true);
  check_operands(device, call.operation, operands);
}

// Hopper's kernels for many rows read packed weights, unless rows are very many: plain ones are
// packed in the workspace first, which costs one pass over them.
std::int64_t wide_packing_bytes(const MatmulCall& call) {
  return cuda::packed_weights_bytes(call.b_shape(), call.matrices, call.gated);
}

// Of a call that these kernels do not take as it is: the weights as they would be, without memory;
// none where they are packed, or where rows are so few that packing would take longer than it
// saves.
std::optional<PackedWeights> packed_for_wide(const Device& device, const MatmulCall& call) {
  constexpr std::int64_t least_rows = 17;
  if (call.packed() || call.rows() < least_rows * (call.groups ? call.matrices : 1)) return {};
  PackedWeights packed;
  packed.shape = call.b_shape();
  packed.matrices = call.matrices;
  packed.gated = call.gated;
  packed.on_cpu = false;
  const MatmulWeights weights = packed;
  const MatmulCall other = call.with(weights, nullptr);
  if (!wide_call(device.info(), other, rows_of(call), output_of(other, nullptr))) return {};
  return packed;
}

void quantize_sums(Device& device, const MatmulCall& call, const float* sums, Stream stream) {
  const QuantizedOutput& d = *call.quantized();
  if (call.groups) {
    GroupedQuantizeOptions options;
    options.input = {sums, DType::f32, call.rows(), call.n(), call.n()};
    options.groups = *call.groups;
    options.format = d.format;
    options.numerics = d.numerics;
    options.layout = d.layout;
    options.global_scales = call.d_global_scales;
    return grouped_quantize(device, options, d.codes, d.scales, stream);
  }
  // Where scales lie in rows, so do all matrices: one launch.
  const bool together = d.layout == Layout::row_major;
  const std::int64_t rows = together ? all_rows(call) : call.rows();
  const BlockShape shape{rows, call.n(), d.format, BlockAxis::cols, d.layout};
  const auto codes = static_cast<std::size_t>(shape.code_bytes()),
             scales = static_cast<std::size_t>(shape.scale_bytes());
  for (std::int64_t i = 0; i < (together ? 1 : call.matrices); ++i) {
    QuantizeOptions options;
    options.input = {sums + i * rows * call.n(), DType::f32, rows, call.n(), call.n()};
    options.format = d.format;
    options.numerics = d.numerics;
    options.layout = d.layout;
    options.device_global_scale = d.device_global_scale;
    options.first_index = static_cast<std::uint64_t>(i * rows * call.n());
    const auto at = static_cast<std::size_t>(i);
    quantize(device, options, d.codes.subspan(at * codes, codes),
             d.scales.subspan(at * scales, scales), stream);
  }
}

}  // namespace

std::int64_t matmul_workspace_bytes(Device& device, const MatmulCall& call) {
  check_formats(call);
  if (const auto wide = wide_call(device.info(), call, rows_of(call), output_of(call, nullptr)))
    return sums_bytes(call, wide->quantized) + wide_workspace_bytes(device.info(), *wide);
  if (const auto packed = packed_for_wide(device, call)) {
    const MatmulWeights weights = *packed;
    return padded(wide_packing_bytes(call)) +
           matmul_workspace_bytes(device, call.with(weights, nullptr));
  }
  // One row's kernel wants codes at multiples of 32 bytes, which they may not be yet.
  if (call.rows() > 1 && is_blackwell_product(device.info(), call)) return sums_bytes(call);
  return sums_bytes(call) + matmul_rows_workspace(call, all_rows(call));
}

void matmul(Device& device, const MatmulCall& call, std::span<std::uint8_t> workspace,
            Stream stream) {
  check_formats(call);
  if (all_rows(call) == 0 || call.n() == 0 || call.matrices == 0) return;
  check_quantized(call);
  check_memory(device, call, workspace);
  auto* const sums = reinterpret_cast<float*>(workspace.data());
  const ProductRows rows = rows_of(call);
  const ProductOutput output = output_of(call, sums);
  auto wide = wide_call(device.info(), call, rows, output);
  if (!wide && packed_for_wide(device, call)) {
    const std::int64_t packing = wide_packing_bytes(call);
    const std::span<std::uint8_t> bytes = workspace.first(static_cast<std::size_t>(packing));
    const MatmulWeights weights =
        pack_weights(device, std::get<BlockTensorView>(call.b), call.gated ? call.up : nullptr,
                     bytes, call.matrices, stream);
    return matmul(device, call.with(weights, nullptr),
                  workspace.subspan(static_cast<std::size_t>(padded(packing))), stream);
  }
  std::uint8_t* const rest = workspace.data() + sums_bytes(call);
  if (wide) {
    wide->workspace = wide->quantized ? workspace.data() : rest;
    matmul_wide(device, call.operation, *wide, stream);
    if (wide->quantized) return;
  } else if (is_blackwell_product(device.info(), call)) {
    blackwell_product(device, call, rows, output, stream);
  } else {
    matmul_rows(device, call, rows, output, rest, stream);
  }
  if (call.quantized()) quantize_sums(device, call, sums, stream);
}

}  // namespace microscale::cuda
