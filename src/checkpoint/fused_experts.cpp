#include "checkpoint/fused_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

struct PartName {
  std::string_view leaf;
  ExpertPart part;
};
constexpr std::array<PartName, 4> part_names{{
    {"gate_up_proj", ExpertPart::gate_up},
    {"down_proj", ExpertPart::down},
    {"gate_up_proj_bias", ExpertPart::gate_up_bias},
    {"down_proj_bias", ExpertPart::down_bias},
}};

// The beginnings of the model types whose fused experts have all of gate before all of up. A folder
// saved by transformers 5 may hold any of them fused.
constexpr std::array<std::string_view, 41> halves_families{
    "llama4",     "qwen2_moe", "qwen3_moe",  "qwen3_next",  "qwen3_5",     "qwen3_vl_moe",
    "qwen3_omni", "gemma4",    "mixtral",    "deepseek_v2", "deepseek_v3", "deepseek_v32",
    "glm4_moe",   "glm4v_moe", "glm_moe",    "kimi",        "ernie4_5",    "hunyuan",
    "olmoe",      "flex_olmo", "phimoe",     "minimax",     "dots1",       "jamba",
    "lfm2_moe",   "bailing",   "longcat",    "granitemoe",  "mimo",        "step3",
    "afmoe",      "solar",     "exaone_moe", "dbrx",        "jetmoe",      "nemotron",
    "aria",       "arctic",    "zaya",       "ling",        "grok"};

bool is_gpt_oss(std::string_view model_type) {
  return model_type.starts_with("gpt_oss") || model_type.starts_with("gpt-oss");
}

// Of one tensor alone: hidden is where config.json says; nothing if that fits both ways or neither.
std::optional<bool> transposed_by_hidden(std::int64_t hidden_if_plain,
                                         std::int64_t hidden_if_transposed,
                                         const ModelFacts& facts) {
  if (!facts.hidden_size || hidden_if_plain == hidden_if_transposed) return std::nullopt;
  if (*facts.hidden_size == hidden_if_plain) return false;
  if (*facts.hidden_size == hidden_if_transposed) return true;
  return std::nullopt;
}

}  // namespace

std::optional<ExpertOrder> expert_order_of(const ModelFacts& facts) {
  const bool architecture =
      std::any_of(facts.architectures.begin(), facts.architectures.end(),
                  [](const std::string& name) { return name.starts_with("GptOss"); });
  if (architecture || is_gpt_oss(facts.model_type) || is_gpt_oss(facts.text_model_type)) {
    return ExpertOrder::interleaved;
  }
  for (const std::string_view type :
       {std::string_view(facts.text_model_type), std::string_view(facts.model_type)}) {
    const bool known =
        std::any_of(halves_families.begin(), halves_families.end(),
                    [&](std::string_view family) { return type.starts_with(family); });
    if (known) return ExpertOrder::halves;
  }
  return facts.swiglu_limit ? std::optional(ExpertOrder::interleaved) : std::nullopt;
}

std::optional<std::string_view> odd_experts_of(std::string_view tensor_name,
                                               const std::vector<std::int64_t>& shape) {
  constexpr std::int64_t narrowest = 16;  // of a weight; a convolution's kernel is narrower
  if (shape.size() < 2 || fused_expert_part(tensor_name)) return std::nullopt;
  const std::string_view module = module_of(tensor_name);
  const std::size_t at = module.find(".experts.");
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  constexpr std::size_t length = std::string_view(".experts").size();
  if (at != std::string_view::npos && !is_digit(module[at + length + 1])) {
    return module.substr(0, at + length);
  }
  if (module.ends_with(".experts")) return module;
  constexpr std::array<std::string_view, 5> words{"moe", "expert", "mlp", "ffn", "feed_forward"};
  const auto called = [&](std::string_view word) { return module.find(word) != module.npos; };
  const bool stacked = shape.size() == 3 && shape[1] >= narrowest && shape[2] >= narrowest &&
                       std::any_of(words.begin(), words.end(), called) &&
                       repeated_layer_of(module).has_value();
  return stacked ? std::optional(parent_of(module)) : std::nullopt;
}

std::optional<ExpertPart> fused_expert_part(std::string_view tensor_name) {
  const std::string_view module = module_of(tensor_name);
  if (leaf_of(parent_of(module)) != "experts") return std::nullopt;
  const std::string_view leaf = leaf_of(module);
  const auto found = std::find_if(part_names.begin(), part_names.end(),
                                  [&](const PartName& name) { return name.leaf == leaf; });
  if (found == part_names.end()) return std::nullopt;
  return found->part;
}

std::string_view experts_module_of(std::string_view tensor_name) {
  return parent_of(module_of(tensor_name));
}

ExpertLayoutAnswer find_expert_layout(const std::vector<std::int64_t>* gate_up,
                                      const std::vector<std::int64_t>* down,
                                      const ModelFacts& facts) {
  const auto is_3d = [](const std::vector<std::int64_t>* shape) {
    return shape && shape->size() == 3 &&
           std::all_of(shape->begin(), shape->end(), [](std::int64_t size) { return size > 0; });
  };
  if (!is_3d(gate_up) || !is_3d(down)) {
    return {std::nullopt, "fused experts without both gate_up_proj and down_proj"};
  }
  const std::int64_t experts = (*gate_up)[0], a = (*gate_up)[1], b = (*gate_up)[2];
  const std::int64_t c = (*down)[1], d = (*down)[2];
  if ((*down)[0] != experts) return {std::nullopt, "gate_up_proj and down_proj differ in experts"};
  // At most one of the two holds: both would need c = 4 c.
  const bool plain = b == c && a == 2 * d;
  const bool transposed = a == d && b == 2 * c;
  if (!plain && !transposed) {
    return {std::nullopt, "the order of its dimensions cannot be told"};
  }
  const std::optional<bool> by_config = transposed_by_hidden(b, a, facts);
  if (by_config && *by_config != transposed) {
    return {std::nullopt, fmt::format("its shape does not fit hidden_size {} of config.json",
                                      *facts.hidden_size)};
  }
  ExpertLayout layout;
  layout.experts = experts;
  layout.hidden = transposed ? a : b;
  layout.inner = transposed ? c : d;
  layout.transposed = transposed;
  return {layout, ""};
}

std::vector<MatrixSlice> slice_experts(std::string_view tensor_name, ExpertPart part,
                                       const ExpertLayout& layout) {
  const std::int64_t inner = layout.inner, hidden = layout.hidden;
  const bool two = part == ExpertPart::gate_up || part == ExpertPart::gate_up_bias;
  const bool bias = part == ExpertPart::gate_up_bias || part == ExpertPart::down_bias;
  const std::int64_t halves = two ? 2 : 1;
  const std::int64_t rows = two ? inner : hidden;  // of one slice
  const std::int64_t cols = bias ? 1 : two ? hidden : inner;
  // Steps along the output features of the stored tensor, and along its input features.
  const std::int64_t out_step = bias || layout.transposed ? 1 : cols;
  const std::int64_t in_step = bias ? 0 : layout.transposed ? halves * rows : 1;
  const std::int64_t spacing = two && layout.interleaved ? 2 : 1;  // output features between rows

  std::vector<MatrixSlice> slices;
  for (std::int64_t expert = 0; expert < layout.experts; ++expert) {
    for (std::int64_t half = 0; half < halves; ++half) {
      const std::int64_t feature = half * (spacing == 2 ? 1 : rows);
      MatrixSlice slice;
      slice.module = fmt::format("{}.{}.{}", experts_module_of(tensor_name), expert,
                                 two ? half == 0 ? "gate_proj" : "up_proj" : "down_proj");
      slice.rows = rows;
      slice.cols = cols;
      slice.first = expert * halves * rows * cols + feature * out_step;
      slice.row_step = spacing * out_step;
      slice.col_step = in_step;
      slice.line = expert * halves * rows + feature;
      slice.line_step = spacing;
      slices.push_back(std::move(slice));
    }
  }
  return slices;
}

}  // namespace microscale
