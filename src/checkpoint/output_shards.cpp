#include "checkpoint/output_shards.hpp"

#include <algorithm>

#include "core/result.hpp"

namespace microscale {
namespace {

// Smaller writes are left to the kernel's own write-back.
constexpr std::size_t flush_bytes = 256 * 1024;

}  // namespace

OutputShards::OutputShards(const ModelPlan& plan, std::filesystem::path folder)
    : plan_(plan), folder_(std::move(folder)) {
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    shards_.push_back(std::make_unique<Shard>());
  }
}

const OutputFile& OutputShards::file(std::size_t shard) {
  Shard& state = *shards_[shard];
  std::lock_guard lock(state.mutex);
  if (!state.file) {
    const auto create = plan_.one_file ? OutputFile::create_among_others : OutputFile::create;
    state.file.emplace(
        take(create(folder_ / plan_.shards[shard].name, plan_.shards[shard].layout.file_size)));
    if (plan_.one_file) return *state.file;
    std::vector<std::uint64_t> lengths;
    for (const TensorEntry& tensor : plan_.shards[shard].layout.tensors) {
      lengths.push_back(tensor.bytes());
    }
    state.in_work = std::make_unique<TensorHashes>(std::move(lengths));
  }
  return *state.file;
}

void OutputShards::write(std::size_t shard, std::uint64_t at, std::span<const std::uint8_t> bytes) {
  const OutputFile& output = file(shard);
  take(output.write_at(at, bytes));
  if (!plan_.one_file) hash(shard, at, bytes);
  if (bytes.size() >= flush_bytes) output.flush_range(at, bytes.size());
}

void OutputShards::update(std::size_t shard, std::uint64_t at, std::uint64_t length,
                          const std::function<void(std::span<std::uint8_t>)>& change) {
  const OutputFile& output = file(shard);
  std::vector<std::uint8_t> bytes(length);
  std::lock_guard lock(shards_[shard]->update_mutex);
  take(output.read_at(at, bytes));
  change(bytes);
  take(output.write_at(at, bytes));
}

TileOutput OutputShards::tile_output(std::size_t shard) {
  return {[this, shard](std::uint64_t at, std::span<const std::uint8_t> bytes) {
            write(shard, at, bytes);
          },
          [this, shard](std::uint64_t at, std::uint64_t length, const auto& change) {
            update(shard, at, length, change);
          }};
}

void OutputShards::hash(std::size_t shard, std::uint64_t at, std::span<const std::uint8_t> bytes) {
  // The last that begins there or before: an empty one stands before the one that shares its place.
  const auto& tensors = plan_.shards[shard].layout.tensors;
  const auto next = std::upper_bound(
      tensors.begin(), tensors.end(), at,
      [](std::uint64_t place, const TensorEntry& tensor) { return place < tensor.begin; });
  if (next == tensors.begin()) return;  // the header
  const TensorEntry& tensor = *(next - 1);
  const Shard& state = *shards_[shard];
  state.in_work->add(static_cast<std::size_t>(next - 1 - tensors.begin()), at - tensor.begin, bytes,
                     [&](std::uint64_t place, std::span<std::uint8_t> out) {
                       take(state.file->read_at(tensor.begin + place, out));
                     });
}

void OutputShards::set_hashes(std::size_t shard, std::vector<TensorHash> hashes) {
  shards_[shard]->hashes = std::move(hashes);
}

std::filesystem::path OutputShards::commit(std::size_t shard) {
  Shard& state = *shards_[shard];
  take(state.file->commit());
  state.file.reset();
  if (plan_.one_file) return folder_ / plan_.shards[shard].name;
  for (std::size_t i = 0; i < state.in_work->size(); ++i) {
    state.hashes.push_back(state.in_work->of(i));
  }
  state.in_work.reset();
  return folder_ / plan_.shards[shard].name;
}

}  // namespace microscale
