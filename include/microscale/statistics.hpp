// What a file of statistics about the inputs of a model's layers is used for. docs/checkpoints.md
// says what is in one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace microscale {

/// How the weight of a layer is quantized whose inputs are known.
enum class StatisticsMethod : std::uint8_t {
  automatic,      ///< gptq where the file has a layer's Hessian, else search
  search,         ///< scales by errors weighted with E[x^2] of each column
  block_hessian,  ///< scales by the blocks of the Hessian on its diagonal (microscale/hessian.hpp)
  gptq,           ///< errors made good by the columns that follow, too
};
std::string_view to_string(StatisticsMethod method);  ///< "auto", "search", "block-hessian", "gptq"
std::optional<StatisticsMethod> parse_statistics_method(std::string_view name);
std::string statistics_method_names();  ///< "auto, search, ...": for messages

struct StatisticsUse {
  StatisticsMethod method = StatisticsMethod::automatic;
  std::optional<double> shrink{};  ///< as HessianOptions; absent: hessian_shrink of the tokens that
                                   ///< the file counts, 0.3 where it counts none
  double damping = 0.01;           ///< as HessianOptions
  bool operator==(const StatisticsUse&) const = default;
};

}  // namespace microscale
