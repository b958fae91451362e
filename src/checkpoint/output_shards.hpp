// The output files while they are being written: opened when first needed, completed by whichever
// worker finishes the last of a file's units.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/tensor_hashes.hpp"

namespace microscale {

/// write() and finish_unit() may be called from many threads at once.
class OutputShards {
 public:
  OutputShards(const ModelPlan& plan, std::filesystem::path folder);

  /// `units` units are to be finished before this shard is complete.
  void expect(std::size_t shard, std::int64_t units) { shards_[shard]->remaining += units; }

  /// Throws Error. Reserves the room for the whole file with the first write to it. `bytes` lie
  /// within one tensor, or before the first; each byte of a tensor is written once, and hashed if
  /// the plan is of a folder, which has a manifest.
  void write(std::size_t shard, std::uint64_t at, std::span<const std::uint8_t> bytes);

  /// Changes bytes where they lie, one caller at a time; only where nothing is hashed. Throws
  /// Error.
  void update(std::size_t shard, std::uint64_t at, std::uint64_t length,
              const std::function<void(std::span<std::uint8_t>)>& change);

  /// Both for a writer of tiles.
  TileOutput tile_output(std::size_t shard);

  /// True for the last unit of the shard: the caller then calls commit().
  bool finish_unit(std::size_t shard) { return --shards_[shard]->remaining == 0; }

  /// Gives the file its final name and says where it is. Throws Error.
  std::filesystem::path commit(std::size_t shard);

  /// Of a shard that is complete: a hash for each tensor of its layout.
  const std::vector<TensorHash>& hashes(std::size_t shard) const { return shards_[shard]->hashes; }
  /// Of a shard that an earlier run completed.
  void set_hashes(std::size_t shard, std::vector<TensorHash> hashes);

 private:
  struct Shard {
    std::mutex mutex;         // guards the opening of the file
    std::mutex update_mutex;  // one update at a time
    std::optional<OutputFile> file;
    std::unique_ptr<TensorHashes> in_work;  // while the file is open
    std::vector<TensorHash> hashes;         // afterwards
    std::atomic<std::int64_t> remaining{0};
  };
  const OutputFile& file(std::size_t shard);
  void hash(std::size_t shard, std::uint64_t at, std::span<const std::uint8_t> bytes);

  const ModelPlan& plan_;
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace microscale
