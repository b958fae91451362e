#include "microscale/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/json.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

/// All of a file, to be read.
class Mapping {
 public:
  Mapping(const std::filesystem::path& path, std::uint64_t size) : size_(size) {
    if (size == 0) return;
    const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* const start =
        descriptor < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    const int reason = errno;
    struct stat facts {};
    const bool shorter = descriptor >= 0 && fstat(descriptor, &facts) == 0 &&
                         static_cast<std::uint64_t>(facts.st_size) < size;
    if (descriptor >= 0) close(descriptor);
    if (start == MAP_FAILED)
      throw Error(ErrorCode::io, fmt::format("checkpoint: cannot map '{}': {}", path.string(),
                                             std::strerror(reason)));
    start_ = static_cast<const std::uint8_t*>(start);
    if (shorter) {
      unmap();
      throw Error(ErrorCode::io, fmt::format("checkpoint: '{}' has become shorter while it was "
                                             "opened; open it again when it is whole",
                                             path.string()));
    }
  }
  Mapping(Mapping&& other) noexcept
      : start_(std::exchange(other.start_, nullptr)), size_(other.size_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() { unmap(); }

  std::span<const std::uint8_t> bytes(const TensorEntry& entry) const {
    return {start_ + entry.begin, static_cast<std::size_t>(entry.bytes())};
  }

 private:
  void unmap() {
    if (start_) munmap(const_cast<std::uint8_t*>(start_), size_);
    start_ = nullptr;
  }
  const std::uint8_t* start_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

struct CheckpointFile::Opened {
  QuantizedFolder folder;
  std::vector<Mapping> mappings;  // of the shards
  std::vector<CheckpointTensor> tensors;

  std::span<const std::uint8_t> bytes(const ModelTensor& tensor) const {
    return mappings[tensor.shard].bytes(*tensor.entry);
  }

  CheckpointTensor tensor_of(const LogicalTensor& logical) const {
    CheckpointTensor tensor;
    tensor.name = logical.name;
    tensor.shape = logical.shape;
    if (logical.stored) {
      tensor.dtype = to_string(logical.stored->entry->type);
      tensor.file = folder.file_of(*logical.stored);
      tensor.bytes = bytes(*logical.stored);
      return tensor;
    }
    if (logical.weight) {
      const ModelTensor& codes = logical.weight->codes();
      throw Error(ErrorCode::unsupported,
                  fmt::format("'{}': {} is {}, of which no view can be had; `dequantize` the model "
                              "first",
                              folder.model.opened.string(), in_quotes(codes.name()),
                              logical.weight->facts().description));
    }
    const QuantizedModule& module = *logical.module;
    tensor.dtype = info(module.format).name;
    tensor.file = folder.file_of(*module.codes);
    tensor.bytes = bytes(*module.codes);
    const BlockShape shape{module.rows, module.cols, module.format};
    tensor.blocks = BlockTensorView{shape, tensor.bytes, bytes(*module.scales), 1.0f};
    if (module.format == Format::nvfp4) tensor.blocks->global_scale = module.multiplier;
    tensor.multiplier_rounded = module.must_divide;
    return tensor;
  }
};

CheckpointFile::CheckpointFile(const std::filesystem::path& path) {
  auto opened = std::make_unique<Opened>();
  opened->folder = take(open_whole_quantized_folder(path));
  for (const ModelShard& shard : opened->folder.model.shards)
    opened->mappings.emplace_back(shard.file.path(), shard.file.size());
  for (const LogicalTensor& tensor : opened->folder.tensors)
    opened->tensors.push_back(opened->tensor_of(tensor));
  opened_ = std::move(opened);
}

CheckpointFile::CheckpointFile(CheckpointFile&&) noexcept = default;
CheckpointFile& CheckpointFile::operator=(CheckpointFile&&) noexcept = default;
CheckpointFile::~CheckpointFile() = default;

std::span<const CheckpointTensor> CheckpointFile::tensors() const { return opened_->tensors; }

const CheckpointTensor* CheckpointFile::find(std::string_view name) const {
  const LogicalTensor* const found = opened_->folder.find(name);
  if (!found) return nullptr;
  return &opened_->tensors[static_cast<std::size_t>(found - opened_->folder.tensors.data())];
}

}  // namespace microscale
