#include "checkpoint/schedule.hpp"

#include "checkpoint/tile.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {
namespace {

class Scheduler {
 public:
  Scheduler(const ModelPlan& plan, std::int64_t batch_bytes)
      : plan_(plan), batch_bytes_(batch_bytes), measured_(plan.groups.size()), batches_(1) {}

  void add_shard(std::uint32_t shard) {
    const ShardPlan& output = plan_.shards[shard];
    add({Unit::Kind::header, shard, 0, 0}, 0);
    for (std::uint32_t item = 0; item < output.copies.size(); ++item) {
      const auto bytes = static_cast<std::int64_t>(
          copied_bytes(*plan_.tensors[output.copies[item].tensor].source));
      for (std::int64_t piece = 0; piece * copy_bytes < bytes; ++piece) {
        add({Unit::Kind::copy, shard, item, piece}, copy_bytes);
      }
    }
    for (std::uint32_t item = 0; item < output.slices.size(); ++item) {
      add({Unit::Kind::slice, shard, item, 0}, 0);
    }
    for (std::uint32_t item = 0; item < output.matrices.size(); ++item) {
      const QuantizedMatrix& matrix = output.matrices[item];
      const TileGrid grid(matrix.slice.rows, matrix.slice.cols);
      for (std::int64_t tile = 0; tile < grid.count(); ++tile) {
        add({Unit::Kind::quantize, shard, item, tile},
            grid.tile(tile).elements() * size_of(matrix.dtype));
        const bool keeps_scale = matrix.kept && !matrix.kept->cast();
        if (has_tensor_scale(matrix.format) && !keeps_scale) measure_group(matrix.group);
      }
    }
  }

  std::vector<Batch> finish() { return std::move(batches_); }

 private:
  void add(const Unit& unit, std::int64_t bytes) {
    if (bytes_ >= batch_bytes_) {
      batches_.emplace_back();
      bytes_ = 0;
    }
    bytes_ += bytes;
    batches_.back().convert.push_back(unit);
  }

  // All members, wherever they are, in the batch that first needs one.
  void measure_group(std::size_t group) {
    if (measured_[group]) return;
    measured_[group] = true;
    for (const MatrixId& member : plan_.groups[group]) {
      const MatrixSlice& slice = plan_.shards[member.shard].matrices[member.matrix].slice;
      const std::int64_t tiles = TileGrid(slice.rows, slice.cols).count();
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        batches_.back().measure.push_back({Unit::Kind::measure,
                                           static_cast<std::uint32_t>(member.shard),
                                           static_cast<std::uint32_t>(member.matrix), tile});
      }
    }
  }

  const ModelPlan& plan_;
  std::int64_t batch_bytes_;
  std::vector<bool> measured_;
  std::vector<Batch> batches_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::vector<Batch> make_schedule(const ModelPlan& plan, const std::vector<bool>& done,
                                 std::int64_t batch_bytes) {
  Scheduler scheduler(plan, batch_bytes);
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    if (!done[shard]) scheduler.add_shard(static_cast<std::uint32_t>(shard));
  }
  return scheduler.finish();
}

}  // namespace microscale
