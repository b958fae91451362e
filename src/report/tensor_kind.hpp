// Where in a model a tensor sits, read from its name: which stack, layer and expert, and what it
// does.
#pragma once

#include <string>
#include <string_view>

namespace microscale {

/// "model.layers.12.self_attn.q_proj.weight" -> {"", 12, -1, "q_proj"}.
struct TensorPlace {
  std::string
      stack;  ///< "encoder", "decoder", "vision", "mtp", ... where the name says so; else empty
  int layer = -1;   ///< -1: outside the layers
  int expert = -1;  ///< -1: none, or all experts in one tensor
  /// What Llama calls it, whatever the model calls it: q_proj, k_proj, v_proj, qkv_proj, o_proj,
  /// gate_proj, up_proj, gate_up_proj, down_proj, q_a_proj, ..., "router"; with "experts." or
  /// "shared." before the name for experts; "other" for everything else.
  std::string kind = "other";

  bool operator==(const TensorPlace&) const = default;
};

TensorPlace tensor_kind(std::string_view name);

/// Position of `kind` in the order they are worked through in a layer; "other" comes last.
int kind_order(std::string_view kind);

}  // namespace microscale
