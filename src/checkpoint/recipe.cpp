#include "checkpoint/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "checkpoint/fused_experts.hpp"

namespace microscale {
namespace {

using Names = std::span<const std::string_view>;

bool is_one_of(std::string_view word, Names names) {
  return std::find(names.begin(), names.end(), word) != names.end();
}

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t dot = std::min(name.find('.', at), name.size());
    parts.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

bool has_part(const std::vector<std::string_view>& parts, Names names) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](std::string_view part) { return is_one_of(part, names); });
}

constexpr std::array<std::string_view, 15> vision_parts{
    "vision_tower",  "vision_model",    "visual",        "vision_encoder", "vision",
    "image_encoder", "vision_backbone", "vit",           "image_tower",    "vision_embed_tokens",
    "vpm",           "img_processor",   "vision_module", "video_tower",    "vision_embedder"};
constexpr std::array<std::string_view, 8> audio_parts{
    "audio_tower", "audio_model", "audio_encoder",  "audio",
    "apm",         "conformer",   "speech_encoder", "audio_embedder"};
constexpr std::array<std::string_view, 14> projector_parts{"multi_modal_projector",
                                                           "mm_projector",
                                                           "vision_projection",
                                                           "visual_projection",
                                                           "modality_projection",
                                                           "img_projection",
                                                           "image_projection",
                                                           "audio_projection",
                                                           "embed_vision",
                                                           "embed_audio",
                                                           "audio_projector",
                                                           "vision_projector",
                                                           "connector",
                                                           "multimodal_projector"};
constexpr std::array<std::string_view, 12> embedding_leaves{
    "wte",           "wpe",     "word_embedding", "position_embedding", "relative_attention_bias",
    "shared",        "embed",   "embeds",         "embedding",          "embeddings",
    "position_bias", "codebook"};
constexpr std::array<std::string_view, 6> head_leaves{
    "lm_head", "embed_out", "score", "classifier", "qa_outputs", "output_projection"};

bool is_embedding(std::string_view leaf) {
  if (leaf == "embed_out") return false;
  return is_one_of(leaf, embedding_leaves) || leaf.starts_with("embed_") ||
         leaf.ends_with("_embeddings") || leaf.ends_with("_embedding");
}

bool is_output_head(std::string_view module, const std::vector<std::string_view>& parts) {
  constexpr std::array<std::string_view, 1> lm_head{"lm_head"};
  return is_one_of(parts.back(), head_leaves) || module == "output" || has_part(parts, lm_head) ||
         module.starts_with("cls.") || module.find(".cls.predictions.") != std::string_view::npos;
}

bool is_router(const std::vector<std::string_view>& parts) {
  constexpr std::array<std::string_view, 2> routers{"router", "gate"};
  constexpr std::array<std::string_view, 3> leaves{"shared_expert_gate", "gate_network",
                                                   "moe_gate"};
  return has_part(parts, routers) || is_one_of(parts.back(), leaves);
}

// DeepSeek numbers its prediction layers as if they were more hidden layers.
bool is_prediction_layer(const std::vector<std::string_view>& parts, const ModelFacts& facts) {
  constexpr std::array<std::string_view, 3> prediction{"mtp", "mtp_layers", "nextn"};
  if (has_part(parts, prediction)) return true;
  if (!facts.has_prediction_layers || !facts.layers) return false;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    if (parts[i] != "layers") continue;
    std::int64_t number = -1;
    const std::string_view digits = parts[i + 1];
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return parsed.ec == std::errc() && number >= *facts.layers;
  }
  return false;
}

// GPT-2 and its kin hold weights as [in, out] in a layer of another class than Linear.
bool is_conv1d(std::string_view leaf, const ModelFacts& facts) {
  constexpr std::array<std::string_view, 4> models{"gpt2", "openai-gpt", "imagegpt",
                                                   "decision_transformer"};
  constexpr std::array<std::string_view, 4> leaves{"c_attn", "c_proj", "c_fc", "q_attn"};
  return is_one_of(facts.model_type, models) && is_one_of(leaf, leaves);
}

Result<std::vector<Pattern>> parse_patterns(const std::vector<std::string>& texts) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = Pattern::parse(text);
    if (!pattern) return pattern.failure();
    patterns.push_back(std::move(pattern.value()));
  }
  return patterns;
}

bool matches(const Pattern& pattern, const TensorEntry& tensor) {
  return pattern.matches(module_of(tensor.name)) || pattern.matches(tensor.name);
}

const Pattern* first_match(const std::vector<Pattern>& patterns, const TensorEntry& tensor) {
  for (const Pattern& pattern : patterns) {
    if (matches(pattern, tensor)) return &pattern;
  }
  return nullptr;
}

}  // namespace

std::string_view module_of(std::string_view tensor_name) {
  constexpr std::string_view suffix = ".weight";
  if (tensor_name.size() > suffix.size() && tensor_name.ends_with(suffix)) {
    tensor_name.remove_suffix(suffix.size());
  }
  return tensor_name;
}

std::string_view leaf_of(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? module : module.substr(dot + 1);
}

std::string default_ignore_reason(std::string_view module, const ModelFacts& facts) {
  const auto parts = parts_of(module);
  const std::string_view leaf = parts.back();
  if (has_part(parts, vision_parts)) return "part of the vision tower";
  if (has_part(parts, audio_parts)) return "part of the audio tower";
  if (has_part(parts, projector_parts)) return "multi-modal projector";
  if (is_prediction_layer(parts, facts)) return "multi-token prediction layer";
  if (is_output_head(module, parts)) return "output head";
  if (is_embedding(leaf)) return "embedding";
  if (is_router(parts)) return "router";
  if (leaf.find("norm") != std::string_view::npos || leaf.find("Norm") != std::string_view::npos ||
      leaf.starts_with("ln_")) {
    return "norm";
  }
  if (is_conv1d(leaf, facts)) return "Conv1D layer, which holds its weights transposed";
  return "";
}

std::optional<DType> dense_type(StoredType type) {
  switch (type) {
    case StoredType::f32:
      return DType::f32;
    case StoredType::f16:
      return DType::f16;
    case StoredType::bf16:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

std::string block_problem(std::int64_t row_length, Format format) {
  const FormatInfo& facts = info(format);
  if (row_length % facts.block == 0) return "";
  return fmt::format("K = {} is no multiple of {}", row_length, facts.block);
}

Result<Recipe> Recipe::create(Format format, const std::vector<std::string>& include,
                              const std::vector<std::string>& ignore, ModelFacts facts) {
  auto included = parse_patterns(include);
  if (!included) return included.failure();
  auto ignored = parse_patterns(ignore);
  if (!ignored) return ignored.failure();
  Recipe recipe;
  recipe.format_ = format;
  recipe.include_ = std::move(included.value());
  recipe.ignore_ = std::move(ignored.value());
  recipe.facts_ = std::move(facts);
  return recipe;
}

Decision Recipe::judge_shape(const TensorEntry& tensor) const {
  const auto copied = [](std::string reason) {
    return Decision{Treatment::copy, std::move(reason)};
  };
  if (fused_expert_part(tensor.name) && tensor.shape.size() >= 2) {
    const bool weight = fused_expert_part(tensor.name) != ExpertPart::gate_up_bias &&
                        fused_expert_part(tensor.name) != ExpertPart::down_bias;
    if (tensor.shape.size() != (weight ? 3u : 2u)) return copied("experts of an unknown layout");
    if (!dense_type(tensor.type)) {
      return copied(fmt::format("{} elements are not quantized", to_string(tensor.type)));
    }
    return {Treatment::split, weight ? "fused experts" : "bias of fused experts"};
  }
  if (tensor.shape.empty()) return copied("a scalar");
  if (tensor.shape.size() == 1) return copied("a vector, no matrix");
  if (!tensor.name.ends_with(".weight")) return copied("no weight of a layer");
  if (tensor.shape.size() > 2) {
    return copied(fmt::format("{}-D weight, no linear layer", tensor.shape.size()));
  }
  Decision decision{Treatment::quantize, "linear weight", true, false};
  if (!dense_type(tensor.type)) {
    decision.treatment = Treatment::copy;
    decision.reason = fmt::format("{} elements are not quantized", to_string(tensor.type));
  } else if (tensor.shape[0] == 0 || tensor.shape[1] == 0) {
    decision.treatment = Treatment::copy;
    decision.reason = "no elements";
  } else if (std::string problem = block_problem(tensor.shape[1], format_); !problem.empty()) {
    decision.treatment = Treatment::copy;
    decision.reason = std::move(problem);
  }
  return decision;
}

Decision Recipe::decide(const TensorEntry& tensor) const {
  Decision decision = judge_shape(tensor);
  const std::string nature = default_ignore_reason(module_of(tensor.name), facts_);
  // Neither an embedding nor a norm nor Conv1D is of class Linear.
  if (nature == "embedding" || nature == "norm" || nature.starts_with("Conv1D")) {
    decision.linear = false;
  }
  if (decision.treatment == Treatment::copy && nature.empty()) return decision;
  const Pattern* included = first_match(include_, tensor);
  const bool named = std::any_of(include_.begin(), include_.end(), [&](const Pattern& pattern) {
    return pattern.is_literal() && matches(pattern, tensor);
  });
  if (!nature.empty() && (!named || !decision.linear)) {
    decision.treatment = Treatment::copy;
    decision.reason = nature;
  }
  if (decision.treatment == Treatment::copy) return decision;
  if (const Pattern* ignored = first_match(ignore_, tensor)) {
    decision.reason = fmt::format("ignored by '{}'", ignored->text());
  } else if (!include_.empty() && !included) {
    decision.reason = "not included";
  } else {
    return decision;
  }
  decision.treatment = Treatment::copy;
  decision.by_user = true;
  return decision;
}

std::optional<Recipe::UnusedPattern> Recipe::unused_pattern(
    const std::vector<const TensorEntry*>& tensors) const {
  const auto used = [&](const Pattern& pattern) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const TensorEntry* tensor) { return matches(pattern, *tensor); });
  };
  for (const Pattern& pattern : include_) {
    if (!used(pattern)) return UnusedPattern{"--include", std::string(pattern.text())};
  }
  for (const Pattern& pattern : ignore_) {
    const bool by_default =
        pattern.is_literal() && !default_ignore_reason(module_of(pattern.text()), facts_).empty();
    if (!by_default && !used(pattern)) {
      return UnusedPattern{"--ignore", std::string(pattern.text())};
    }
  }
  return std::nullopt;
}

}  // namespace microscale
