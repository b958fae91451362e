#include "checkpoint/finding.hpp"

#include "checkpoint/json.hpp"

namespace microscale {

Finding make_finding(Severity severity, std::string_view rule, std::string_view file,
                     std::string_view tensor, std::string_view text) {
  Finding finding{severity, std::string(rule), std::string(file), std::string(tensor), {}};
  if (!file.empty()) finding.message += finding.file + ": ";
  if (!tensor.empty()) finding.message += in_quotes(tensor) + ": ";
  finding.message += text;
  return finding;
}

}  // namespace microscale
