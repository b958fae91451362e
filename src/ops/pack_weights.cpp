// pack_weights: checks, then copies rows into the form of layouts/packed_weights.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/memory_range.hpp"
#include "core/threads.hpp"
#include "layouts/packed_weights.hpp"
#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "ops/matmul_check.hpp"
#include "ops/operand_memory.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

struct RowTarget {
  std::uint8_t *codes, *scales;
};

void pack_row(const BlockTensorView& b, std::int64_t matrix, std::int64_t row, RowTarget target) {
  const std::int64_t blocks = b.shape.blocks_per_line(), stride = b.shape.code_bytes_per_line();
  std::copy_n(b.codes.data() + matrix * b.shape.code_bytes() + row * stride, stride, target.codes);
  const std::uint8_t* scales = b.scales.data() + matrix * b.shape.scale_bytes();
  for (std::int64_t i = 0; i < blocks; ++i)
    target.scales[i] =
        scales[b.shape.layout == Layout::row_major ? row_major::offset(row, i, blocks)
                                                   : tiled_128x4::offset(row, i, blocks)];
}

void check_apart_from(std::span<std::uint8_t> bytes, const BlockTensorView& weights) {
  const auto range = [](const char* name, auto span) {
    return MemoryRange{name, span.data(), static_cast<std::int64_t>(span.size())};
  };
  const MemoryRange inputs[] = {range("the weights' codes", weights.codes),
                                range("the weights' scales", weights.scales)};
  check_apart("pack_weights", range("the output", bytes), inputs);
}

void check_packing(const BlockTensorView& b, const BlockTensorView* up, std::int64_t matrices) {
  if (matrices < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("pack_weights: {} matrices; it must not be negative", matrices));
  check_weights("pack_weights", up ? "gate" : "b", b, matrices);
  if (up) {
    check_weights("pack_weights", "up", *up, matrices);
    if (b.shape.rows != up->shape.rows || b.shape.cols != up->shape.cols ||
        b.shape.format != up->shape.format)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("pack_weights: the gate is {} x {} {}, up is {} x {} {}; they must "
                              "agree",
                              b.shape.rows, b.shape.cols, info(b.shape.format).name, up->shape.rows,
                              up->shape.cols, info(up->shape.format).name));
  }
}

bool is_on_device(const char* operation, const PackOptions& o, const Context& context) {
  return runs_on_device(operation, context,
                        {operand(o.up ? "the gate" : "b", o.b), operand("up", o.up ? *o.up : o.b)});
}

PackedWeights pack(const PackOptions& options, std::span<std::uint8_t> bytes,
                   const Context& context) {
  const BlockTensorView& b = options.b;
  const BlockTensorView* up = options.up ? &*options.up : nullptr;
  const std::int64_t matrices = options.matrices;
  check_packing(b, up, matrices);
  if (is_on_device("pack_weights", options, context))
    return gpu_operations("pack_weights").pack_weights(b, up, bytes, matrices, context.stream);
  const packed_weights::Parts parts(b.shape, up != nullptr);
  if (static_cast<std::int64_t>(bytes.size()) != parts.total(matrices))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("pack_weights: the output has {} bytes, it must be the {} of "
                            "packed_weights_bytes",
                            bytes.size(), parts.total(matrices)));
  if (bytes.data() == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "pack_weights: the output is null; allocate packed_weights_bytes for it");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % packed_weights::alignment != 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("pack_weights: the output must start at a multiple of {} bytes; align it",
                    packed_weights::alignment));
  check_apart_from(bytes, b);
  if (up) check_apart_from(bytes, *up);
  PackedWeights packed;
  packed.shape = b.shape;
  packed.shape.layout = Layout::row_major;
  packed.matrices = matrices;
  packed.gated = up != nullptr;
  packed.bytes = bytes;
  packed.global_scale = b.global_scale;
  packed.up_global_scale = up ? up->global_scale : GlobalScale(1.0f);

  const std::int64_t rows = b.shape.rows, every = up ? 2 : 1;
  std::fill_n(bytes.data(), packed_weights::alignment, std::uint8_t{0});
  const packed_weights::Header header{.format = static_cast<std::uint32_t>(b.shape.format),
                                      .rows = rows,
                                      .cols = b.shape.cols,
                                      .matrices = matrices,
                                      .gated = up != nullptr};
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::int64_t m = 0; m < matrices; ++m) {
    std::uint8_t *const codes = bytes.data() + parts.codes_at(m), *const scales =
                                                                      bytes.data() +
                                                                      parts.scales_at(m);
    std::fill(codes + rows * every * parts.code_stride, codes + parts.code_bytes, std::uint8_t{0});
    std::fill(scales + rows * every * parts.scale_stride, scales + parts.scale_bytes,
              std::uint8_t{0});
    constexpr std::int64_t together = 64;  // rows
    parallel_for((rows + together - 1) / together, context.threads, [&](std::int64_t piece) {
      for (std::int64_t r = piece * together; r < std::min(rows, (piece + 1) * together); ++r) {
        const std::int64_t at = r * every;
        pack_row(b, m, r, {codes + at * parts.code_stride, scales + at * parts.scale_stride});
        if (up)
          pack_row(*up, m, r,
                   {codes + (at + 1) * parts.code_stride, scales + (at + 1) * parts.scale_stride});
      }
    });
  }
  return packed;
}

}  // namespace

std::int64_t packed_weights_bytes(const PackOptions& options, const Context& context) {
  const BlockShape& shape = options.b.shape;
  const std::int64_t matrices = options.matrices;
  const bool gated = options.up.has_value();
  if (shape.rows < 0 || shape.cols < 0 || matrices < 0 || shape.axis != BlockAxis::cols)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("packed_weights_bytes: {} matrices of {} x {}; sizes must not be "
                            "negative, and blocks lie along the rows (BlockAxis::cols)",
                            matrices, shape.rows, shape.cols));
  const FormatInfo& format = info(shape.format);
  if (shape.cols % format.block != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("packed_weights_bytes: rows of k = {} elements, no multiple of {}'s "
                            "block of {}; pad k of both operands with zeros",
                            shape.cols, format.name, format.block));
  if (static_cast<double>(matrices) * (static_cast<double>(shape.rows) + 128) *
          (static_cast<double>(shape.cols) + 128) >
      addressable_bytes / 4)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("packed_weights_bytes: {} matrices of {} x {} are more than fits in "
                            "memory",
                            matrices, shape.rows, shape.cols));
  if (is_on_device("packed_weights_bytes", options, context))
    return gpu_operations("packed_weights_bytes").packed_weights_bytes(shape, matrices, gated);
  return packed_weights::Parts(shape, gated).total(matrices);
}

PackedWeights pack_weights(const PackOptions& options, std::span<std::uint8_t> bytes,
                           const Context& context) {
  return pack(options, bytes, context);
}

}  // namespace microscale
