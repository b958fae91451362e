// What a matrix product refuses, each with one sentence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "seam/expert_rows.hpp"
#include "core/memory_range.hpp"
#include "formats/compat.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/packed_weights.hpp"
#include "microscale/error.hpp"
#include "ops/check.hpp"
#include "ops/matmul_check.hpp"

namespace microscale {
namespace {

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::invalid_argument, sentence);
}

void check_sizes(const char* operation, std::int64_t matrices, std::int64_t rows, std::int64_t n,
                 std::int64_t k) {
  const auto count = static_cast<double>(matrices), m = static_cast<double>(rows),
             columns = static_cast<double>(n), depth = static_cast<double>(k);
  if (std::max({count * m * depth, count * columns * depth, count * m * columns}) >
      addressable_bytes)
    refuse(fmt::format("{}: {} products of {} x {} x {} are more than fits in memory", operation,
                       matrices, rows, n, k));
}

MemoryRange check_dense(const char* operation, const char* name, const void* data, DType dtype,
                        std::int64_t rows, std::int64_t cols, std::int64_t row_stride,
                        std::int64_t matrices) {
  const Place what(operation, name);
  check_dtype(what.c_str(), dtype);
  check_view(what.c_str(), data, rows, cols, row_stride);
  const std::int64_t element = size_of(dtype);
  check_aligned(operation, name, data, element);
  if (matrices > 1 && row_stride < cols)
    refuse(
        fmt::format("{}: {} has a row_stride of {} elements for rows of {}, and matrices of a "
                    "batch are rows * row_stride apart; set it to at least the columns",
                    operation, name, row_stride, cols));
  if (rows == 0 || cols == 0 || matrices == 0) return {name, data, 0};
  const std::int64_t last =
      matrices > 1 ? ((matrices - 1) * rows + rows - 1) * row_stride : (rows - 1) * row_stride;
  return {name, data, (last + cols) * element};
}

/// A part of `count` matrices, or of one.
void check_part(const char* operation, const char* name, const char* part, std::int64_t count,
                std::span<const std::uint8_t> bytes, std::int64_t wanted) {
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (size == wanted) return;
  const std::string whole = count == 1 ? fmt::format("{} {}", name, part)
                                       : fmt::format("{} {} of {} matrices", name, part, count);
  check_bytes(operation, whole.c_str(), size, wanted);
}

void check_blocks(const char* operation, const char* name, const BlockTensorView& b,
                  std::int64_t code_bytes, std::int64_t scale_bytes, std::int64_t matrices) {
  const BlockShape& shape = b.shape;
  const FormatInfo& format = info(shape.format);
  if (shape.rows < 0 || shape.cols < 0)
    refuse(fmt::format("{}: {} is {} x {}; rows and cols must not be negative", operation, name,
                       shape.rows, shape.cols));
  if (shape.axis != BlockAxis::cols)
    refuse(
        fmt::format("{}: the blocks of {} lie down its columns; a product sums along them, so "
                    "quantize it with BlockAxis::cols",
                    operation, name));
  if (shape.cols % format.block != 0)
    refuse(
        fmt::format("{}: {} has rows of k = {} elements, no multiple of {}'s block of {}; pad k "
                    "of both operands with zeros",
                    operation, name, shape.cols, format.name, format.block));
  check_part(operation, name, "codes", matrices, b.codes, code_bytes);
  check_part(operation, name, "scales", matrices, b.scales, scale_bytes);
  if ((b.codes.data() == nullptr && code_bytes > 0) ||
      (b.scales.data() == nullptr && scale_bytes > 0))
    refuse(fmt::format("{}: the codes or the scales of {} are null", operation, name));
}

void check_packed(const char* operation, const PackedWeights& p, std::int64_t matrices, bool gated,
                  bool on_device) {
  if ((p.memory == Memory::device) != on_device)
    refuse(
        fmt::format("{}: these weights are packed for a {}; pack them for this backend, or pass "
                    "the plain ones",
                    operation, on_device ? "CPU" : "GPU"));
  if (p.gated != gated)
    refuse(fmt::format("{}: these packed weights hold {}", operation,
                       p.gated ? "a gate and an up matrix; call gated_matmul"
                               : "one matrix; pack it together with up (PackOptions::up)"));
  if (p.matrices != matrices)
    refuse(fmt::format("{}: packed weights of {} matrices for {} products", operation, p.matrices,
                       matrices));
  constexpr const char* sizes = "packed_weights_bytes";
  if (on_device) {
    const FormatInfo& format = info(p.shape.format);
    check_bytes(operation, "packed weights", static_cast<std::int64_t>(p.bytes.size()),
                p.matrices * fragment_tiles::matrix_bytes(p.shape.rows, p.shape.cols, p.gated,
                                                          format.code_bits, format.block),
                sizes);
    return;  // device memory is not read here
  }
  const packed_weights::Parts parts(p.shape, p.gated);
  check_bytes(operation, "packed weights", static_cast<std::int64_t>(p.bytes.size()),
              parts.total(p.matrices), sizes);
  packed_weights::Header header;
  std::memcpy(&header, p.bytes.data(), sizeof header);
  if (header != packed_weights::Header{.format = static_cast<std::uint32_t>(p.shape.format),
                                       .rows = p.shape.rows,
                                       .cols = p.shape.cols,
                                       .matrices = p.matrices,
                                       .gated = p.gated})
    refuse(
        fmt::format("{}: the packed weights are not those that pack_weights made for {} x {} {}; "
                    "pass what it returned",
                    operation, p.shape.rows, p.shape.cols, info(p.shape.format).name));
}

void check_bias(const MatmulCall& call, const char* name, const TensorView& bias,
                std::vector<MemoryRange>& ranges) {
  if (bias.data == nullptr) return;
  const std::int64_t rows = call.groups ? call.matrices : 1;
  if (bias.rows != rows || bias.cols != call.n())
    refuse(fmt::format("{}: {} is {} x {}; it must be {} x {}", call.operation, name, bias.rows,
                       bias.cols, rows, call.n()));
  ranges.push_back(
      check_dense(call.operation, name, bias.data, bias.dtype, rows, call.n(), bias.row_stride, 1));
}

void check_global(const MatmulCall& call, const char* name, Format format,
                  const GlobalScale& scale) {
  if (format != Format::nvfp4) return;
  const Place place(call.operation, name);
  if (call.groups && call.matrices == 0) return;  // no expert reads one
  check_global_scale(place.c_str(), scale, call.on_device, call.groups ? call.matrices : 0);
}

void check_quantized(const MatmulCall& call, std::vector<MemoryRange>& ranges) {
  const QuantizedOutput& o = *call.quantized();
  const FormatInfo& format = info(o.format);
  if (call.n() % format.block != 0)
    refuse(
        fmt::format("{}: d has {} columns, no multiple of {}'s block of {}; pad n, or take d "
                    "dense",
                    call.operation, call.n(), format.name, format.block));
  check_numerics(call.operation, o.numerics, o.format);
  if (follows_tool(o.numerics, o.format))
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the profile of another tool ({}) is for matrices from memory; "
                            "leave compat at none, or take d dense and call quantize_into",
                            call.operation, to_string(o.numerics.compat)));
  const BlockShape shape{call.rows(), call.n(), o.format, BlockAxis::cols, o.layout};
  const std::int64_t matrices = call.groups ? 1 : call.matrices;
  const std::int64_t scale_bytes =
      call.groups
          ? grouped_scale_bytes(call.rows(), call.n(), call.groups->experts, o.format, o.layout)
          : matrices * shape.scale_bytes();
  check_blocks(call.operation, "d", {shape, o.codes, o.scales}, matrices * shape.code_bytes(),
               scale_bytes, matrices);
  check_global(call, "d", o.format, o.global_scale);
  if (format.e8m0_scale)
    check_no_global_scale(Place(call.operation, "d").c_str(), o.global_scale, format);
  ranges.push_back({"d's codes", o.codes.data(), static_cast<std::int64_t>(o.codes.size())});
  ranges.push_back({"d's scales", o.scales.data(), static_cast<std::int64_t>(o.scales.size())});
}

void check_input(const MatmulCall& call, std::vector<MemoryRange>& ranges) {
  const std::int64_t matrices = call.groups ? 1 : call.matrices;
  if (const TensorView* a = call.a_dense()) {
    ranges.push_back(check_dense(call.operation, "a", a->data, a->dtype, a->rows, a->cols,
                                 a->row_stride, matrices));
    return;
  }
  const BlockTensorView& a = *call.a_blocks();
  const std::int64_t scale_bytes =
      call.groups ? grouped_scale_bytes(a.shape.rows, a.shape.cols, call.groups->experts,
                                        a.shape.format, a.shape.layout)
                  : matrices * a.shape.scale_bytes();
  check_blocks(call.operation, "a", a, matrices * a.shape.code_bytes(), scale_bytes, matrices);
  check_global(call, "a", a.shape.format, a.global_scale);
  ranges.push_back({"a's codes", a.codes.data(), static_cast<std::int64_t>(a.codes.size())});
  ranges.push_back({"a's scales", a.scales.data(), static_cast<std::int64_t>(a.scales.size())});
}

void check_plain_weights(const MatmulCall& call, const char* name, const BlockTensorView& b,
                         std::vector<MemoryRange>& ranges) {
  check_weights(call.operation, name, b, call.matrices);
  check_global(call, name, b.shape.format, b.global_scale);
  ranges.push_back(
      {"the weights' codes", b.codes.data(), static_cast<std::int64_t>(b.codes.size())});
  ranges.push_back(
      {"the weights' scales", b.scales.data(), static_cast<std::int64_t>(b.scales.size())});
}

void check_all_weights(const MatmulCall& call, std::vector<MemoryRange>& ranges) {
  if (const PackedWeights* p = call.packed()) {
    check_packed(call.operation, *p, call.matrices, call.gated, call.on_device);
    check_global(call, "the packed weights", p->shape.format, p->global_scale);
    if (call.gated) check_global(call, "the packed up", p->shape.format, p->up_global_scale);
    if (call.up && call.up->shape.rows != 0)
      refuse(fmt::format("{}: packed weights hold gate and up; leave `up` empty", call.operation));
    ranges.push_back(
        {"the packed weights", p->bytes.data(), static_cast<std::int64_t>(p->bytes.size())});
    return;
  }
  check_plain_weights(call, call.gated ? "gate" : "b", std::get<BlockTensorView>(call.b), ranges);
  if (!call.gated) return;
  check_plain_weights(call, "up", *call.up, ranges);
  const BlockShape &gate = call.b_shape(), &up = call.up->shape;
  if (gate.rows != up.rows || gate.cols != up.cols || gate.format != up.format)
    refuse(fmt::format("{}: the gate is {} x {} {}, up is {} x {} {}; they must agree",
                       call.operation, gate.rows, gate.cols, info(gate.format).name, up.rows,
                       up.cols, info(up.format).name));
}

}  // namespace

void check_weights(const char* operation, const char* name, const BlockTensorView& b,
                   std::int64_t matrices) {
  check_blocks(operation, name, b, matrices * b.shape.code_bytes(),
               matrices * b.shape.scale_bytes(), matrices);
}

void check_matmul(const MatmulCall& call) {
  if (call.activation > Activation::gelu_tanh)
    refuse(fmt::format("{}: activation {} is no enumerator; take silu or gelu_tanh", call.operation,
                       static_cast<int>(call.activation)));
  if (call.matrices < 0)
    refuse(
        fmt::format("{}: a batch of {}; it must not be negative", call.operation, call.matrices));
  if (!std::isfinite(call.alpha))
    refuse(fmt::format("{}: alpha is {}; it must be finite", call.operation, call.alpha));
  std::vector<MemoryRange> inputs, outputs;
  inputs.reserve(8);
  outputs.reserve(2);
  if (call.b_shape().cols != call.k())
    refuse(
        fmt::format("{}: a has k = {}, the weights have k = {}; they must agree (the weights are "
                    "n x k)",
                    call.operation, call.k(), call.b_shape().cols));
  check_sizes(call.operation, std::max<std::int64_t>(call.matrices, 1), call.rows(), call.n(),
              call.k());
  if (call.groups) check_expert_rows(call.operation, *call.groups, call.rows(), call.on_device);
  check_input(call, inputs);
  check_all_weights(call, inputs);
  check_bias(call, "the bias", call.bias, inputs);
  check_bias(call, "up's bias", call.up_bias, inputs);
  check_aligned(call.operation, "row_weights", call.row_weights, sizeof(float));
  if (call.row_weights) inputs.push_back({"row_weights", call.row_weights, call.rows() * 4});
  if (const MutableTensorView* d = call.d_dense()) {
    if (d->rows != call.rows() || d->cols != call.n())
      refuse(fmt::format("{}: d is {} x {}; a and the weights make {} x {}", call.operation,
                         d->rows, d->cols, call.rows(), call.n()));
    outputs.push_back(check_dense(call.operation, "d", d->data, d->dtype, d->rows, d->cols,
                                  d->row_stride, call.groups ? 1 : call.matrices));
  } else {
    check_quantized(call, outputs);
  }
  for (const MemoryRange& out : outputs)
    for (const MemoryRange& in : inputs)
      if (out.overlaps(in))
        refuse(
            fmt::format("{}: {} overlaps {}; a product reads its operands while it writes, so "
                        "give d memory of its own",
                        call.operation, out.name, in.name));
  if (outputs.size() == 2 && outputs[0].overlaps(outputs[1]))
    refuse(fmt::format("{}: the codes and the scales of d overlap", call.operation));
}

}  // namespace microscale
