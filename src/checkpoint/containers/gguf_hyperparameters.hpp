// config.json as the metadata of a GGUF file: the way back of gguf_config.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/containers/gguf_writer.hpp"
#include "core/result.hpp"

namespace microscale {

/// What of a config.json the tensors of the file depend on.
struct GgufHyperparameters {
  std::string architecture;              // "llama"
  std::int64_t heads = 0, kv_heads = 0;  // of attention
  std::int64_t experts = 0;              // of a layer; 0: none
  std::int64_t vocabulary = 0;           // tokens
  bool tied = false;                     // the output head is the embedding
  std::vector<float> rope_factors;       // of the tensor rope_freqs.weight; empty: it has none
};

/// Adds "general.architecture", "llama.block_count" and so on. Fails with one sentence where
/// llama.cpp has no architecture for the model, or computes otherwise than config.json says.
Result<GgufHyperparameters> add_gguf_hyperparameters(std::string_view config_text,
                                                     GgufMetadata& metadata);

}  // namespace microscale
