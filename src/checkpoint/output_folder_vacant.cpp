// Whether the place of an output is free.
#include <fmt/format.h>

#include "checkpoint/journal.hpp"
#include "checkpoint/output_folder.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

// Whether the folder holds anything; a folder that does not exist holds nothing.
Result<bool> holds_nothing(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error) && !error) return true;
  if (!fs::is_directory(folder, error)) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("quantize: the output '{}' is no folder; name one that does not exist yet",
                    folder.string())};
  }
  const fs::directory_iterator first(folder, error);
  if (!error) return first == fs::directory_iterator();
  return Failure{ErrorCode::io, fmt::format("cannot list '{}': {}; check its permissions",
                                            folder.string(), error.message())};
}

}  // namespace

fs::path folder_that_holds(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

Status check_file_to_write(const QuantizeModelOptions& options, int ranks) {
  const auto refuse = [&](std::string_view why) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("quantize: the output '{}' {}", options.output.string(), why)};
  };
  std::error_code error;
  if (ranks > 1) return refuse("is one file, which one process writes; start a single one");
  if (options.resume) {
    return refuse(
        "is one file, of which an interrupted run leaves nothing; run again without --resume");
  }
  if (fs::exists(fs::symlink_status(options.output, error))) {
    return refuse("is there already; name a file that does not exist yet");
  }
  if (!fs::is_directory(folder_that_holds(options.output), error)) {
    return refuse("lies in a folder that does not exist; make it first");
  }
  return success();
}

Status check_vacant(const QuantizeModelOptions& options, int ranks) {
  if (options.container == Container::comfyui || options.container == Container::gguf)
    return check_file_to_write(options, ranks);
  const fs::path& folder = options.output;
  const auto empty = holds_nothing(folder);
  if (!empty) return empty.failure();
  if (empty.value()) return success();
  std::error_code error;
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("quantize: the output '{}' {}", folder.string(),
                             fs::exists(folder / journal_name, error)
                                 ? "holds an interrupted run; pass --resume to continue it, or "
                                   "name another folder"
                                 : "is not empty; name a folder that does not exist yet")};
}

}  // namespace microscale
