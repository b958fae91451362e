// config.json and generation_config.json of a model whose GGUF file is all there is.
#pragma once

#include <string>

#include "checkpoint/containers/gguf_file.hpp"
#include "core/result.hpp"

namespace microscale {

/// Of a file whose architecture has_gguf_names. A failure names what the file does not say.
Result<std::string> gguf_config(const GgufFile& file);
std::string gguf_generation_config(const GgufFile& file);

/// The frequencies of a file with the tensor rope_freqs are those of Llama 3.1 and later: by what
/// long waves are divided (8, 32); 0 where the file has none.
Result<float> gguf_llama3_factor(const GgufFile& file);

}  // namespace microscale
