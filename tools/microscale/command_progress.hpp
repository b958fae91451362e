// A ProgressCallback of the library that draws on the console and stops at Ctrl-C.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "console.hpp"
#include "microscale/checkpoint.hpp"
#include "report/progress.hpp"

namespace microscale {

class CommandProgress {
 public:
  /// `operation` is the first word of each line. Interrupts are caught from here on.
  CommandProgress(Console& console, std::string operation)
      : console_(console), operation_(std::move(operation)) {
    console_.catch_interrupts();
  }

  /// Valid as long as this is. Drawing begins with the first call, which tells the total and, as
  /// `done`, what an earlier run left.
  ProgressCallback callback() {
    return [this](std::int64_t done, std::int64_t total, std::string_view item) {
      if (!progress_)
        progress_.emplace(console_.progress(operation_, static_cast<std::uint64_t>(total),
                                            static_cast<std::uint64_t>(done)));
      progress_->update(static_cast<std::uint64_t>(done), item);
      return !console_.interrupted();
    };
  }

  void finish() {
    if (progress_) progress_->finish();
  }

 private:
  Console& console_;
  std::string operation_;
  std::optional<Progress> progress_;
};

}  // namespace microscale
