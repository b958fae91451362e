// Linear layers that inference engines fuse into one: they must be quantized alike and share one
// NVFP4 global scale.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace microscale {

/// The group of a module, named after its parent and members
/// ("model.layers.0.self_attn.{q_proj,k_proj, v_proj}"); nothing for a layer that is never fused.
/// Modules with equal names belong together, in whatever file they are.
std::optional<std::string> fused_group_of(std::string_view module);

}  // namespace microscale
