#include "checkpoint/finished_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "checkpoint/file.hpp"
#include "checkpoint/file_facts.hpp"
#include "checkpoint/folder_files.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_place.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/verify_model.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t copy_buffer = 1 << 20;       // bytes
constexpr std::uint64_t largest_text = 256 << 20;  // the same, of what is compared whole

// What keeps a file from being the one that the plan would write; empty: nothing does.
std::string difference_of(const fs::path& path, const SafetensorsLayout& layout) {
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

// The folder was finished, but a resumed run must not take it for its own.
Failure refuse(const fs::path& output, const std::string& why) {
  return {ErrorCode::invalid_argument,
          fmt::format("cannot resume: '{}' holds no journal of an interrupted run, and is not the "
                      "finished output of this one: {}; name another folder, without --resume",
                      output.string(), why)};
}

Failure spoiled(const fs::path& output, const std::string& what) {
  return {ErrorCode::bad_input, fmt::format("cannot resume: '{}' was finished and then spoiled: {}",
                                            output.string(), what)};
}

class FinishedFolder {
 public:
  FinishedFolder(const ModelPlan& plan, const QuantizeModelOptions& options)
      : plan_(plan), options_(options), output_(options.output) {}

  Result<FinishedRun> mend(const ProgressCallback& progress) {
    run_.done = true;
    for (std::size_t shard = 0; shard < plan_.shards.size(); ++shard) {
      const std::string& name = plan_.shards[shard].name;
      const std::string problem = difference_of(output_ / name, plan_.shards[shard].layout);
      if (!problem.empty()) return refuse(output_, in_quotes(name) + " " + problem);
    }
    Findings unreadable;
    manifest_ = read_manifest(output_, unreadable);
    if (!unreadable.empty()) run_.notes.push_back(unreadable.front().message);
    if (Status same = check_origin(); !same) return same.failure();
    if (Status mended = write_missing(); !mended) return mended.failure();
    if (Status whole = check_hashes(progress); !whole) return whole.failure();
    return std::move(run_);
  }

 private:
  // The input and the options of the run that wrote the folder against those of this one.
  Status check_origin() {
    if (!manifest_ || manifest_->made_of.empty()) return success();
    const auto now = origin_of(plan_, options_);
    if (!now) return now.failure();
    const std::string changed = difference(manifest_->made_of, now.value());
    if (!changed.empty()) return refuse(output_, changed);
    tell_newer_input();
    return success();
  }

  // The manifest has samples of the input, so values that changed elsewhere show by time alone.
  void tell_newer_input() {
    std::error_code error;
    const auto written = fs::last_write_time(output_ / manifest_name, error);
    if (error) return;
    std::vector<std::string> newer;
    for (const auto* files : {&plan_.model.shards, &plan_.model.strays}) {
      for (const ModelShard& file : *files) {
        if (fs::last_write_time(file.file.path(), error) > written && !error) {
          newer.push_back(file.name);
        }
      }
    }
    if (newer.empty()) return;
    run_.notes.push_back(fmt::format(
        "{} of the input {} written after this folder was: only samples of it were compared, so if "
        "weights were changed, convert the model again into another folder, or see with "
        "`microscale verify {} --source {}` whether they were",
        some_of(newer), newer.size() == 1 ? "was" : "were", in_quotes(output_.string()),
        in_quotes(options_.input.string())));
  }

  Status write_missing() {
    std::vector<std::uint8_t> buffer(copy_buffer);
    for (const fs::path& name : plan_.model.other_files) {
      if (!is_missing(output_ / name)) {
        if (Status kept = look_at(name); !kept) return kept;
        continue;
      }
      const auto copied = copy_into_place(plan_.model.root / name, output_ / name, buffer);
      if (!copied) return copied.failure();
      run_.mended.push_back(name.string());
    }
    for (const MadeFile& file : plan_.model.made_files) {
      if (Status made = write_if_missing(file.name, file.text); !made) return made;
    }
    if (!plan_.index_text.empty()) {
      if (Status index = write_if_missing(plan_.model.index_name, plan_.index_text); !index) {
        return index;
      }
    }
    for (const auto& [name, text] : plan_.other_texts) {
      if (Status other = write_if_missing(name, text); !other) return other;
    }
    return write_if_missing("config.json", plan_.config_text);
  }

  // A copied file that is there: weights must be what was copied, other files may have been edited.
  Status look_at(const fs::path& name) {
    if (!manifest_) return success();
    const auto wanted = manifest_->other_files.find(name.string());
    if (wanted == manifest_->other_files.end()) return success();
    const auto found = hash_file(output_ / name);
    if (!found) return found.failure();
    if (found.value() == wanted->second) return success();
    if (holds_weights(name)) {
      return spoiled(output_, fmt::format("the bytes of {} were changed; remove it, and the same "
                                          "command copies it again",
                                          in_quotes(name.string())));
    }
    run_.notes.push_back(
        fmt::format("{} was changed since and stays as it is", in_quotes(name.string())));
    return success();
  }

  Status write_if_missing(const std::string& name, const std::string& text) {
    if (!is_missing(output_ / name)) {
      const auto there = read_small_file(output_ / name, largest_text);
      if (!there || there.value() != text) {
        run_.notes.push_back(fmt::format(
            "{} is not what this run would write, and stays as it is; remove it, and the same "
            "command writes it again",
            in_quotes(name)));
      }
      return success();
    }
    run_.mended.push_back(name);
    return write_file_atomically(output_ / name, text);
  }

  Status check_hashes(const ProgressCallback& progress) {
    if (!manifest_) return success();
    const auto model = open_model_folder(output_);
    if (!model) return model.failure();
    const Findings findings =
        verify_tensor_hashes(model.value(), *manifest_, options_.threads, progress);
    if (!findings.empty()) {
      const std::string more =
          findings.size() > 1 ? fmt::format(" (and {} more)", findings.size() - 1) : "";
      return spoiled(output_, findings.front().message + more);
    }
    run_.hashes_checked = true;
    return success();
  }

  const ModelPlan& plan_;
  const QuantizeModelOptions& options_;
  const fs::path& output_;
  std::optional<Manifest> manifest_;
  FinishedRun run_;
};

}  // namespace

bool looks_finished(const QuantizeModelOptions& options) {
  std::error_code error;
  if (!fs::is_directory(options.output, error) || fs::is_empty(options.output, error)) return false;
  return !fs::exists(options.output / journal_name, error);
}

std::uint64_t held_bytes(const ModelPlan& plan, const QuantizeModelOptions& options) {
  std::uint64_t held = 0;
  for (const ModelShard& shard : plan.model.shards) {
    const fs::path path = options.output / shard.name;
    held += std::max(allocated_bytes(path), allocated_bytes(partial_path(path)));
  }
  for (const fs::path& file : plan.model.other_files) {
    held += allocated_bytes(options.output / file);
  }
  return held;
}

Result<FinishedRun> mend_finished_run(const ModelPlan& plan, const QuantizeModelOptions& options,
                                      const ProgressCallback& progress) {
  return FinishedFolder(plan, options).mend(progress);
}

}  // namespace microscale
