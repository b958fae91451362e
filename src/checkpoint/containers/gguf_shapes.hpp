// The shapes of a model's tensors against the metadata of its GGUF file: config.json is written
// from the one, the weights from the other, and loaders need both to agree.
#pragma once

#include <string_view>

#include "checkpoint/containers/gguf_file.hpp"
#include "core/result.hpp"

namespace microscale {

/// Of a file all of whose tensors have names of `architecture` (gguf_names.hpp). Fails with the
/// first tensor whose shape, or whose layer, contradicts what the metadata says of widths, heads,
/// experts and layers; what the metadata leaves out is not asked.
Status check_gguf_shapes(const GgufFile& file, std::string_view architecture);

}  // namespace microscale
