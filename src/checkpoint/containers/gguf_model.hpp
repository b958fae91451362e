// A GGUF file as the model folder that it stands for: its tensors under the names of Hugging Face,
// config.json, generation_config.json and a tokenizer made of its metadata.
#pragma once

#include <filesystem>

#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// Opens the file, or all parts of which it is one. Tensors that lie in the file as the dense model
/// has them are read there; all others are in `gguf_sources`, and their entries say U8 [bytes].
/// What is no model of an architecture known here keeps its names and gets no config.json.
Result<ModelFolder> open_gguf_model(const std::filesystem::path& path);

}  // namespace microscale
