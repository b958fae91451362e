// How experts that lie one by one are called.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace microscale {

inline constexpr std::array<std::string_view, 3> expert_projections{"gate_proj", "up_proj",
                                                                    "down_proj"};

/// "down_proj.weight" of expert 3 of "model.layers.0.mlp.experts".
struct ExpertName {
  std::string_view module;
  std::int64_t expert = 0;
  std::size_t projection = 0;
  bool bias = false;
};

/// Nothing for any other tensor.
std::optional<ExpertName> expert_name_of(std::string_view tensor);

}  // namespace microscale
