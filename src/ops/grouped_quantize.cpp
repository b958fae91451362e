// grouped_quantize_into: checks, and on the host one quantize_into per expert. No arithmetic here.
#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "seam/expert_rows.hpp"
#include "core/memory_range.hpp"
#include "core/out_of_memory.hpp"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"
#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "microscale/quantize.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

std::int64_t blocks_of(std::int64_t cols, Format format) {
  return BlockShape{0, cols, format}.blocks_per_line();
}

void check_options(const GroupedQuantizeOptions& o, bool on_device) {
  check_view("grouped_quantize", o.input);
  const FormatInfo& format = info(o.format);
  if (o.input.cols % format.block != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_quantize: {} columns are no multiple of {}'s block of {}; pad "
                            "the rows",
                            o.input.cols, format.name, format.block));
  check_numerics("grouped_quantize", o.numerics, o.format);
  check_expert_rows("grouped_quantize", o.groups, o.input.rows, on_device);
  if (o.format != Format::nvfp4 || o.groups.experts == 0) return;
  check_global_scale_place("grouped_quantize", o.global_scale, on_device, o.groups.experts);
  if (on_device && !o.global_scale.is_per_expert())
    throw Error(ErrorCode::invalid_argument,
                "grouped_quantize: backend cuda reads one global scale per expert; pass "
                "GlobalScale::per_expert(address, Memory::device)");
  for (std::int64_t e = 0; !on_device && e < o.groups.experts; ++e)  // before anything is written
    if (grouped::rows_of_expert(expert_table(o.groups, o.input.rows), e).count > 0)
      check_global_scale("grouped_quantize", o.global_scale.value(e));
}

// Of grouped_scale_offset: the table is there and has the expert; with counts no sum overflows.
void check_region(const ExpertRows& groups, std::int64_t expert, std::int64_t cols) {
  if (expert < 0 || expert > groups.experts)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_scale_offset: expert {} of {}; pass 0 to {}, the last being "
                            "the end of all regions",
                            expert, groups.experts, groups.experts));
  if (groups.offsets == nullptr && groups.counts == nullptr)
    throw Error(
        ErrorCode::invalid_argument,
        "grouped_scale_offset: no offsets and no counts; pass the address of one of them, in "
        "host memory if it is offsets");
  if (cols < 0 || groups.capacity < 0 ||
      static_cast<double>(expert) * (static_cast<double>(groups.capacity) + 128) *
              static_cast<double>(std::max<std::int64_t>(cols, 1)) >
          addressable_bytes)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_scale_offset: {} experts with a capacity of {} rows of {} are "
                            "no matrix in memory; sizes are not negative",
                            groups.experts, groups.capacity, cols));
}

}  // namespace

std::int64_t grouped_scale_bytes(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                 Format format, Layout layout) {
  if (rows < 0 || cols < 0 || experts < 0 ||
      static_cast<double>(std::max<std::int64_t>(rows, 1)) *
              static_cast<double>(std::max<std::int64_t>(cols, 1)) >
          addressable_bytes)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("grouped_scale_bytes: {} rows of {} for {} experts; sizes are not "
                            "negative, and fit in memory",
                            rows, cols, experts));
  if (layout == Layout::row_major) return BlockShape{rows, cols, format}.scale_bytes();
  const std::int64_t tiles = grouped::most_tile_rows(rows, experts, tiled_128x4::tile_lines);
  return tiled_128x4::bytes(tiles * tiled_128x4::tile_lines, blocks_of(cols, format));
}

std::int64_t grouped_scale_offset(const ExpertRows& groups, std::int64_t expert, std::int64_t cols,
                                  Format format, Layout layout) {
  const grouped::ExpertTable table = expert_table(groups);
  const bool counted = table.capacity != grouped::no_capacity;
  check_region(groups, expert, cols);
  if (layout == Layout::row_major)
    return (counted ? expert * table.capacity : grouped::number_at(table, expert)) *
           blocks_of(cols, format);
  std::int64_t tiles = 0;
  for (std::int64_t e = 0; e < expert; ++e)
    tiles += grouped::tile_rows(counted ? table.capacity : grouped::rows_of_expert(table, e).count,
                                tiled_128x4::tile_lines);
  return tiled_128x4::bytes(tiles * tiled_128x4::tile_lines, blocks_of(cols, format));
}

void grouped_quantize_into(const GroupedQuantizeOptions& given, std::span<std::uint8_t> codes,
                           std::span<std::uint8_t> scales, const Context& context) try {
  GroupedQuantizeOptions o = given;
  o.input = with_row_stride(given.input);
  const bool on_device = runs_on_device(
      "grouped_quantize", context,
      {operand("the input", o.input),
       {"the output", o.input.memory, {codes.data(), scales.data()}},
       {"the table of experts", o.input.memory, {o.groups.offsets, o.groups.counts}}});
  check_options(o, on_device);
  const TensorView& in = o.input;
  const std::int64_t code_stride = BlockShape{1, in.cols, o.format}.code_bytes_per_line();
  check_bytes("grouped_quantize", "codes", static_cast<std::int64_t>(codes.size()),
              in.rows * code_stride);
  check_bytes("grouped_quantize", "scales", static_cast<std::int64_t>(scales.size()),
              grouped_scale_bytes(in.rows, in.cols, o.groups.experts, o.format, o.layout));
  if (on_device) {
    gpu_operations("grouped_quantize").grouped_quantize(o, codes, scales, context.stream);
    return;
  }
  const grouped::ExpertTable table = expert_table(o.groups, in.rows);
  std::int64_t tiles_at = 0;  // first byte of the next region
  for (std::int64_t e = 0; e < o.groups.experts; ++e) {
    const auto [begin, rows] = grouped::rows_of_expert(table, e);
    const BlockShape shape{rows, in.cols, o.format, BlockAxis::cols, o.layout};
    BlockShape region = shape;
    region.rows = grouped::region_rows(table.capacity, rows);
    const std::int64_t at =
        o.layout == Layout::row_major ? begin * shape.blocks_per_line() : tiles_at;
    tiles_at += region.scale_bytes();
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
    if (o.format == Format::nvfp4) part.global_scale = o.global_scale.value(e);
    quantize_into(
        part,
        codes.subspan(static_cast<std::size_t>(begin * code_stride),
                      static_cast<std::size_t>(shape.code_bytes())),
        scales.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(shape.scale_bytes())),
        context);
  }
} catch (const std::bad_alloc&) {
  throw_out_of_memory("grouped_quantize_into");
}

}  // namespace microscale
