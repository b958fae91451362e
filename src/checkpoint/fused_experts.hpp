// Experts that a model stores as one 3-D tensor: how they lie in it, and how to take them apart
// into one linear layer per expert, which is what loaders of quantized checkpoints read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_facts.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

enum class ExpertPart : std::uint8_t { gate_up, down, gate_up_bias, down_bias };

/// Which part of fused experts a tensor is ("...experts.gate_up_proj", also with ".weight"; biases
/// "...experts.gate_up_proj_bias"); nothing for any other tensor.
std::optional<ExpertPart> fused_expert_part(std::string_view tensor_name);

/// "model.layers.0.mlp.experts" of the name of such a tensor.
std::string_view experts_module_of(std::string_view tensor_name);

/// Weights [experts, 2 inner, hidden] and [experts, hidden, inner], or with the last two dimensions
/// swapped.
struct ExpertLayout {
  std::int64_t experts = 0, inner = 0, hidden = 0;
  bool transposed = false;   // [experts, hidden, 2 inner] and [experts, inner, hidden]
  bool interleaved = false;  // gate, up, gate, up, ... instead of all of gate, then all of up
  bool operator==(const ExpertLayout&) const = default;
};

struct ExpertLayoutAnswer {
  std::optional<ExpertLayout> layout;
  std::string reason;  // when there is none: "the order of its dimensions cannot be told"
};

/// How gate and up lie in fused experts, as far as config.json tells: models of gpt-oss have them
/// interleaved, other families that are known here one after the other; else nothing.
std::optional<ExpertOrder> expert_order_of(const ModelFacts& facts);

/// The module that holds experts of a layout that is not known here ("ffn.experts" of
/// "ffn.experts.mlp.w1", "block_sparse_moe" of "block_sparse_moe.input_linear.weight" [E, N, K]);
/// nothing for any other tensor.
std::optional<std::string_view> odd_experts_of(std::string_view tensor_name,
                                               const std::vector<std::int64_t>& shape);

/// From the shapes (null: no such tensor) and what config.json says; `interleaved` is the caller's
/// to set.
ExpertLayoutAnswer find_expert_layout(const std::vector<std::int64_t>* gate_up,
                                      const std::vector<std::int64_t>* down,
                                      const ModelFacts& facts);

/// All slices of one stored tensor, expert by expert; of gate_up first the gate, then the up half.
std::vector<MatrixSlice> slice_experts(std::string_view tensor_name, ExpertPart part,
                                       const ExpertLayout& layout);

}  // namespace microscale
