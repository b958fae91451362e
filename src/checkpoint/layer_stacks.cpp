#include "checkpoint/layer_stacks.hpp"

#include <array>

#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

constexpr std::array<std::string_view, 6> language_parts{"language_model", "text_model",   "llm",
                                                         "language",       "text_decoder", "lm"};

constexpr std::array<std::string_view, 13> main_stacks{"model.layers",
                                                       "layers",
                                                       "transformer.h",
                                                       "h",
                                                       "decoder.layers",
                                                       "model.decoder.layers",
                                                       "transformer.layers",
                                                       "transformer.blocks",
                                                       "thinker.model.layers",
                                                       "backbone.layers",
                                                       "model.transformer.blocks",
                                                       "gpt_neox.layers",
                                                       "transformer.encoder.layers"};

}  // namespace

bool is_main_stack(std::string_view stack) { return is_one_of(stack, main_stacks); }

bool names_language_model(std::string_view stack) {
  return has_part(parts_of(stack), language_parts);
}

bool is_diffusion_stack(std::string_view stack) {
  constexpr std::array<std::string_view, 13> leaves{"transformer_blocks",
                                                    "single_transformer_blocks",
                                                    "double_blocks",
                                                    "single_blocks",
                                                    "joint_blocks",
                                                    "down_blocks",
                                                    "up_blocks",
                                                    "input_blocks",
                                                    "output_blocks",
                                                    "double_stream_blocks",
                                                    "single_stream_blocks",
                                                    "noise_refiner",
                                                    "context_refiner"};
  return is_one_of(leaf_of(stack), leaves);
}

}  // namespace microscale
