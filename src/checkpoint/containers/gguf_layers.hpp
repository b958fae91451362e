// Which tensors of a GGUF file are the weights of linear layers, by llama.cpp's names, and which of
// them may have a scale of their own beside them.
#pragma once

#include <string_view>

#include "checkpoint/kept_layers.hpp"

namespace microscale {

struct GgufLayer {
  bool linear = false;        // the weight of a linear layer, or of the experts of one
  Kept kept = Kept::no;       // why it stays as it is by default; `no` for what is quantized
  std::string_view reason{};  // the same in words
  bool experts = false;       // [experts, rows, cols]
  bool scaled = false;        // llama.cpp loads "<name>.scale" and multiplies the product by it
};

/// Of "blk.3.ffn_down.weight" and any other name.
GgufLayer gguf_layer_of(std::string_view tensor_name);

/// Whether llama.cpp's graph of this architecture is known to multiply by such scales everywhere,
/// but for what leaves_out_gguf_scale names. It loads them for all, and a graph that forgets them
/// computes nonsense.
bool applies_gguf_scales(std::string_view architecture);

/// Whether its graph is known to leave out the scale of this layer, so that a weight of NVFP4
/// cannot have one: the feed-forward layers of qwen2 and gemma3.
bool leaves_out_gguf_scale(std::string_view architecture, std::string_view tensor_name);

}  // namespace microscale
