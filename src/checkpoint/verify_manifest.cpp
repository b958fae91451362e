// The manifest against the tensors: what was changed, lost or added since the folder was written.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

std::string described(StoredType type, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", to_string(type), fmt::join(shape, ", "));
}

}  // namespace

std::optional<Manifest> read_manifest(const ModelFolder& model, Findings& findings) {
  const std::filesystem::path path = model.root / manifest_name;
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

void verify_manifest(const ModelFolder& model, const Manifest& manifest, const TensorHashes& hashes,
                     Findings& findings) {
  constexpr const char* advice = "copy the file again or convert the model again";
  const auto report = [&](std::string_view rule, std::string_view file, std::string_view tensor,
                          const std::string& text) {
    findings.push_back(make_finding(Severity::error, rule, file, tensor, text));
  };
  for (std::size_t i = 0; i < model.tensors.size(); ++i) {
    const ModelTensor& tensor = model.tensors[i];
    const std::string& file = model.shards[tensor.shard].name;
    const auto found = manifest.find(tensor.name());
    if (found == manifest.end()) {
      report("manifest-added", file, tensor.name(),
             fmt::format("it was added after the folder was written: {} does not list it; remove "
                         "the tensor, or the manifest if it is meant",
                         manifest_name));
      continue;
    }
    const ManifestTensor& wanted = found->second;
    const TensorEntry& entry = *tensor.entry;
    if (wanted.type != entry.type || wanted.shape != entry.shape) {
      report("manifest-type", file, tensor.name(),
             fmt::format("it is {}, but {} when the folder was written; {}",
                         described(entry.type, entry.shape), described(wanted.type, wanted.shape),
                         advice));
    } else if (wanted.hash != hashes.of(i)) {
      report(
          "manifest-hash", file, tensor.name(),
          fmt::format("its bytes were changed after the folder was written (hash {}, then {}); {}",
                      to_string(hashes.of(i)), to_string(wanted.hash), advice));
    }
  }
  for (const auto& [name, wanted] : manifest) {
    // One file by itself has its own tensors only.
    if (model.find(name) || (!model.whole_folder && wanted.file != model.shards.front().name)) {
      continue;
    }
    report("manifest-missing", wanted.file, name,
           fmt::format("it was in the folder when that was written and is missing; {}", advice));
  }
}

}  // namespace microscale
