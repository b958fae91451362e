// Linear layers that inference engines fuse into one: they must be quantized alike and share one
// NVFP4 global scale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace microscale {

/// The group of a module, named after its parent and members
/// ("model.layers.0.self_attn.{q_proj,k_proj,v_proj}"); nothing for a layer that is never fused.
/// Modules with equal names belong together, in whatever file they are.
std::optional<std::string> fused_group_of(std::string_view module);

/// "model.layers.0.self_attn.qkv_proj" of the same: what vLLM calls the layer that it makes of
/// them.
std::optional<std::string> fused_name_of(std::string_view module);

/// "model.layers.0.mlp.experts" of "model.layers.0.mlp.experts.7.up_proj", "l.0.moe" of
/// "l.0.moe.7.linear": engines run all experts of a layer alike; nothing for a module that is no
/// expert's.
std::optional<std::string_view> expert_layer_of(std::string_view module);

}  // namespace microscale
