#include "checkpoint/quantizer_marks.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

using enum QuantizingTool;

// What must hold beside the ending for the mark to count.
enum class Beside : std::uint8_t {
  nothing,
  code_weight,  // "P.weight" holds codes
  sibling,      // "P" + another ending is there
};

struct Ending {
  std::string_view ending;  // of the tensor's name
  QuantizingTool tool;
  Beside beside = Beside::nothing;
  std::string_view sibling = {};
};

// The first that fits counts. None of these is a parameter of a dense model.
constexpr std::array endings{
    Ending{".comfy_quant", comfyui},
    Ending{".scale_weight", comfyui},
    Ending{".scale_input", comfyui, Beside::code_weight},
    Ending{".weight_packed", compressed_tensors},
    Ending{".weight_global_scale", compressed_tensors},
    Ending{".weight_g_idx", compressed_tensors},
    Ending{".weight_scale_2", modelopt},
    Ending{".weight_scale_inv", fp8},
    Ending{"_scale_inv", fp8},
    Ending{".input_scale_ub", fp8},
    Ending{".weight_quantizer._scale", modelopt},
    Ending{".weight_quantizer._double_scale", modelopt},
    Ending{".pre_quant_scale", modelopt},
    Ending{".qweight", nunchaku, Beside::sibling, ".wscales"},
    Ending{".wscales", nunchaku},
    Ending{".wtscale", nunchaku},
    Ending{".wcscales", nunchaku},
    Ending{".qweight", gptq_awq},
    Ending{".qzeros", gptq_awq},
    Ending{".s1_scales", gptq_awq},
    Ending{".g_idx", gptq_awq, Beside::sibling, ".scales"},
    Ending{".scales", gptq_awq, Beside::sibling, ".g_idx"},
    Ending{".scales", aqlm, Beside::sibling, ".codebooks"},
    Ending{".codebooks", aqlm, Beside::sibling, ".codes"},
    Ending{".codes", aqlm, Beside::sibling, ".codebooks"},
    Ending{".scales", gpt_oss, Beside::sibling, ".blocks"},
    Ending{".blocks", gpt_oss, Beside::sibling, ".scales"},
    Ending{"_scales", gpt_oss, Beside::sibling, "_blocks"},
    Ending{"_blocks", gpt_oss, Beside::sibling, "_scales"},
    Ending{".scales", mlx, Beside::code_weight},
    Ending{".biases", mlx, Beside::code_weight},
    Ending{".SCB", bitsandbytes},
    Ending{".weight_format", bitsandbytes, Beside::code_weight},
    Ending{".absmax", bitsandbytes},
    Ending{".nested_absmax", bitsandbytes},
    Ending{".quant_map", bitsandbytes},
    Ending{".nested_quant_map", bitsandbytes},
    Ending{".W_q", hqq},
    Ending{".weight_scales", eetq},
    Ending{".weight._data", quanto},
    Ending{".weight._scale", quanto},
    Ending{".weight._shift", quanto},
    Ending{".weight.scale", quanto},
    Ending{".weight_qtype", quanto},
    Ending{"._weight_qdata", torchao},
    Ending{"._weight_scale", torchao},
    Ending{"._weight_zero_point", torchao},
    Ending{"._weight_per_tensor_scale", torchao},
    Ending{".weight_qdata", torchao},
    Ending{".trellis", exllama},
    Ending{".suh", exllama},
    Ending{".svh", exllama},
    Ending{".q_weight", exllama},
    Ending{".q_scale", exllama, Beside::sibling, ".q_weight"},
    Ending{".q_groups", exllama},
    Ending{".q_invperm", exllama},
    Ending{".Qidxs", quip},
    Ending{".Qidxs_0", quip},
    Ending{".SU", quip},
    Ending{".SV", quip},
    Ending{".Wscale", quip},
    Ending{".centroids", vptq, Beside::sibling, ".indices"},
    Ending{".centroids.weight", vptq, Beside::sibling, ".indices"},
    Ending{".indices", vptq, Beside::sibling, ".centroids"},
    Ending{".dense_weights", spqr},
    Ending{".weights_scaling_factor", tensorrt_llm},
    Ending{".weights_block_scaling_factor", tensorrt_llm},
    Ending{".B_24", marlin},
    Ending{".B_meta", marlin},
    Ending{".B", marlin, Beside::sibling, ".s"},
    Ending{".s", marlin, Beside::sibling, ".B"},
    Ending{".dequant_scale", int8},
    Ending{".weight_scale", fp8},
    Ending{"_weight_scale", fp8},
    Ending{".scale", deepseek_v4, Beside::code_weight},
    Ending{".weight_zero_point", int8, Beside::code_weight},
    Ending{"_proj_scale", fp8, Beside::sibling, "_proj"},
    Ending{".zeros", hqq, Beside::sibling, ".scales"},
};

constexpr std::array<std::string_view, 2> inner_marks{".quant_state.", ":_data::"};

bool matrix(const TensorEntry& tensor) { return tensor.shape.size() >= 2; }

// "P.weight_scale" alone does not say who wrote it; the type of the codes narrows it down.
QuantizingTool tool_of_scaled(const TensorEntry& scale, const TensorEntry* weight) {
  if (!weight) return compressed_tensors;
  const bool byte_scale = scale.type == StoredType::u8 || scale.type == StoredType::f8_e8m0;
  if (is_f8(weight->type)) return byte_scale ? modelopt : fp8;
  if (weight->type == StoredType::u8) return modelopt;
  return weight->type == StoredType::i8 ? int8 : fp8;
}

bool fits(const Ending& ending, const std::string& module, const TensorLookup& lookup) {
  switch (ending.beside) {
    case Beside::nothing:
      return true;
    case Beside::sibling:
      return lookup(module + std::string(ending.sibling)) != nullptr;
    case Beside::code_weight: {
      const TensorEntry* weight = lookup(module + ".weight");
      return weight && is_code_type(weight->type);
    }
  }
  return false;
}

// Integers in a repeated layer as large as a weight ("layers.0.ffn.kernel"), but for the tables and
// masks that models keep there.
bool is_large_in_a_layer(const TensorEntry& tensor) {
  constexpr std::int64_t smallest = 32;
  constexpr std::array<std::string_view, 8> tables{"bias",  "mask",  "index",   "ids",
                                                   "table", "cache", "tid2eid", "position"};
  const auto layer = repeated_layer_of(tensor.name);
  const std::size_t rank = tensor.shape.size();
  return layer && tensor.shape[rank - 1] >= smallest && tensor.shape[rank - 2] >= smallest &&
         std::none_of(tables.begin(), tables.end(), [&](std::string_view table) {
           return layer->within.find(table) != std::string_view::npos;
         });
}

// Integers in a row that are called a weight: blocks of codes whose shape was lost.
bool is_flat_weight(const TensorEntry& tensor) {
  constexpr std::int64_t smallest = 32;
  return tensor.shape.size() == 1 && tensor.shape[0] >= smallest && is_code_type(tensor.type) &&
         !is_f8(tensor.type) && leaf_of(tensor.name) == "weight";
}

// A matrix of codes by itself: called a weight, or one of the experts' tensors.
std::optional<QuantizerMark> by_type(const TensorEntry& tensor) {
  if (is_flat_weight(tensor)) return QuantizerMark{packed, std::string(module_of(tensor.name))};
  if (!matrix(tensor) || !is_code_type(tensor.type)) return std::nullopt;
  constexpr std::array<std::string_view, 1> experts{"experts"};
  const std::string_view leaf = leaf_of(tensor.name);
  const bool called_weight = leaf == "weight" || leaf.ends_with("_weight") ||
                             leaf.ends_with("_proj") || leaf.starts_with("weight_");
  const bool of_floats = is_f8(tensor.type) || tensor.type == StoredType::f4 ||
                         tensor.type == StoredType::f6_e2m3 || tensor.type == StoredType::f6_e3m2;
  if (!called_weight && !of_floats && !has_part(parts_of(tensor.name), experts) &&
      !is_large_in_a_layer(tensor)) {
    return std::nullopt;
  }
  const QuantizingTool tool = is_f8(tensor.type)              ? fp8_bare
                              : tensor.type == StoredType::i8 ? int8
                                                              : packed;
  return QuantizerMark{tool, std::string(module_of(tensor.name))};
}

}  // namespace

std::string_view to_string(QuantizingTool tool) {
  switch (tool) {
    case compressed_tensors:
      return "compressed-tensors";
    case modelopt:
      return "ModelOpt";
    case comfyui:
      return "ComfyUI";
    case fp8:
      return "FP8 weights with scales (as DeepSeek, Qwen and compressed-tensors write them)";
    case fp8_bare:
      return "FP8 weights without a scale";
    case deepseek_v4:
      return "DeepSeek V4's layout (one-byte weights with .scale)";
    case gpt_oss:
      return "gpt-oss's MXFP4 (blocks and scales)";
    case gptq_awq:
      return "GPTQ, AWQ or AutoRound (qweight, qzeros, scales)";
    case bitsandbytes:
      return "bitsandbytes";
    case hqq:
      return "HQQ";
    case mlx:
      return "MLX";
    case quanto:
      return "quanto";
    case eetq:
      return "EETQ";
    case aqlm:
      return "AQLM";
    case torchao:
      return "torchao";
    case exllama:
      return "ExLlama";
    case quip:
      return "QuIP#";
    case vptq:
      return "VPTQ";
    case spqr:
      return "SpQR";
    case nunchaku:
      return "Nunchaku (SVDQuant)";
    case tensorrt_llm:
      return "TensorRT-LLM";
    case marlin:
      return "Marlin";
    case int8:
      return "INT8 weights";
    case packed:
      break;
  }
  return "integers that pack several codes";
}

bool is_decoded(QuantizingTool tool) {
  return tool == compressed_tensors || tool == modelopt || tool == comfyui || tool == fp8 ||
         tool == deepseek_v4 || tool == gpt_oss;
}

std::string_view way_to_dense(QuantizingTool tool) {
  if (is_decoded(tool)) {
    return "start from the full-precision model, or see with `microscale verify` what keeps this "
           "one "
           "from being decoded";
  }
  switch (tool) {
    case QuantizingTool::bitsandbytes:
      return "start from the full-precision model, or let transformers expand it "
             "(model.dequantize(), then save_pretrained)";
    default:
      return "start from the full-precision model, or expand it with the tool that wrote it; "
             "microscale does not decode it";
  }
}

bool is_f8(StoredType type) {
  switch (type) {
    case StoredType::f8_e4m3:
    case StoredType::f8_e5m2:
    case StoredType::f8_e8m0:
    case StoredType::f8_e4m3fnuz:
    case StoredType::f8_e5m2fnuz:
      return true;
    default:
      return false;
  }
}

bool is_code_type(StoredType type) {
  switch (type) {
    case StoredType::f4:
    case StoredType::f6_e2m3:
    case StoredType::f6_e3m2:
    case StoredType::u8:
    case StoredType::i8:
    case StoredType::i16:
    case StoredType::u16:
    case StoredType::i32:
    case StoredType::u32:
      return true;
    default:
      return is_f8(type);
  }
}

std::optional<std::string_view> leftover_of(std::string_view tensor_name) {
  constexpr std::array<std::string_view, 7> buffers{
      ".input_scale",      ".input_global_scale", ".weight_zero_point",        ".input_zero_point",
      ".act_global_scale", ".output_zero_point",  ".activation_scaling_factor"};
  for (const std::string_view ending : buffers) {
    if (!tensor_name.ends_with(ending)) continue;
    tensor_name.remove_suffix(ending.size());
    return tensor_name;
  }
  // ModelOpt's quantizers: "P.input_quantizer._amax", "P.k_bmm_quantizer._amax".
  const std::string_view parent = parent_of(tensor_name);
  if (leaf_of(parent).ends_with("_quantizer") && leaf_of(tensor_name).starts_with('_')) {
    return parent_of(parent);
  }
  return std::nullopt;
}

bool is_kv_cache_scale(std::string_view tensor_name) {
  constexpr std::array<std::string_view, 8> leaves{
      "k_scale",        "v_scale",        "q_scale",           "kv_scale",
      "k_global_scale", "v_global_scale", "prob_output_scale", "q_global_scale"};
  constexpr std::array<std::string_view, 2> outputs{"k_proj", "v_proj"};
  const std::string_view leaf = leaf_of(tensor_name);
  if (is_one_of(leaf, leaves)) return true;
  return leaf == "output_scale" && is_one_of(leaf_of(parent_of(tensor_name)), outputs);
}

std::optional<QuantizerMark> find_quantizer_mark(const TensorEntry& tensor,
                                                 const TensorLookup& lookup) {
  const std::string_view name = tensor.name;
  for (const std::string_view inner : inner_marks) {
    const std::size_t at = name.find(inner);
    if (at == std::string_view::npos) continue;
    const QuantizingTool tool = inner == inner_marks[0] ? bitsandbytes : torchao;
    return QuantizerMark{tool, std::string(module_of(name.substr(0, at)))};
  }
  for (const Ending& ending : endings) {
    if (!name.ends_with(ending.ending) || name.size() == ending.ending.size()) continue;
    std::string module(name.substr(0, name.size() - ending.ending.size()));
    if (!fits(ending, module, lookup)) continue;
    QuantizingTool tool = ending.tool;
    if (ending.ending == ".weight_scale") {
      if (lookup(module + ".comfy_quant")) {
        tool = comfyui;
      } else if (lookup(module + ".weight_packed")) {
        tool = compressed_tensors;
      } else {
        tool = tool_of_scaled(tensor, lookup(module + ".weight"));
      }
    }
    return QuantizerMark{tool, std::string(module_of(module))};
  }
  auto mark = by_type(tensor);
  if (!mark) return std::nullopt;
  // Codes beside the scales that tell their tool.
  constexpr std::array<std::string_view, 11> companions{
      ".comfy_quant",  ".weight_scale_inv", ".weight_scale_2",
      ".weight_scale", ".scale_weight",     ".weight_scales",
      ".SCB",          ".weight.absmax",    ".scales",
      ".scale",        ".weight_qtype"};
  for (const std::string_view companion : companions) {
    const TensorEntry* found = lookup(mark->module + std::string(companion));
    if (!found && companion == ".weight_scale_inv") found = lookup(tensor.name + "_scale_inv");
    if (!found) continue;
    if (auto told = find_quantizer_mark(*found, lookup)) return told;
  }
  return mark;
}

}  // namespace microscale
