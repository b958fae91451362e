// What the tests of `verify` share: a model is written, checked, and the findings come back as
// text.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/small_model.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale::testing {

/// "error rule | message" of every finding.
inline std::vector<std::string> findings_of(const std::filesystem::path& path, int threads = 0) {
  std::vector<std::string> texts;
  for (const Finding& finding : verify_checkpoint(path, {.threads = threads}).findings) {
    texts.push_back((finding.severity == Severity::error ? "error " : "warning ") + finding.rule +
                    " | " + finding.message);
  }
  return texts;
}

inline std::vector<std::string> findings_of(const SmallModel& model) {
  TemporaryFolder folder;
  model.write(folder.path());
  return findings_of(folder.path());
}

using Texts = std::vector<std::string>;

}  // namespace microscale::testing
