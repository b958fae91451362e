// One hash for each of many tensors whose bytes come in pieces, in any order and from many threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace microscale {

/// XXH3-128: equal bytes have equal ones, and bytes changed by accident do not.
struct TensorHash {
  std::uint64_t high = 0, low = 0;
  bool operator==(const TensorHash&) const = default;
};

/// 32 hexadecimal digits, as xxhash prints them.
std::string to_string(const TensorHash& hash);
/// Nothing unless `text` is that.
std::optional<TensorHash> tensor_hash_from(std::string_view text);
/// Of bytes that are there at once.
TensorHash hash_of(std::span<const std::uint8_t> bytes);

/// Of bytes that come in order.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();

  void add(std::span<const std::uint8_t> bytes);
  /// Of all that was added.
  TensorHash finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Memory: 16 bytes a tensor, and about 1 KiB for each that is in work.
class TensorHashes {
 public:
  /// Fills `out` from byte `at` of the tensor on; may throw.
  using ReadBack = std::function<void(std::uint64_t at, std::span<std::uint8_t> out)>;

  /// `lengths`: bytes of each tensor.
  explicit TensorHashes(std::vector<std::uint64_t> lengths);
  ~TensorHashes();

  /// Bytes [at, at + bytes.size()) of a tensor; each byte is given once. The hash goes from front
  /// to back: a piece that comes early is noted, and read back when it is its turn, by whichever
  /// thread gets there. So from now on `read_back` must give these bytes, and no thread waits for
  /// another.
  void add(std::size_t tensor, std::uint64_t at, std::span<const std::uint8_t> bytes,
           const ReadBack& read_back);

  /// Of a tensor of which all has been given.
  TensorHash of(std::size_t tensor) const { return hashes_[tensor]; }
  std::size_t size() const { return hashes_.size(); }

 private:
  struct Progress;
  std::vector<std::uint64_t> lengths_;
  std::vector<TensorHash> hashes_;
  std::mutex mutex_;  // guards in_work_, the members of its entries, and hashes_
  std::unordered_map<std::size_t, std::unique_ptr<Progress>> in_work_;
};

}  // namespace microscale
