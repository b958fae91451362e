// Budgets and the choices they lead to, as text: for sentences, and for the journal and the
// manifest, which keep a choice so that --resume need not measure again.
#pragma once

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "microscale/layer_formats.hpp"

namespace microscale {

/// Of a fingerprint: the text of the choice that a budget led to.
inline constexpr const char* choice_entry = "option choice";

/// "nvfp4, fp8 and bf16".
std::string in_words(const std::vector<MenuFormat>& menu);

/// "at most 4.75 bits a weight of nvfp4, fp8 and bf16": every number that changes a byte.
std::string in_words(const Budget& budget);

/// The layers that get one format with this tensor: the experts of its layer, its fused group, or
/// its module alone.
std::string choice_group_of(std::string_view tensor_name);

/// One JSON object, numbers in the shortest form that reads back equal.
std::string to_text(const FormatChoice& choice);
/// And back. A failure says what is wrong with it.
Result<FormatChoice> choice_from(std::string_view text);

}  // namespace microscale
