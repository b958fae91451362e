// grouped_quantize_into: checks, and on the host one quantize_into per expert. No arithmetic here.
#include <fmt/format.h>

#include <algorithm>

#include "cuda/operations.hpp"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"
#include "ops/check.hpp"

namespace microscale {
namespace {

std::int64_t offset_at(const ExpertRows& groups, std::int64_t index) {
  return groups.type == OffsetType::i32 ? static_cast<const std::int32_t*>(groups.offsets)[index]
                                        : static_cast<const std::int64_t*>(groups.offsets)[index];
}

std::int64_t blocks_of(std::int64_t cols, Format format) {
  return BlockShape{0, cols, format}.blocks_per_line();
}

void check_options(const GroupedQuantizeOptions& o) {
  check_view("grouped_quantize", o.input.data, o.input.rows, o.input.cols, o.input.row_stride);
  const FormatInfo& format = info(o.format);
  if (o.input.cols % format.block != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_quantize: {} columns are no multiple of {}'s block of {}; pad "
                            "the rows",
                            o.input.cols, format.name, format.block));
  const auto rules = scale_rules(o.format);
  if (std::find(rules.begin(), rules.end(), o.numerics.scale_rule) == rules.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_quantize: {} has no scale rule {}; it has {}", format.name,
                            to_string(o.numerics.scale_rule), scale_rule_names(o.format)));
  if (o.groups.experts < 0 || (o.groups.experts > 0 && o.groups.offsets == nullptr))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_quantize: {} experts with {} offsets; pass the address of "
                            "experts + 1 integers",
                            o.groups.experts, o.groups.offsets ? "some" : "no"));
  if (o.format == Format::nvfp4 && o.groups.experts > 0 && o.global_scales == nullptr)
    throw Error(ErrorCode::invalid_argument,
                "grouped_quantize: NVFP4 wants global_scales, one decode multiplier per expert");
}

void check_offsets(const GroupedQuantizeOptions& o) {
  std::int64_t former = 0;
  for (std::int64_t i = 0; i <= o.groups.experts && o.groups.experts > 0; ++i) {
    const std::int64_t offset = offset_at(o.groups, i);
    if (offset < former || offset > o.input.rows)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("grouped_quantize: offset {} is {} after {} for an input of {} rows; "
                              "offsets must not decrease or leave the input",
                              i, offset, former, o.input.rows));
    former = offset;
  }
}

}  // namespace

std::int64_t grouped_scale_bytes(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                 Format format, Layout layout) {
  if (layout == Layout::row_major) return BlockShape{rows, cols, format}.scale_bytes();
  const std::int64_t tiles = grouped::most_tile_rows(rows, experts, tiled_128x4::tile_lines);
  return tiled_128x4::bytes(tiles * tiled_128x4::tile_lines, blocks_of(cols, format));
}

std::int64_t grouped_scale_offset(const ExpertRows& groups, std::int64_t expert, std::int64_t cols,
                                  Format format, Layout layout) {
  if (layout == Layout::row_major) return offset_at(groups, expert) * blocks_of(cols, format);
  std::int64_t tiles = 0;
  for (std::int64_t e = 0; e < expert; ++e)
    tiles += grouped::tile_rows(offset_at(groups, e + 1) - offset_at(groups, e),
                                tiled_128x4::tile_lines);
  return tiled_128x4::bytes(tiles * tiled_128x4::tile_lines, blocks_of(cols, format));
}

void grouped_quantize_into(const GroupedQuantizeOptions& o, std::span<std::uint8_t> codes,
                           std::span<std::uint8_t> scales, const Context& context) {
  check_options(o);
  const TensorView& in = o.input;
  const std::int64_t code_stride = BlockShape{1, in.cols, o.format}.code_bytes_per_line();
  check_bytes("grouped_quantize", "codes", static_cast<std::int64_t>(codes.size()),
              in.rows * code_stride);
  check_bytes("grouped_quantize", "scales", static_cast<std::int64_t>(scales.size()),
              grouped_scale_bytes(in.rows, in.cols, o.groups.experts, o.format, o.layout));
  if (context.backend == Backend::cuda) {
    cuda::grouped_quantize(cuda::runtime_device(), o, codes, scales, context.stream);
    return;
  }
  check_offsets(o);
  std::int64_t tiles_at = 0;  // first byte of the next region
  for (std::int64_t e = 0; e < o.groups.experts; ++e) {
    const std::int64_t begin = offset_at(o.groups, e), rows = offset_at(o.groups, e + 1) - begin;
    const BlockShape shape{rows, in.cols, o.format, BlockAxis::cols, o.layout};
    const std::int64_t at =
        o.layout == Layout::row_major ? begin * shape.blocks_per_line() : tiles_at;
    tiles_at += shape.scale_bytes();
    if (rows == 0) continue;
    QuantizeOptions part;
    part.input = in;
    part.input.rows = rows;
    part.input.data =
        static_cast<const std::uint8_t*>(in.data) + begin * in.row_stride * size_of(in.dtype);
    part.format = o.format;
    part.numerics = o.numerics;
    part.layout = o.layout;
    part.first_index = o.first_index + static_cast<std::uint64_t>(begin * in.cols);
    if (o.format == Format::nvfp4) part.global_scale = o.global_scales[e];
    quantize_into(
        part,
        codes.subspan(static_cast<std::size_t>(begin * code_stride),
                      static_cast<std::size_t>(shape.code_bytes())),
        scales.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(shape.scale_bytes())),
        context);
  }
}

}  // namespace microscale
