#include "checkpoint/tensor_hashes.hpp"

#include <fmt/format.h>
#include <xxhash.h>
#if defined(MICROSCALE_XXHASH_DISPATCH)
#include <xxh_x86dispatch.h>  // XXH3_128bits and its update are macros from here on
#endif

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace microscale {
namespace {

constexpr std::size_t read_back_bytes = 64 * 1024;

TensorHash converted(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

}  // namespace

std::string to_string(const TensorHash& hash) {
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

std::optional<TensorHash> tensor_hash_from(std::string_view text) {
  TensorHash hash;
  if (text.size() != 32) return std::nullopt;
  for (const auto& [begin, part] : {std::pair(0, &hash.high), std::pair(16, &hash.low)}) {
    const char* first = text.data() + begin;
    const auto parsed = std::from_chars(first, first + 16, *part, 16);
    if (parsed.ec != std::errc() || parsed.ptr != first + 16) return std::nullopt;
  }
  return hash;
}

TensorHash hash_of(std::span<const std::uint8_t> bytes) {
  return converted(XXH3_128bits(bytes.data(), bytes.size()));
}

struct StreamHash::State {
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> xxh{XXH3_createState(),
                                                                      XXH3_freeState};
};

StreamHash::StreamHash() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(state_->xxh.get());
}

StreamHash::~StreamHash() = default;

void StreamHash::add(std::span<const std::uint8_t> bytes) {
  XXH3_128bits_update(state_->xxh.get(), bytes.data(), bytes.size());
}

TensorHash StreamHash::finish() const { return converted(XXH3_128bits_digest(state_->xxh.get())); }

struct TensorHashes::Progress {
  StreamHash hash;
  std::uint64_t next = 0;                          // bytes that are in the hash
  bool busy = false;                               // a thread adds to the hash
  std::map<std::uint64_t, std::uint64_t> waiting;  // pieces that came early: begin, length
};

TensorHashes::TensorHashes(std::vector<std::uint64_t> lengths)
    : lengths_(std::move(lengths)), hashes_(lengths_.size(), hash_of({})) {}

TensorHashes::~TensorHashes() = default;

void TensorHashes::add(std::size_t tensor, std::uint64_t at, std::span<const std::uint8_t> bytes,
                       const ReadBack& read_back) {
  if (bytes.empty()) return;
  std::unique_lock lock(mutex_);
  std::unique_ptr<Progress>& place = in_work_[tensor];
  if (!place) place = std::make_unique<Progress>();
  Progress& progress = *place;
  if (progress.busy || at != progress.next) {
    progress.waiting.emplace(at, bytes.size());
    return;
  }
  progress.busy = true;
  lock.unlock();
  progress.hash.add(bytes);
  std::uint64_t end = at + bytes.size();
  std::vector<std::uint8_t> buffer;
  for (;;) {
    lock.lock();
    progress.next = end;
    const auto piece = progress.waiting.find(end);
    if (piece == progress.waiting.end()) break;
    const std::uint64_t stop = end + piece->second;
    progress.waiting.erase(piece);
    lock.unlock();
    for (buffer.resize(read_back_bytes); end < stop;) {
      const auto part = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), stop - end));
      read_back(end, part);
      progress.hash.add(part);
      end += part.size();
    }
  }
  progress.busy = false;
  if (end != lengths_[tensor]) return;
  hashes_[tensor] = progress.hash.finish();
  in_work_.erase(tensor);
}

}  // namespace microscale
