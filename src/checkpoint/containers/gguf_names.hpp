// Tensor names of llama.cpp as those of Hugging Face and back, for the architectures whose models
// are read and written: llama, qwen2, qwen3, qwen3moe and gemma3; gpt-oss is read only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace microscale {

/// What a tensor of such a model is called, and what llama.cpp did to its values.
struct GgufName {
  std::string name;       // "model.layers.3.self_attn.q_proj.weight"
  bool experts = false;   // of all experts; `name` has {} in place of the expert's number
  bool query = false;     // rows of each head are in rotary order (llama only)
  bool key = false;       // likewise, of the key-value heads
  bool plus_one = false;  // 1 was added to every value (gemma3's norms)
};

/// "llama", ...: whether models of this architecture (general.architecture) are read as folders.
bool has_gguf_names(std::string_view architecture);

/// Nothing for a name that such a model does not have.
std::optional<GgufName> hugging_face_name(std::string_view architecture,
                                          std::string_view gguf_name);

/// The way back: what a tensor of a model folder is called in the file.
struct GgufPlace {
  GgufName name;                       // "blk.3.attn_q.weight"
  std::optional<std::int64_t> expert;  // its number, where `name` is of all experts
};

/// Nothing for a tensor that llama.cpp does not load. Of a model with an encoder beside the
/// language model (Gemma 3) the tensors of the latter have names; those of a bare decoder begin
/// without "model.".
std::optional<GgufPlace> gguf_place_of(std::string_view architecture, std::string_view name);

}  // namespace microscale
