#include "checkpoint/containers/comfyui_families.hpp"

#include <algorithm>

namespace microscale {
namespace {

// The more specific before the more general: Flux.2 has the names of Flux too.
const std::vector<ComfyUiFamily>& families() {
  static const std::vector<ComfyUiFamily> all{
      {"Flux.2",
       {"double_blocks.0.img_attn.qkv.weight", "double_stream_modulation_img.lin.weight"},
       {"img_in", "txt_in", "time_in", "guidance_in", "double_stream_modulation_*",
        "single_stream_modulation", "final_layer"}},
      {"Flux",
       {"double_blocks.0.img_attn.qkv.weight", "double_blocks.0.img_mod.lin.weight"},
       {"img_in", "txt_in", "time_in", "vector_in", "guidance_in", "img_mod", "txt_mod",
        "modulation", "final_layer"}},
      {"Qwen-Image",
       {"transformer_blocks.0.img_mod.1.weight", "txt_norm.weight"},
       {"img_in", "txt_in", "time_text_embed", "img_mod", "txt_mod", "norm_out", "proj_out"}},
      {"Z-Image",
       {"layers.0.attention.qkv.weight", "cap_embedder.1.weight"},
       {"x_embedder", "cap_embedder", "t_embedder", "noise_refiner", "context_refiner",
        "adaLN_modulation", "final_layer"}},
      {"Wan",
       {"head.modulation", "blocks.0.cross_attn.k.weight"},
       {"patch_embedding", "text_embedding", "time_embedding", "time_projection", "img_emb", "head",
        "vace_patch_embedding", "vace_blocks", "control_adapter", "ref_conv"}},
      {"LTX",
       {"transformer_blocks.0.attn1.to_q.weight", "patchify_proj.weight"},
       {"patchify_proj", "audio_patchify_proj", "adaln_single", "*adaln_single",
        "caption_projection", "audio_caption_projection", "proj_out", "audio_proj_out",
        "embeddings_connector", "*_connector"}},
      {"SDXL",
       {"label_emb.0.0.weight", "input_blocks.4.1.transformer_blocks.0.attn1.to_q.weight"},
       {"time_embed", "label_emb", "emb_layers", "conditioner", "first_stage_model"}},
      {"SD3",
       {"joint_blocks.0.x_block.attn.qkv.weight"},
       {"x_embedder", "y_embedder", "t_embedder", "context_embedder", "adaLN_modulation",
        "final_layer", "text_encoders", "first_stage_model"}},
  };
  return all;
}

bool part_matches(std::string_view piece, std::string_view part) {
  if (piece.starts_with('*')) return part.ends_with(piece.substr(1));
  if (piece.ends_with('*')) return part.starts_with(piece.substr(0, piece.size() - 1));
  return piece == part;
}

}  // namespace

std::span<const ComfyUiFamily> comfyui_families() { return families(); }

const ComfyUiFamily* comfyui_family_of(const std::vector<std::string_view>& names) {
  const auto has = [&](std::string_view wanted) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return name.ends_with(wanted) &&
             (name.size() == wanted.size() || name[name.size() - wanted.size() - 1] == '.');
    });
  };
  const auto found = std::find_if(families().begin(), families().end(), [&](const auto& family) {
    return std::all_of(family.told_by.begin(), family.told_by.end(), has);
  });
  return found == families().end() ? nullptr : &*found;
}

std::string_view kept_in_family(const ComfyUiFamily& family, std::string_view module) {
  while (!module.empty()) {
    const std::size_t dot = module.find('.');
    const std::string_view part = module.substr(0, dot);
    for (const std::string_view piece : family.kept) {
      if (part_matches(piece, part)) return piece;
    }
    if (dot == std::string_view::npos) break;
    module.remove_prefix(dot + 1);
  }
  return {};
}

std::string comfyui_family_names() {
  std::string names;
  for (const ComfyUiFamily& family : families()) {
    names += (names.empty() ? "" : ", ") + std::string(family.name);
  }
  return names;
}

}  // namespace microscale
