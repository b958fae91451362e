// One thing that is wrong with a checkpoint, as a sentence with its place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace microscale {

enum class Severity : std::uint8_t {
  error,    // some loader refuses the checkpoint or reads wrong numbers
  warning,  // it loads, but something looks wrong or may surprise
};

struct Finding {
  Severity severity = Severity::error;
  std::string rule;     // stable name, for JSON and tests: "scale-not-finite"
  std::string file;     // within the folder; may be empty
  std::string tensor;   // or module; may be empty
  std::string message;  // one sentence: file, tensor, position, what is wrong, how to mend it
  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

/// "model.safetensors: 'a.weight_scale': <text>". Either name may be empty.
Finding make_finding(Severity severity, std::string_view rule, std::string_view file,
                     std::string_view tensor, std::string_view text);

}  // namespace microscale
