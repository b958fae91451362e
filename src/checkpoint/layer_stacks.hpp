// What the modules that enclose repeated layers are called: "model.layers", "transformer_blocks".
#pragma once

#include <string_view>

namespace microscale {

/// Whether these are usually the layers of a language model: "model.layers", "transformer.h".
bool is_main_stack(std::string_view stack);

/// Whether a part of the name says so: "model.language_model.layers".
bool names_language_model(std::string_view stack);

/// Whether only diffusion models call their layers so: "transformer_blocks".
bool is_diffusion_stack(std::string_view stack);

}  // namespace microscale
