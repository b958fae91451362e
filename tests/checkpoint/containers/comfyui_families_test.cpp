#include "checkpoint/containers/comfyui_families.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

const ComfyUiFamily& family(std::string_view name) {
  for (const ComfyUiFamily& each : comfyui_families()) {
    if (each.name == name) return each;
  }
  throw std::runtime_error("no such family");
}

TEST(ComfyUiFamilies, are_told_by_their_tensors_with_any_prefix) {
  for (const ComfyUiFamily& each : comfyui_families()) {
    for (const std::string prefix : {"", "model.diffusion_model.", "diffusion_model."}) {
      std::vector<std::string> owned;
      for (const std::string_view name : each.told_by) owned.push_back(prefix + std::string(name));
      owned.emplace_back("some.other.weight");
      std::vector<std::string_view> names(owned.begin(), owned.end());
      ASSERT_NE(comfyui_family_of(names), nullptr) << each.name;
      EXPECT_EQ(comfyui_family_of(names)->name, each.name);
      names.erase(names.begin());
      EXPECT_EQ(comfyui_family_of(names), nullptr) << each.name << " without a tensor";
    }
  }
  EXPECT_EQ(comfyui_family_of({"model.layers.0.self_attn.q_proj.weight"}), nullptr);
  EXPECT_EQ(comfyui_family_of({"xhead.modulation", "blocks.0.cross_attn.k.weight"}), nullptr);
  EXPECT_EQ(comfyui_family_of({}), nullptr);
}

TEST(ComfyUiFamilies, keep_pieces_of_names_and_nothing_else) {
  const ComfyUiFamily& flux = family("Flux");
  EXPECT_EQ(kept_in_family(flux, "model.diffusion_model.img_in"), "img_in");
  EXPECT_EQ(kept_in_family(flux, "final_layer.adaLN_modulation.1"), "final_layer");
  EXPECT_EQ(kept_in_family(flux, "double_blocks.3.img_mod.lin"), "img_mod");
  EXPECT_EQ(kept_in_family(flux, "single_blocks.3.modulation.lin"), "modulation");
  EXPECT_EQ(kept_in_family(flux, "double_blocks.3.img_attn.qkv"), "");
  EXPECT_EQ(kept_in_family(flux, "double_blocks.3.img_mlp.0"), "");
  EXPECT_EQ(kept_in_family(flux, ""), "");
  EXPECT_EQ(kept_in_family(family("Flux.2"), "double_stream_modulation_txt.lin"),
            "double_stream_modulation_*");
  EXPECT_EQ(kept_in_family(family("LTX"), "av_ca_video_scale_shift_adaln_single.linear"),
            "*adaln_single");
  EXPECT_EQ(kept_in_family(family("Wan"), "blocks.0.ffn.0"), "");
  EXPECT_EQ(kept_in_family(family("Wan"), "head.head"), "head");
  EXPECT_EQ(kept_in_family(family("Z-Image"), "noise_refiner.0.attention.qkv"), "noise_refiner");
  EXPECT_EQ(kept_in_family(family("SD3"), "joint_blocks.0.x_block.attn.proj"), "");
}

TEST(ComfyUiFamilies, have_names) {
  EXPECT_EQ(comfyui_family_names(), "Flux.2, Flux, Qwen-Image, Z-Image, Wan, LTX, SDXL, SD3");
}

}  // namespace
}  // namespace microscale
