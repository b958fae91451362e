#include "checkpoint/output_shards.hpp"

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
    state.file.emplace(take(OutputFile::create(folder_ / plan_.model.shards[shard].name,
                                               plan_.shards[shard].layout.file_size)));
  }
  return *state.file;
}

void OutputShards::write(std::size_t shard, std::uint64_t at, std::span<const std::uint8_t> bytes) {
  const OutputFile& output = file(shard);
  take(output.write_at(at, bytes));
  if (bytes.size() >= flush_bytes) output.flush_range(at, bytes.size());
}

std::filesystem::path OutputShards::commit(std::size_t shard) {
  Shard& state = *shards_[shard];
  take(state.file->commit());
  state.file.reset();
  return folder_ / plan_.model.shards[shard].name;
}

}  // namespace microscale
