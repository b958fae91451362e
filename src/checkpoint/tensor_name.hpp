// Names of tensors taken apart: "model.layers.3.mlp.up_proj.weight" is the leaf up_proj of layer 3
// of the stack "model.layers".
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace microscale {

/// The module a tensor belongs to: its name without ".weight"; the name itself if it has none.
std::string_view module_of(std::string_view tensor_name);

/// "q_proj" of "model.layers.0.self_attn.q_proj".
std::string_view leaf_of(std::string_view module);

/// "model.layers.0.self_attn" of the same; empty for a name without a dot.
std::string_view parent_of(std::string_view module);

/// The pieces between the dots.
std::vector<std::string_view> parts_of(std::string_view name);

/// Whether `word` is one of `words`.
bool is_one_of(std::string_view word, std::span<const std::string_view> words);

/// Whether one of `parts` is one of `words`.
bool has_part(std::span<const std::string_view> parts, std::span<const std::string_view> words);

/// A layer of those that a model repeats.
struct RepeatedLayer {
  std::string_view stack;   // "model.layers"
  std::int64_t number = 0;  // 3
  std::string_view layer;   // "model.layers.3"
  std::string_view within;  // "mlp.up_proj"; not empty
  bool operator==(const RepeatedLayer&) const = default;
};

/// The outermost repeated layer that `name` lies in: a number right after "layers", "layer",
/// "blocks", "block", "h", or a name that ends in one of the first four; nothing if there is none.
std::optional<RepeatedLayer> repeated_layer_of(std::string_view name);

}  // namespace microscale
