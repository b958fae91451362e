// The diffusion models whose single files ComfyUI loads, by the names of their tensors, and the
// layers that each keeps.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace microscale {

struct ComfyUiFamily {
  std::string_view name;                    // "Flux.2"
  std::vector<std::string_view> told_by{};  // tensors that it has all, without a prefix
  std::vector<std::string_view> kept{};     // pieces of names of modules: "img_in"
};

/// All that are known.
std::span<const ComfyUiFamily> comfyui_families();

/// Of a file with these tensors, which may have a prefix ("model.diffusion_model."); null: of none.
const ComfyUiFamily* comfyui_family_of(const std::vector<std::string_view>& names);

/// The piece for which the family keeps the module; empty: it does not. A piece is a part of the
/// name between dots, and "*" at its beginning or end stands for anything.
std::string_view kept_in_family(const ComfyUiFamily& family, std::string_view module);

/// "Flux, Flux.2, ...".
std::string comfyui_family_names();

}  // namespace microscale
