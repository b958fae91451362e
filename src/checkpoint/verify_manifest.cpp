// The manifest against the folder: what was changed, lost or added since that was written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/verify_model.hpp"
#include "core/threads.hpp"

namespace microscale {
namespace {

constexpr const char* advice = "copy the file again or convert the model again";
constexpr std::uint64_t hashed_piece = 4 << 20;  // bytes that a worker reads at once

std::string described(StoredType type, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", to_string(type), fmt::join(shape, ", "));
}

class ManifestCheck {
 public:
  ManifestCheck(const ModelFolder& model, const Manifest& manifest, Findings& findings)
      : model_(model), manifest_(manifest), findings_(findings) {}

  void check_tensors(const TensorHashes& hashes) {
    for (std::size_t i = 0; i < model_.tensors.size(); ++i) {
      const ModelTensor& tensor = model_.tensors[i];
      const std::string& file = model_.shards[tensor.shard].name;
      if (manifest_.other_files.contains(file)) continue;  // is hashed as a whole
      const auto wanted = manifest_.tensors.find(tensor.name());
      if (wanted != manifest_.tensors.end()) {
        check_tensor(file, *tensor.entry, wanted->second, hashes.of(i));
      } else if (!model_.shards[tensor.shard].side) {
        report(Severity::error, "manifest-added", file, tensor.name(),
               fmt::format("it was added after the folder was written: {} does not list it; remove "
                           "the tensor, or the manifest if it is meant",
                           manifest_name));
      }
    }
    for (const auto& [name, wanted] : manifest_.tensors) {
      // One file by itself has its own tensors only.
      const bool elsewhere = !model_.whole_folder && wanted.file != model_.shards.front().name;
      if (model_.find(name) || elsewhere) continue;
      report(Severity::error, "manifest-missing", wanted.file, name,
             fmt::format("it was in the folder when that was written and is missing; {}", advice));
    }
  }

  void check_files() {
    for (const auto& [name, wanted] : manifest_.other_files) {
      if (!model_.whole_folder && name != model_.shards.front().name) continue;
      check_file(name, wanted);
    }
    for (const ModelShard& shard : model_.shards) {
      if (!shard.side || shard.header.tensors.empty() || is_known(shard.name)) continue;
      report(Severity::warning, "manifest-added", shard.name, "",
             fmt::format("the file was added after the folder was written: {} does not list it",
                         manifest_name));
    }
  }

 private:
  void report(Severity severity, std::string_view rule, std::string_view file,
              std::string_view tensor, const std::string& text) {
    findings_.push_back(make_finding(severity, rule, file, tensor, text));
  }

  bool is_known(const std::string& file) const {
    return manifest_.other_files.contains(file) ||
           std::any_of(manifest_.tensors.begin(), manifest_.tensors.end(),
                       [&](const auto& tensor) { return tensor.second.file == file; });
  }

  void check_tensor(const std::string& file, const TensorEntry& entry, const ManifestTensor& wanted,
                    const TensorHash& hash) {
    if (wanted.type != entry.type || wanted.shape != entry.shape) {
      report(Severity::error, "manifest-type", file, entry.name,
             fmt::format("it is {}, but {} when the folder was written; {}",
                         described(entry.type, entry.shape), described(wanted.type, wanted.shape),
                         advice));
    } else if (wanted.hash != hash) {
      report(
          Severity::error, "manifest-hash", file, entry.name,
          fmt::format("its bytes were changed after the folder was written (hash {}, then {}); {}",
                      to_string(hash), to_string(wanted.hash), advice));
    }
  }

  // Files of text may be edited on purpose, weights are not.
  void check_file(const std::string& name, const ManifestFile& wanted) {
    const Severity severity = holds_weights(name) ? Severity::error : Severity::warning;
    const std::filesystem::path path = model_.root / name;
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      report(severity, "manifest-file", name, "",
             fmt::format("the file was in the folder when that was written and is missing; {}",
                         advice));
      return;
    }
    const auto found = hash_file(path);
    if (!found) {
      report(Severity::error, "manifest-file", name, "", found.failure().message);
    } else if (found.value() != wanted) {
      report(
          severity, "manifest-file", name, "",
          fmt::format("the file was changed after the folder was written ({}){}",
                      found.value().bytes != wanted.bytes
                          ? fmt::format("{} bytes, then {}", found.value().bytes, wanted.bytes)
                          : fmt::format("the same {} bytes long, with another hash", wanted.bytes),
                      severity == Severity::error ? fmt::format("; {}", advice) : ""));
    }
  }

  const ModelFolder& model_;
  const Manifest& manifest_;
  Findings& findings_;
};

// Reads all of the tensors, on `threads` cores.
void hash_tensors(const ModelFolder& model, int threads, const ProgressCallback& progress,
                  TensorHashes& hashes) {
  struct Piece {
    std::size_t tensor = 0;
    std::uint64_t at = 0, length = 0;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const std::uint64_t bytes = model.tensors[i].entry->bytes();
    for (std::uint64_t at = 0; at < bytes; at += hashed_piece) {
      pieces.push_back({i, at, std::min(hashed_piece, bytes - at)});
    }
  }
  const int workers = threads > 0 ? threads : available_cores();
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(workers));
  std::mutex mutex;
  std::int64_t done = 0;
  const auto total = static_cast<std::int64_t>(model.tensor_bytes());
  parallel_for_worker(
      static_cast<std::int64_t>(pieces.size()), workers, [&](std::int64_t i, int worker) {
        const Piece& piece = pieces[static_cast<std::size_t>(i)];
        const ModelTensor& tensor = model.tensors[piece.tensor];
        const auto read = [&](std::uint64_t at, std::span<std::uint8_t> out) {
          take(model.shards[tensor.shard].file.read_at(tensor.entry->begin + at, out));
        };
        std::vector<std::uint8_t>& bytes = buffers[static_cast<std::size_t>(worker)];
        bytes.resize(piece.length);
        read(piece.at, bytes);
        hashes.add(piece.tensor, piece.at, bytes, read);
        std::lock_guard lock(mutex);
        done += static_cast<std::int64_t>(piece.length);
        if (progress && !progress(done, total, tensor.name())) {
          throw Error(ErrorCode::interrupted, "stopped before all hashes were checked");
        }
      });
}

}  // namespace

std::optional<Manifest> read_manifest(const std::filesystem::path& root, Findings& findings) {
  const std::filesystem::path path = root / manifest_name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  auto text = read_small_file(path, largest_manifest);
  auto manifest = text ? parse_manifest(text.value()) : text.failure();
  if (manifest) return std::move(manifest.value());
  const bool newer = manifest.failure().code == ErrorCode::unsupported;
  findings.push_back(make_finding(
      newer ? Severity::warning : Severity::error, "manifest-unreadable", manifest_name, "",
      fmt::format("{}, so bytes are not checked against it; {}", manifest.failure().message,
                  newer ? "use a newer microscale" : "copy it again, or remove it")));
  return std::nullopt;
}

std::vector<std::uint64_t> lengths_of(const ModelFolder& model) {
  std::vector<std::uint64_t> lengths;
  for (const ModelTensor& tensor : model.tensors) lengths.push_back(tensor.entry->bytes());
  return lengths;
}

void verify_manifest(const ModelFolder& model, const Manifest& manifest, const TensorHashes& hashes,
                     Findings& findings) {
  ManifestCheck check(model, manifest, findings);
  check.check_tensors(hashes);
  check.check_files();
}

Findings verify_tensor_hashes(const ModelFolder& model, const Manifest& manifest, int threads,
                              const ProgressCallback& progress) {
  Findings findings;
  TensorHashes hashes(lengths_of(model));
  hash_tensors(model, threads, progress, hashes);
  ManifestCheck(model, manifest, findings).check_tensors(hashes);
  return findings;
}

}  // namespace microscale
