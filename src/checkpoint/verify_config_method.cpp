#include "checkpoint/verify_config_method.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json.hpp"

namespace microscale {

bool is_gpt_oss(const QuantizedFolder& folder, std::string_view method) {
  return method == "mxfp4" &&
         std::any_of(folder.weights.begin(), folder.weights.end(), [](const auto& weight) {
           return weight->codes().name() == weight->name() + "_blocks";
         });
}

std::optional<std::string> of_another_method(const QuantizedFolder& folder,
                                             std::string_view method) {
  const bool fp8 = method == "fp8" || method == "fbgemm_fp8", mxfp4 = method == "mxfp4";
  if (!fp8 && !mxfp4) return std::nullopt;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.coded()) continue;
    const StoredType codes = tensor.main_part().entry->type;
    const bool is_fp8 = codes == StoredType::f8_e4m3 || codes == StoredType::f8_e5m2;
    // DeepSeek V4 says fp8 of its experts too, whose two codes a byte are I8.
    const bool fits = fp8 ? is_fp8 || codes == StoredType::i8
                          : tensor.coding_name().starts_with(info(Format::mxfp4).name);
    if (!fits) return fmt::format("{} is {}", in_quotes(tensor.name), tensor.coding_name());
  }
  return std::nullopt;
}

}  // namespace microscale
