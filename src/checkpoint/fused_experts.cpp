#include "checkpoint/fused_experts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/recipe.hpp"

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

std::string_view parent_of(std::string_view module) {
  const std::size_t dot = module.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : module.substr(0, dot);
}

// Model types whose fused experts have the two halves interleaved.
bool is_interleaved(const ModelFacts& facts) { return facts.model_type == "gpt_oss"; }

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
  layout.interleaved = is_interleaved(facts);
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
