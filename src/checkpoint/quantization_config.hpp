// The `quantization_config` of config.json: which modules a loader expects to be quantized, and
// how. Written by compressed-tensors (and by this library); ModelOpt's is read too.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// The format of compressed-tensors under which each group names its own.
inline constexpr std::string_view mixed_precision = "mixed-precision";

/// One entry of config_groups: a format and the modules that have it.
struct QuantizationGroup {
  std::string name;
  std::optional<Format> format;      // nothing: a scheme that is not decoded here
  std::vector<std::string> targets;  // module names, class names ("Linear"), or "re:..."
  bool static_activations = false;   // each module needs a stored scale for its input
  std::string scheme = {};           // in words: "nvfp4", "FP8, one scale per row"
  bool quantized_activations = false;
};

/// How keys and values of attention are to be stored.
struct KvCacheScheme {
  bool stored_scales = true;  // false: computed while the model runs
  bool per_head = false;      // a scale for each key-value head, not one for all
};

struct QuantizationConfig {
  std::string
      method;  // "compressed-tensors", or one of ModelOpt's ("modelopt", "modelopt_mixed", ...)
  std::vector<QuantizationGroup> groups;
  std::vector<std::string> ignore;  // as targets; for modelopt also fnmatch patterns
  std::string model_dtype;          // torch_dtype or dtype of the model: "bfloat16"; may be empty
  /// What is understood here but refused or misread by some loader: a format string that
  /// contradicts the arguments, unknown keys. One sentence each, without the file.
  std::vector<std::string> problems;
  std::optional<KvCacheScheme> kv_cache = {};

  bool is_modelopt() const { return method.starts_with("modelopt"); }
};

/// From the text of config.json. Nothing when it has no quantization_config. A failure says which
/// key is wrong, or `unsupported` which method or scheme is not known here; it does not name the
/// file.
Result<std::optional<QuantizationConfig>> parse_quantization_config(std::string_view config_text);

/// config.json as it describes the dense model: quantization_config is gone, the model's type
/// (torch_dtype or dtype, where it is named) is `dtype`; every other key stays, in order; two
/// spaces of indent and a newline. `config_text` is a JSON object.
Result<std::string> dense_config(std::string_view config_text, DType dtype);

/// The `format` string that compressed-tensors has for `format`; empty if it has none.
std::string_view compressed_tensors_format(Format format);

}  // namespace microscale
