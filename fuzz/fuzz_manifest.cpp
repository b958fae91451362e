// Any bytes as a manifest: what is accepted has whole entries, and is written and read back equal.
#include <cstddef>
#include <cstdint>
#include <map>

#include "checkpoint/manifest.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace microscale;
  const auto manifest = parse_manifest({reinterpret_cast<const char*>(data), size});
  if (!manifest) {
    REQUIRE(!manifest.failure().message.empty());
    return 0;
  }
  std::map<std::string, std::vector<TensorEntry>> tensors;
  std::map<std::string, std::vector<TensorHash>> hashes;
  for (const auto& [name, tensor] : manifest.value().tensors) {
    REQUIRE(tensor.shape.size() <= max_safetensors_rank);
    tensors[tensor.file].push_back({name, tensor.type, tensor.shape, 0, 0});
    hashes[tensor.file].push_back(tensor.hash);
  }
  ManifestContents contents{{}, manifest.value().other_files, manifest.value().made_of};
  for (const auto& [file, entries] : tensors) {
    contents.files.push_back({file, &entries, hashes[file]});
  }
  REQUIRE(take(parse_manifest(manifest_text(contents, "fuzz"))) == manifest.value());
  return 0;
}
