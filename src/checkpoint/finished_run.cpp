#include "checkpoint/finished_run.hpp"

#include <fmt/format.h>

#include <system_error>

#include "checkpoint/file.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/output_folder.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t copy_buffer = 1 << 20;  // bytes

// What keeps a file from being the one that the plan would write; empty: nothing does.
std::string difference(const fs::path& path, const SafetensorsLayout& layout) {
  const auto file = InputFile::open(path);
  if (!file) return "is not there";
  if (file.value().size() != layout.file_size) return "has another size";
  std::string header(layout.header.size(), '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(header.data());
  if (!file.value().read_at(0, {bytes, header.size()})) return "cannot be read";
  return header == layout.header ? "" : "holds other tensors";
}

bool is_missing(const fs::path& path) {
  std::error_code error;
  return !fs::exists(path, error);
}

Status write_if_missing(const fs::path& output, const std::string& name, const std::string& text,
                        std::vector<std::string>& written) {
  if (!is_missing(output / name)) return success();
  written.push_back(name);
  return write_file_atomically(output / name, text);
}

}  // namespace

bool looks_finished(const QuantizeModelOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.output, error) || fs::is_empty(options.output, error)) return false;
  return !fs::exists(options.output / journal_name, error);
}

Result<std::vector<std::string>> mend_finished_run(const ModelPlan& plan,
                                                   const QuantizeModelOptions& options) {
  const fs::path& output = options.output;
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    const std::string& name = plan.model.shards[shard].name;
    const std::string problem = difference(output / name, plan.shards[shard].layout);
    if (problem.empty()) continue;
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("cannot resume: '{}' holds no journal of an interrupted run, and is not the "
                    "finished output of this one: {} {}; name another folder, without --resume",
                    output.string(), in_quotes(name), problem)};
  }
  std::vector<std::string> written;
  std::vector<std::uint8_t> buffer(copy_buffer);
  for (const fs::path& name : plan.model.other_files) {
    if (!is_missing(output / name)) continue;
    Status copied = copy_into_place(plan.model.root / name, output / name, buffer);
    if (!copied) return copied.failure();
    written.push_back(name.string());
  }
  if (!plan.index_text.empty()) {
    Status index = write_if_missing(output, plan.model.index_name, plan.index_text, written);
    if (!index) return index.failure();
  }
  if (Status config = write_if_missing(output, "config.json", plan.config_text, written); !config) {
    return config.failure();
  }
  return written;
}

}  // namespace microscale
