// The few things in config.json on which the treatment of tensors depends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.hpp"

namespace microscale {

/// Taken from the top level of config.json, else from its text_config (llm_config, ...). Absent or
/// of the wrong kind: not known.
struct ModelFacts {
  std::string model_type;                   // "llama", "gpt_oss", ...; empty: not known
  std::string text_model_type;              // of text_config or its like
  std::vector<std::string> architectures;   // "LlamaForCausalLM"
  std::optional<std::int64_t> hidden_size;  // width of the residual stream
  std::optional<std::int64_t> layers;       // num_hidden_layers
  std::optional<std::int64_t> vocab_size;   // rows of the embedding and of the output head
  std::optional<std::int64_t> experts;      // of each layer that has any
  bool shared_keys = false;                 // some layers take keys or values of others
  bool uneven_layers = false;               // some layers may have no weights at all
  bool multimodal = false;                  // it has the config of a vision, audio or other encoder
  bool diffusion = false;     // it describes a part of a diffusers pipeline (_class_name)
  bool swiglu_limit = false;  // the clamped SwiGLU of gpt-oss
  /// Whether it says what the model is, so that a loader can build it.
  bool names_model() const {
    return !model_type.empty() || !text_model_type.empty() || !architectures.empty() || diffusion;
  }
  std::optional<std::string> quantized_by;  // quant_method, when the weights are quantized already
};

/// `config_text` is a JSON object.
Result<ModelFacts> read_model_facts(const std::string& config_text);

}  // namespace microscale
