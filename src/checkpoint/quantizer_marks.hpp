// How a weight shows that it is quantized already, and which tool did it: by what its parts are
// called, by their element types, and never by config.json alone, which people delete or rename.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/safetensors.hpp"

namespace microscale {

/// Tools, or the layouts they share.
enum class QuantizingTool : std::uint8_t {
  compressed_tensors,  // llm-compressor, and this library
  modelopt,
  comfyui,
  fp8,       // F8 weights with a scale of each tensor, row or block: DeepSeek, Qwen, FBGEMM, ...
  fp8_bare,  // F8 weights without a scale
  deepseek_v4,
  gpt_oss,
  gptq_awq,  // qweight, qzeros, scales, g_idx: GPTQ, AWQ, AutoRound and their kin
  bitsandbytes,
  hqq,
  mlx,
  quanto,
  eetq,
  aqlm,
  torchao,
  exllama,
  quip,
  vptq,
  spqr,
  nunchaku,
  tensorrt_llm,
  marlin,
  int8,    // one-byte integers, tool not known
  packed,  // integers or F4 that must be codes, tool not known
};

/// In words: "compressed-tensors", "bitsandbytes", "FP8 weights without a scale".
std::string_view to_string(QuantizingTool tool);

/// Whether weights of this tool are decoded here where their parts are whole.
bool is_decoded(QuantizingTool tool);

/// How its weights become dense ones, as the end of a sentence: "start from the full-precision
/// model, or ...". Names `dequantize` only for what that reads.
std::string_view way_to_dense(QuantizingTool tool);

/// Another tensor of the model, by name; null if there is none.
using TensorLookup = std::function<const TensorEntry*(std::string_view name)>;

struct QuantizerMark {
  QuantizingTool tool = QuantizingTool::packed;
  std::string module;  // whose weight it belongs to: "model.layers.0.mlp.up_proj"
};

/// What `tensor` shows, by itself and with its companions; nothing for a tensor of a dense model.
std::optional<QuantizerMark> find_quantizer_mark(const TensorEntry& tensor,
                                                 const TensorLookup& lookup);

/// Left over from a calibration or from another tool's run, and of no use to a dense weight:
/// "P.input_scale", "P.weight_quantizer._amax", ...; the module it belonged to, else nothing.
std::optional<std::string_view> leftover_of(std::string_view tensor_name);

/// The scale of a key-value cache ("...self_attn.k_scale", "...k_proj.output_scale", ...).
bool is_kv_cache_scale(std::string_view tensor_name);

/// Element types in which a weight can only be codes: all of 8 bits or fewer, I16, I32, U16, U32.
bool is_code_type(StoredType type);
bool is_f8(StoredType type);

}  // namespace microscale
