#include "checkpoint/format_errors.hpp"

#include <algorithm>
#include <mutex>

#include "checkpoint/checked_tile.hpp"
#include "checkpoint/memory_budget.hpp"
#include "core/threads.hpp"

namespace microscale {
namespace {

constexpr std::int64_t smallest_block = 16;
constexpr std::int64_t input_bytes = tile_elements * 4;
constexpr std::int64_t worker_slack_bytes = std::int64_t{1} << 20;
constexpr std::int64_t shared_bytes = std::int64_t{8} << 20;
// Input per batch, read twice: once for the global scales, then from the page cache.
constexpr std::int64_t batch_bytes = std::int64_t{256} << 20;

template <class Buffer>
auto first(Buffer& buffer, std::int64_t count) {
  return std::span(buffer).first(static_cast<std::size_t>(count));
}

std::int64_t tiles_of(const QuantizedMatrix& matrix) {
  return TileGrid(matrix.slice.rows, matrix.slice.cols).count();
}

}  // namespace

FormatErrors::FormatErrors(const ModelPlan& plan, const QuantizeModelOptions& options,
                           const std::vector<std::vector<WeightFormat>>& formats)
    : plan_(plan), options_(options), formats_(formats), scan_(plan), sums_(plan.shards.size()) {
  if (!options.importance.empty()) importance_ = take(Importance::open(options.importance, plan));
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    for (const QuantizedMatrix& matrix : plan.shards[shard].matrices) {
      sums_[shard].emplace_back(static_cast<std::size_t>(tiles_of(matrix)) *
                                formats_of(matrix).size());
      transposed_ |= matrix.slice.col_step != 1;
      const Tile tile = TileGrid(matrix.slice.rows, matrix.slice.cols).tile(0);
      longest_row_ = std::max(longest_row_, tile.cols);
      most_rows_ = std::max(most_rows_, tile.rows);
    }
  }
}

std::int64_t FormatErrors::bytes() const {
  std::int64_t bytes = 0;
  for (const ShardPlan& shard : plan_.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (!formats_of(matrix).empty())
        bytes += matrix.slice.rows * matrix.slice.cols * size_of(matrix.dtype);
    }
  }
  return bytes;
}

Workspace FormatErrors::make_workspace(const TileQuantizerFactory& quantizers, int worker) const {
  Workspace work(quantizers(worker, {input_bytes, tile_elements, tile_elements / smallest_block}));
  if (transposed_) work.scratch.resize(static_cast<std::size_t>(tile_scratch_bytes));
  if (importance_) work.weights.resize(static_cast<std::size_t>(longest_row_));
  work.row_scales.resize(static_cast<std::size_t>(most_rows_));
  return work;
}

void FormatErrors::run(const TileQuantizerFactory& quantizers, const Advance& advance) {
  // quantize_into copies the weights once more.
  const std::int64_t worker_bytes =
      input_bytes + tile_elements + tile_elements / smallest_block + worker_slack_bytes +
      (transposed_ ? tile_scratch_bytes : 0) + most_rows_ * 2 +
      (importance_ ? 2 * longest_row_ * std::int64_t{sizeof(float)} : 0);
  const int wanted = options_.threads > 0
                         ? options_.threads
                         : std::max(available_cores(), static_cast<int>(options_.gpus.size()));
  const int workers =
      workers_within(options_.max_memory, resident_bytes(), shared_bytes, worker_bytes, wanted);
  std::vector<Workspace> workspaces;
  for (int i = 0; i < workers; ++i) workspaces.push_back(make_workspace(quantizers, i));
  std::mutex progress;
  const auto run_units = [&](const std::vector<Unit>& units) {
    parallel_for_worker(static_cast<std::int64_t>(units.size()), workers,
                        [&](std::int64_t i, int worker) {
                          const Unit& unit = units[static_cast<std::size_t>(i)];
                          const QuantizedMatrix& matrix = matrix_of(unit);
                          if (formats_of(matrix).empty()) return;
                          Workspace& work = workspaces[static_cast<std::size_t>(worker)];
                          const Tile tile = tile_of(plan_, unit);
                          if (unit.kind == Unit::Kind::measure) {
                            read_checked_tile(plan_, unit, tile, work.input, work.scratch, scan_);
                            return;
                          }
                          measure(unit, work);
                          std::lock_guard lock(progress);
                          advance(tile.elements() * size_of(matrix.dtype),
                                  plan_.tensors[matrix.tensor].entry->name);
                        });
    take(scan_.result());
  };
  const std::vector<bool> none(plan_.shards.size());
  for (const Batch& batch : make_schedule(plan_, none, batch_bytes)) {
    run_units(batch.measure);
    std::vector<Unit> tiles;
    std::copy_if(batch.convert.begin(), batch.convert.end(), std::back_inserter(tiles),
                 [](const Unit& unit) { return unit.kind == Unit::Kind::quantize; });
    run_units(tiles);
  }
  if (by_gradients()) mean_power_ = mean_power();
}

void FormatErrors::measure(const Unit& unit, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const Tile tile = tile_of(plan_, unit);
  if (!read_checked_tile(plan_, unit, tile, work.input, work.scratch, scan_)) return;
  std::span<const float> weights;
  if (weighted(matrix)) {
    const auto columns = first(work.weights, tile.cols);
    take(importance_->read(matrix.slice.module, tile.col, columns));
    weights = columns;
  }
  const std::vector<WeightFormat>& formats = formats_of(matrix);
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const auto at = static_cast<std::size_t>(unit.piece) * formats.size() + i;
    const auto format = blocks_of(formats[i]);
    sums_[unit.shard][unit.item][at] =
        format ? blocks(unit, tile, *format, weights, work) : rows(unit, tile, weights, work);
  }
}

WeightedSums FormatErrors::blocks(const Unit& unit, const Tile& tile, Format format,
                                  std::span<const float> weights, Workspace& work) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const FormatInfo& facts = info(format);
  QuantizeOptions options;
  options.input = {work.input.data(), matrix.dtype, tile.rows, tile.cols, tile.cols};
  options.format = format;
  options.numerics = numerics_of(options_, format);
  options.first_index = static_cast<std::uint64_t>(tile.row * matrix.slice.cols + tile.col);
  options.weights = weights;
  if (!facts.e8m0_scale) options.tensor_amax = scan_.amax(matrix.group);
  if (options.tensor_amax == 0.0f) options.numerics.compat = Compat::none;
  const auto codes = first(work.codes, code_bytes(facts, tile.elements()));
  const auto scales = first(work.scales, tile.elements() / facts.block);
  const float global_scale = work.quantizer->quantize(options, codes, scales);
  return weighted_error(
      {&matrix.slice, tile, matrix.dtype, work.input.data(), format, global_scale, codes, scales},
      weights);
}

WeightedSums FormatErrors::rows(const Unit& unit, const Tile& tile, std::span<const float> weights,
                                Workspace& work) const {
  const DenseRows input{work.input.data(), matrix_of(unit).dtype, tile.rows, tile.cols};
  const auto codes = first(work.codes, tile.elements());
  const auto scales = first(work.row_scales, tile.rows);
  quantize_fp8_rows(input, codes, scales);
  return weighted_error(input, codes, scales, weights);
}

std::vector<WeightedSums> FormatErrors::totals(std::size_t shard, std::size_t matrix) const {
  const std::vector<WeightedSums>& tiles = sums_[shard][matrix];
  std::vector<WeightedSums> totals(formats_of(plan_.shards[shard].matrices[matrix]).size());
  for (std::size_t i = 0; i < tiles.size(); ++i) totals[i % totals.size()].merge(tiles[i]);
  return totals;
}

std::vector<double> FormatErrors::shares(std::size_t shard, std::size_t matrix) const {
  std::vector<double> shares;
  for (const WeightedSums& total : totals(shard, matrix)) shares.push_back(total.share());
  return shares;
}

// What an error as large as the output would add, of the matrices with statistics.
double FormatErrors::mean_power() const {
  double sum = 0;
  int count = 0;
  for (std::size_t shard = 0; shard < plan_.shards.size(); ++shard) {
    const std::vector<QuantizedMatrix>& matrices = plan_.shards[shard].matrices;
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      if (!weighted(matrices[i]) || formats_of(matrices[i]).empty()) continue;
      sum += totals(shard, i).front().original * importance_->reach(matrices[i].slice.module) / 2;
      ++count;
    }
  }
  return count > 0 ? sum / count : 1;
}

std::vector<double> FormatErrors::divergences(std::size_t shard, std::size_t matrix) const {
  const QuantizedMatrix& facts = plan_.shards[shard].matrices[matrix];
  std::vector<double> found = shares(shard, matrix);
  if (!weighted(facts)) {
    for (double& one : found) one *= mean_power_;
    return found;
  }
  const std::vector<WeightedSums> sums = totals(shard, matrix);
  const double reach = importance_->reach(facts.slice.module);
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = sums[i].error * reach / 2;
  return found;
}

}  // namespace microscale
