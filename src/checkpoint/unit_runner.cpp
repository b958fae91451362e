#include "checkpoint/unit_runner.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "checkpoint/checked_tile.hpp"
#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/fp8_rows.hpp"
#include "checkpoint/merged_weight.hpp"
#include "checkpoint/weighted_error.hpp"
#include "formats/compat.hpp"
#include "formats/half.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

// Per worker beside its buffers: stack, allocator, small temporaries.
constexpr std::int64_t worker_slack_bytes = std::int64_t{1} << 20;
constexpr std::int64_t input_bytes = std::max(tile_elements * 4, copy_bytes);
constexpr std::int64_t smallest_block = 16;

template <class Buffer>
auto first(Buffer& buffer, std::int64_t count) {
  return std::span(buffer).first(static_cast<std::size_t>(count));
}

template <class T>
std::span<const std::uint8_t> bytes_of(std::span<T> values) {
  return {reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()};
}

// What `bytes` in the file have to do with the first `part` of `whole`; all pieces add up.
std::uint64_t share(std::uint64_t bytes, std::uint64_t part, std::uint64_t whole) {
  return part == whole
             ? bytes
             : static_cast<std::uint64_t>(static_cast<double>(bytes) * static_cast<double>(part) /
                                          static_cast<double>(whole));
}

}  // namespace

UnitRunner::UnitRunner(const ModelPlan& plan, const QuantizeModelOptions& options,
                       OutputShards& output, Advance advance)
    : plan_(plan),
      options_(options),
      output_(output),
      advance_(std::move(advance)),
      scan_(plan),
      kept_values_(plan.tensors.size()),
      global_scales_(plan.groups.size(), 1.0f),
      costs_(plan.tensors.size()),
      kept_(plan, options, scan_) {
  packs_ = plan.one_file;
  if (!options.importance.empty()) importance_ = take(Importance::open(options.importance, plan));
  hessians_.emplace(plan, options, importance_ ? &*importance_ : nullptr);
  for (const ShardPlan& shard : plan_.shards) {
    transposed_ |= !shard.slices.empty();
    for (const CopiedTensor& copy : shard.copies) {
      const DenseTensor& source = source_of(copy.tensor);
      narrows_ |= copied_type(source) != source.entry.type;
    }
    for (const QuantizedMatrix& matrix : shard.matrices) {
      transposed_ |= matrix.slice.col_step != 1;
      longest_row_ = std::max(longest_row_, matrix.slice.cols);
      if (matrix.format != WeightFormat::fp8) continue;
      const TileGrid grid(matrix.slice.rows, matrix.slice.cols);
      row_scales_ = std::max(row_scales_, grid.tile(0).rows);
    }
  }
}

std::int64_t UnitRunner::worker_bytes() const {
  // quantize_into copies the weights once more.
  const std::int64_t weights = importance_ ? 2 * std::min(longest_row_, tile_elements) : 0;
  return input_bytes + tile_elements + tile_elements / smallest_block +
         (transposed_ || packs_ ? tile_scratch_bytes : 0) + (narrows_ ? 2 * copy_bytes : 0) +
         static_cast<std::int64_t>(plan_.adapters.size()) * merging_bytes + row_scales_ * 6 +
         weights * std::int64_t{sizeof(float)} + hessians_->worker_bytes() + worker_slack_bytes;
}

Workspace::Workspace(std::unique_ptr<TileQuantizer> tiles) : quantizer(std::move(tiles)) {
  const TileBuffers buffers = quantizer->buffers();
  input = buffers.input;
  codes = buffers.codes;
  scales = buffers.scales;
}

Workspace UnitRunner::make_workspace(const TileQuantizerFactory& quantizers, int worker) const {
  Workspace work(quantizers(worker, {input_bytes, tile_elements, tile_elements / smallest_block}));
  if (transposed_) work.scratch.resize(static_cast<std::size_t>(tile_scratch_bytes));
  if (importance_)
    work.weights.resize(static_cast<std::size_t>(std::min(longest_row_, tile_elements)));
  work.row_scales.resize(static_cast<std::size_t>(row_scales_));
  work.wide_scales.resize(static_cast<std::size_t>(row_scales_));
  return work;
}

void UnitRunner::prefetch(const Unit& unit) const {
  if (unit.kind != Unit::Kind::measure && unit.kind != Unit::Kind::quantize) return;
  const QuantizedMatrix& matrix = matrix_of(unit);
  const Tile tile = tile_of(plan_, unit);
  source_of(matrix.tensor).will_need(matrix.slice, tile);
}

bool UnitRunner::run(const Unit& unit, Workspace& work) {
  switch (unit.kind) {
    case Unit::Kind::header: {
      const std::string& header = plan_.shards[unit.shard].layout.header;
      output_.write(unit.shard, 0,
                    {reinterpret_cast<const std::uint8_t*>(header.data()), header.size()});
      for (const ConstantTensor& tensor : plan_.shards[unit.shard].constants) {
        output_.write(
            unit.shard, tensor.at,
            {reinterpret_cast<const std::uint8_t*>(tensor.bytes.data()), tensor.bytes.size()});
      }
      return true;
    }
    case Unit::Kind::measure: {
      const QuantizedMatrix& matrix = matrix_of(unit);
      const Tile tile = tile_of(plan_, unit);
      if (matrix.kept) {
        kept_.measure(unit, tile, work.quantizer->buffers());
      } else {
        read_checked_tile(plan_, unit, tile, work.input, work.scratch, scan_);
      }
      advance_(0, entry_of(matrix.tensor).name);
      return false;
    }
    case Unit::Kind::quantize:
      return quantize_tile(unit, work);
    case Unit::Kind::copy:
      copy_piece(unit, work);
      return true;
    case Unit::Kind::slice:
      copy_slice(unit, work);
      return true;
  }
  return false;
}

bool UnitRunner::quantize_tile(const Unit& unit, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const Tile tile = tile_of(plan_, unit);
  if (scan_.is_past_bad(unit.shard, unit.item, tile.row, tile.col)) return false;
  if (matrix.kept) {
    if (!keep_tile(unit, tile, work)) return false;
  } else if (!read_checked_tile(plan_, unit, tile, work.input, work.scratch, scan_)) {
    return false;
  } else if (blocks_of(matrix.format)) {
    quantize_blocks(unit, tile, work);
  } else if (matrix.format == WeightFormat::fp8) {
    quantize_rows(unit, tile, work);
  } else {
    quantize_under_one_scale(unit, tile, work);
  }
  const DenseTensor& source = source_of(matrix.tensor);
  const std::uint64_t all =
      source.entry.bytes() / static_cast<std::uint64_t>(size_of(matrix.dtype));
  const auto begin =
      static_cast<std::uint64_t>(matrix.first_element + tile.row * matrix.slice.cols + tile.col);
  const auto end = begin + static_cast<std::uint64_t>(tile.elements());
  advance_(static_cast<std::int64_t>(share(source.stored_bytes(), end, all) -
                                     share(source.stored_bytes(), begin, all)),
           source.entry.name);
  return true;
}

// One scale for each row; the tile has whole rows.
void UnitRunner::quantize_rows(const Unit& unit, const Tile& tile, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const DenseRows rows{work.input.data(), matrix.dtype, tile.rows, tile.cols};
  const auto codes = first(work.codes, tile.elements());
  const auto scales = first(work.row_scales, tile.rows);
  quantize_fp8_rows(rows, codes, scales);
  const auto row = static_cast<std::uint64_t>(tile.row);
  output_.write(unit.shard, matrix.at.codes + row * static_cast<std::uint64_t>(tile.cols), codes);
  if (matrix.fp32_scales) {
    for (std::size_t i = 0; i < scales.size(); ++i) work.wide_scales[i] = bf16_to_float(scales[i]);
    const auto wide = first(work.wide_scales, tile.rows);
    output_.write(unit.shard, matrix.at.scales + row * 4, bytes_of(wide));
  } else {
    output_.write(unit.shard, matrix.at.scales + row * 2, bytes_of(scales));
  }
  cost_of(matrix.tensor).add(matrix.first_tile + unit.piece, measure_fp8_rows(rows, codes, scales));
}

// FP8 with one scale for the weight.
void UnitRunner::quantize_under_one_scale(const Unit& unit, const Tile& tile, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const DenseRows rows{work.input.data(), matrix.dtype, tile.rows, tile.cols};
  const auto codes = first(work.codes, tile.elements());
  const float scale = global_scales_[matrix.group];
  quantize_fp8_tensor(rows, scale, codes);
  const std::int64_t start = tile.row * matrix.slice.cols + tile.col;
  output_.write(unit.shard, matrix.at.codes + static_cast<std::uint64_t>(start), codes);
  cost_of(matrix.tensor)
      .add(matrix.first_tile + unit.piece, measure_fp8_tensor(rows, codes, scale));
  if (unit.piece == 0) write_scales(unit, scale);
}

void UnitRunner::quantize_blocks(const Unit& unit, const Tile& tile, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const MatrixSlice& slice = matrix.slice;
  const Format block_format = *blocks_of(matrix.format);
  const FormatInfo& format = info(block_format);
  const std::int64_t start = tile.row * slice.cols + tile.col;  // of the tile in the matrix
  QuantizeOptions options;
  options.input = {work.input.data(), matrix.dtype, tile.rows, tile.cols, tile.cols};
  options.format = block_format;
  options.numerics = numerics_of(options_, block_format);
  options.first_index = static_cast<std::uint64_t>(start);
  if (!format.e8m0_scale) options.tensor_amax = scan_.amax(matrix.group);
  // A tool that gives NaN scales to a tensor of zeros is not followed there: no reader takes such a
  // file.
  if (options.tensor_amax == 0.0f) options.numerics.compat = Compat::none;
  const std::span<const float> weights = weights_of(matrix, tile, work);
  if (!hessians_->has(matrix)) options.weights = weights;
  const auto codes = first(work.codes, code_bytes(format, tile.elements()));
  const auto scales = first(work.scales, tile.elements() / format.block);
  const float global_scale =
      hessians_->has(matrix)
          ? quantize_with_hessian_into({.input = options.input,
                                        .hessian = &hessians_->of(matrix),
                                        .scale_rule = options.numerics.scale_rule,
                                        .tensor_amax = options.tensor_amax},
                                       codes, scales, {.threads = 1})
          : work.quantizer->quantize(options, codes, scales);

  const QuantizedTile quantized{&slice,       tile,         matrix.dtype, work.input.data(),
                                block_format, global_scale, codes,        scales};
  TileCost cost = measure_tile(quantized);
  if (!weights.empty()) cost.output = weighted_error(quantized, weights);
  float stored = 1.0f;
  if (!format.e8m0_scale) {
    const ContainerWriter& writer = writer_of(options_.container);
    // That tool rounds the divisor itself; of a multiplier it has none of its own.
    const bool own =
        options.numerics.compat == Compat::compressed_tensors && writer.stores_divisors();
    stored = own ? tool_global(Compat::compressed_tensors, *options.tensor_amax, matrix.dtype).own
                 : writer.global_scale(global_scale);
  }
  write_blocks(unit, {block_format, slice.rows, slice.cols, tile, codes, scales}, stored, work);
  if (!weights.empty()) {  // beside it what the weights alone would have led to
    options.weights = {};
    work.quantizer->quantize(options, codes, scales);
    cost.output_unweighted = weighted_error(quantized, weights);
  }
  cost_of(matrix.tensor).add(matrix.first_tile + unit.piece, std::move(cost));
}

// Mean squares of the tile's inputs; empty where there are none.
std::span<const float> UnitRunner::weights_of(const QuantizedMatrix& matrix, const Tile& tile,
                                              Workspace& work) const {
  if (!importance_ || !importance_->has(matrix.slice.module)) return {};
  const auto weights = first(work.weights, tile.cols);
  take(importance_->read(matrix.slice.module, tile.col, weights));
  return weights;
}

// With the first tile the scales of the tensor and of its inputs.
void UnitRunner::write_blocks(const Unit& unit, const CodedTile& tile, float stored_global,
                              Workspace& work) {
  writer_of(options_.container)
      .write_tile(tile, matrix_of(unit).at, work.scratch, output_.tile_output(unit.shard));
  if (!info(tile.format).e8m0_scale && unit.piece == 0) write_scales(unit, stored_global);
}

// Of the tensor, and of its inputs where they have one.
void UnitRunner::write_scales(const Unit& unit, float stored_global) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const auto write = [&](std::uint64_t at, float number) {
    output_.write(unit.shard, at, std::bit_cast<std::array<std::uint8_t, 4>>(number));
  };
  write(matrix.at.global_scale, stored_global);
  if (matrix.input_amax == 0) return;
  const ContainerWriter& writer = writer_of(options_.container);
  write(matrix.at.input_scale, writer.input_scale(matrix.format, matrix.input_amax));
}

bool UnitRunner::keep_tile(const Unit& unit, const Tile& tile, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  auto kept = kept_.convert(unit, tile, work.quantizer->buffers(), global_scales_);
  if (!kept) return false;
  if (kept->error.elements > 0) {
    TileCost cost;
    cost.error = kept->error;
    cost_of(matrix.tensor).add(matrix.first_tile + unit.piece, std::move(cost));
  }
  write_blocks(unit, kept->tile, kept->stored_global, work);
  return true;
}

void UnitRunner::copy_piece(const Unit& unit, Workspace& work) {
  const CopiedTensor& copy = plan_.shards[unit.shard].copies[unit.item];
  const TensorEntry& entry = entry_of(copy.tensor);
  const DenseTensor& source = source_of(copy.tensor);
  const std::uint64_t bytes = copied_bytes(source);
  const auto offset = static_cast<std::uint64_t>(unit.piece * copy_bytes);
  const auto length = std::min(static_cast<std::uint64_t>(copy_bytes), bytes - offset);
  const auto buffer = first(work.input, static_cast<std::int64_t>(length));
  take(read_copied(source, offset, buffer, work.scratch));
  output_.write(unit.shard, copy.at + offset, buffer);
  const StoredType type = copied_type(source);
  kept_values_.look_at(copy.tensor, type,
                       static_cast<std::int64_t>(offset * 8) / bits_per_element(type), buffer);
  advance_(static_cast<std::int64_t>(share(source.stored_bytes(), offset + length, bytes) -
                                     share(source.stored_bytes(), offset, bytes)),
           entry.name);
}

void UnitRunner::copy_slice(const Unit& unit, Workspace& work) {
  const CopiedSlice& copy = plan_.shards[unit.shard].slices[unit.item];
  const TensorEntry& entry = entry_of(copy.tensor);
  const std::int64_t size = size_of(*dense_type(entry.type));
  const TileGrid grid(copy.slice.rows, copy.slice.cols);
  for (std::int64_t i = 0; i < grid.count(); ++i) {
    const Tile tile = grid.tile(i);
    const auto buffer = first(work.input, tile.elements() * size);
    take(source_of(copy.tensor).read_tile(copy.slice, tile, buffer, work.scratch));
    output_.write(unit.shard, copy.at + static_cast<std::uint64_t>(tile.row * size), buffer);
    kept_values_.look_at(copy.tensor, entry.type, copy.slice.element(tile.row, 0), buffer);
  }
  advance_(copy.slice.rows * size, entry.name);
}

void UnitRunner::settle_global_scales(const std::vector<Unit>& measured) {
  for (const Unit& unit : measured) {
    const std::size_t group = matrix_of(unit).group;
    const float amax = scan_.amax(group);
    global_scales_[group] = matrix_of(unit).format == WeightFormat::nvfp4
                                ? nvfp4_global_scale(amax, options_.numerics.compat)
                                : fp8_tensor_scale(amax);
  }
}

TensorCost& UnitRunner::cost_of(std::size_t tensor) {
  std::lock_guard lock(costs_mutex_);
  if (!costs_[tensor]) costs_[tensor] = std::make_unique<TensorCost>(plan_.tiles[tensor]);
  return *costs_[tensor];
}

void UnitRunner::report_shard(std::size_t shard, ModelReport& report) {
  for (const CopiedTensor& copy : plan_.shards[shard].copies) {
    report.tensors[copy.tensor].not_finite = kept_values_.of(copy.tensor);
  }
  for (const CopiedSlice& copy : plan_.shards[shard].slices) {
    report.tensors[copy.tensor].not_finite = kept_values_.of(copy.tensor);
  }
  for (const QuantizedMatrix& matrix : plan_.shards[shard].matrices) {
    std::unique_ptr<TensorCost> cost;
    {
      std::lock_guard lock(costs_mutex_);
      cost = std::move(costs_[matrix.tensor]);
    }
    if (matrix.kept) report.tensors[matrix.tensor].kept = kept_.sums(matrix.tensor);
    if (!cost) continue;  // an earlier matrix of the same tensor
    TensorReport& tensor = report.tensors[matrix.tensor];
    cost->finish(tensor);
    if (matrix.format == WeightFormat::nvfp4 && entry_of(matrix.tensor).shape.size() == 2) {
      tensor.global_scale = global_scales_[matrix.group];
    }
    // The axes of the report's histograms are those of its first format.
    if (matrix.format != formats_in(plan_).front()) tensor.scale_codes = tensor.element_codes = {};
  }
}

}  // namespace microscale
