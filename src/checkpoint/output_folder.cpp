#include "checkpoint/output_folder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/conversion_report.hpp"
#include "checkpoint/file_facts.hpp"
#include "checkpoint/format_choice.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/named_file.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

// Whether `path` is `folder` or below it; both canonical.
bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

// Absolute, links followed as far as the path exists, no trailing slash.
Result<fs::path> resolve(const fs::path& path) {
  std::error_code error;
  fs::path found = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) {
    return Failure{ErrorCode::io, fmt::format("cannot resolve '{}': {}; check the path",
                                              path.string(), error.message())};
  }
  if (!found.has_filename() && found.has_relative_path()) found = found.parent_path();
  return found;
}

Result<std::string> describe(const InputFile& file, std::uint64_t header_bytes) {
  std::string header(header_bytes, '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(header.data());
  if (Status read = file.read_at(0, {bytes, header.size()}); !read) return read.failure();
  return fmt::format("of {} bytes, changed {}, header {}", file.size(), file.identity().modified_ns,
                     digest_of(header));
}

// The same of a file that was copied elsewhere, other than of one that was trained on: that has
// other values under the same header.
Result<std::string> describe_contents(const ModelShard& shard, bool read) {
  const auto described = [&](const std::string& header, const std::string& sample) {
    return fmt::format("of {} bytes, header {}, sample {}", shard.file.size(), header, sample);
  };
  if (!read) return described(digest_of(""), digest_of(""));
  std::string header(shard.header.data_start, '\0');
  auto* bytes = reinterpret_cast<std::uint8_t*>(header.data());
  if (Status got = shard.file.read_at(0, {bytes, header.size()}); !got) return got.failure();
  const auto sample = sample_digest(shard.file.path());
  if (!sample) return sample.failure();
  return described(digest_of(header), sample.value());
}

std::string join(const std::vector<std::string>& patterns) {
  std::string text;
  for (const std::string& pattern : patterns) text += "'" + pattern + "' ";
  return text.empty() ? "none" : text;
}

// Relative to the folder, in the input or in the output, as both have the same names.
std::vector<fs::path> files_of(const ModelPlan& plan) {
  std::vector<fs::path> names = plan.model.other_files;
  for (const ModelShard& shard : plan.model.shards) names.emplace_back(shard.name);
  if (!plan.model.index_name.empty()) names.emplace_back(plan.model.index_name);
  for (const auto& [name, text] : plan.other_texts) names.emplace_back(name);
  for (const MadeFile& file : plan.model.made_files) names.emplace_back(file.name);
  names.emplace_back("config.json");
  return names;
}

// Why a report must not be at `place`, which is resolved; nullptr: it may.
Result<const char*> report_obstacle(const ModelPlan& plan, const QuantizeModelOptions& options,
                                    const fs::path& place) {
  const auto from = resolve(options.input), to = resolve(options.output);
  if (!from) return from.failure();
  if (!to) return to.failure();
  const char* input = "is of the input, which is never written to";
  if (is_within(place, from.value())) return input;
  // Files of the input may be links to elsewhere, as in a Hugging Face cache.
  std::vector<fs::path> read;
  for (const fs::path& name : files_of(plan)) read.push_back(plan.model.root / name);
  for (const ModelShard& shard : plan.model.shards) read.push_back(shard.file.path());
  if (!options.importance.empty()) read.push_back(options.importance);
  if (!options.input_scales.empty()) read.push_back(options.input_scales);
  for (const fs::path& path : read) {
    std::error_code error;
    if (fs::exists(path, error) && fs::canonical(path, error) == place) return input;
  }
  if (is_within(to.value(), place)) return "is where the output folder will be";
  std::vector<fs::path> written = files_of(plan);
  written.emplace_back(journal_name);
  written.emplace_back(manifest_name);
  for (const fs::path& name : written) {
    const fs::path path = to.value() / name;
    if (is_within(path, place) || partial_path(path) == place) return "is of the output itself";
  }
  return nullptr;
}

// Every option that changes a byte. Without `read` no digest is made.
Result<Fingerprint> options_of(const ModelPlan& plan, const QuantizeModelOptions& options,
                               bool read) {
  const Numerics& n = options.numerics;
  const auto number = [](auto value) {
    return fmt::format("{}", static_cast<std::uint64_t>(value));
  };
  std::vector<std::string> use;
  for (const UseFormat& each : options.use) {
    use.push_back(fmt::format("{}={}", each.pattern, to_string(each.format)));
  }
  Fingerprint fingerprint{
      {"option format", std::string(info(options.format).name)},
      {"option scale rule", std::string(to_string(n.scale_rule))},
      {"option rounding", std::string(to_string(n.rounding))},
      {"option NaN policy", number(n.nan)},
      {"option infinity policy", number(n.inf)},
      {"option zero code", number(n.zero_code)},
      {"option compat", std::string(to_string(n.compat))},
      {"option seed", number(n.seed)},
      {"option include", join(options.include)},
      {"option ignore", join(options.ignore)},
      {"option experts", options.experts ? number(*options.experts) : "as the model says"},
      {"option container", std::string(to_string(options.container))},
      {"option use", join(use)},
      {"option activations", std::string(to_string(options.activations))},
  };
  std::size_t adapters = 0;
  for (const LoraAdapter& adapter : plan.adapters) {
    const auto digest = read ? sample_digest(adapter.file.path()) : digest_of("");
    if (!digest) return digest.failure();
    fingerprint.emplace_back(
        fmt::format("option lora {}", ++adapters),
        fmt::format("times {}, a file with digest {}, config {}", adapter.weight, digest.value(),
                    digest_of(adapter.config_text)));
  }
  if (options.budget.given()) {
    fingerprint.emplace_back("option budget", in_words(options.budget));
    if (options.choice) fingerprint.emplace_back(choice_entry, to_text(*options.choice));
  }
  if (options.keep_codes) {
    fingerprint.emplace_back(
        "option keep codes",
        fmt::format("exact {}, to nvfp4 {}", options.keep_codes->exact, options.keep_codes->cast));
  }
  if (!options.importance.empty()) {
    const auto digest = read ? sample_digest(options.importance) : digest_of("");
    if (!digest) return digest.failure();
    fingerprint.emplace_back("option importance", "a file with digest " + digest.value());
    fingerprint.emplace_back("option statistics", in_words(options.statistics));
  }
  if (!options.input_scales.empty()) {
    std::string numbers;
    for (const ShardPlan& shard : plan.shards) {
      for (const QuantizedMatrix& matrix : shard.matrices) {
        numbers += fmt::format("{} {}\n", matrix.slice.module, matrix.input_amax);
      }
    }
    fingerprint.emplace_back("option input scales", "numbers with digest " + digest_of(numbers));
  }
  return fingerprint;
}

void add_config(const ModelPlan& plan, Fingerprint& fingerprint) {
  if (!plan.model.config_text) return;
  fingerprint.emplace_back("input config.json", "digest " + digest_of(*plan.model.config_text));
}

}  // namespace

Status check_output_place(const fs::path& input, const fs::path& output,
                          std::string_view operation) {
  if (input.empty()) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("{}: no model was named; name a model folder or a .safetensors file",
                               operation)};
  }
  if (output.empty()) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("{}: no output folder was named; name one with -o", operation)};
  }
  const auto from = resolve(input), to = resolve(output);
  if (!from) return from.failure();
  if (!to) return to.failure();
  const char* relation = nullptr;
  if (from.value() == to.value()) {
    relation = "is the input";
  } else if (is_within(to.value(), from.value())) {
    relation = "is inside the input";
  } else if (is_within(from.value(), to.value())) {
    relation = "holds the input";
  }
  if (!relation) return success();
  return Failure{ErrorCode::invalid_argument,
                 fmt::format("{}: the output '{}' {} '{}', which is never written to; name another "
                             "folder",
                             operation, output.string(), relation, input.string())};
}

Status check_report_place(const ModelPlan& plan, const QuantizeModelOptions& options,
                          const fs::path& report) {
  const auto place = resolve(report), output = resolve(options.output);
  if (!place) return place.failure();
  if (!output) return output.failure();
  const auto obstacle = report_obstacle(plan, options, place.value());
  if (!obstacle) return obstacle.failure();
  if (obstacle.value()) {
    return Failure{ErrorCode::invalid_argument,
                   fmt::format("quantize: the report '{}' {}; name another file", report.string(),
                               obstacle.value())};
  }
  // The output folder is made by the run, if it is not there.
  std::error_code error;
  const bool to_be_made =
      place.value().parent_path() == output.value() && !fs::exists(output.value(), error);
  if (to_be_made && report.has_filename()) return success();
  const auto named = place_of_named_file(report);
  return named ? success() : Status(named.failure());
}

Result<Fingerprint> fingerprint_of(const ModelPlan& plan, const QuantizeModelOptions& options) {
  Fingerprint fingerprint{{"tool", tool_name()}};
  auto chosen = options_of(plan, options, true);
  if (!chosen) return chosen.failure();
  fingerprint.insert(fingerprint.end(), chosen.value().begin(), chosen.value().end());
  for (const ModelShard& shard : plan.model.shards) {
    const auto text = describe(shard.file, shard.header.data_start);
    if (!text) return text.failure();
    fingerprint.emplace_back("input " + shard.name, text.value());
  }
  add_config(plan, fingerprint);
  for (const fs::path& name : plan.model.other_files) {
    const auto file = InputFile::open(plan.model.root / name);
    if (!file) return file.failure();
    fingerprint.emplace_back("input " + name.string(),
                             fmt::format("of {} bytes, changed {}", file.value().size(),
                                         file.value().identity().modified_ns));
  }
  return fingerprint;
}

Result<Fingerprint> origin_of(const ModelPlan& plan, const QuantizeModelOptions& options,
                              bool read) {
  auto origin = options_of(plan, options, read);
  if (!origin) return origin.failure();
  for (const auto* files : {&plan.model.shards, &plan.model.strays}) {
    for (const ModelShard& file : *files) {
      const auto text = describe_contents(file, read);
      if (!text) return text.failure();
      origin.value().emplace_back("input " + file.name, text.value());
    }
  }
  add_config(plan, origin.value());
  return origin;
}

Result<std::uint64_t> manifest_size(const ModelPlan& plan, const QuantizeModelOptions& options) {
  ManifestContents contents;
  auto origin = origin_of(plan, options, false);
  if (!origin) return origin.failure();
  contents.made_of = std::move(origin.value());
  for (const fs::path& file : plan.model.other_files) {
    std::error_code error;
    contents.other_files[file.string()].bytes = fs::file_size(plan.model.root / file, error);
  }
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    const auto& tensors = plan.shards[shard].layout.tensors;
    contents.files.push_back(
        {plan.shards[shard].name, &tensors, std::vector<TensorHash>(tensors.size())});
  }
  return manifest_text(contents, tool_name()).size();
}

Result<Journal> open_output_folder(const QuantizeModelOptions& options,
                                   const Fingerprint& fingerprint,
                                   const std::function<Status(FinishedFile)>& visit) {
  const fs::path& folder = options.output;
  std::error_code error;
  const bool has_journal = fs::exists(folder / journal_name, error);
  if (Status vacant = check_vacant(options, 1); !vacant) {
    const bool unreadable = vacant.failure().code == ErrorCode::io;
    if (!options.resume || unreadable || !fs::is_directory(folder, error)) return vacant.failure();
    if (!has_journal) {
      return Failure{
          ErrorCode::invalid_argument,
          fmt::format("cannot resume: '{}' holds no journal of an interrupted run, so it is "
                      "either complete or not ours; name another folder, without --resume",
                      folder.string())};
    }
    return Journal::resume(folder, fingerprint, visit);
  }
  fs::create_directories(folder, error);
  if (error) {
    return Failure{ErrorCode::io,
                   fmt::format("cannot make the output folder '{}': {}; check the path and "
                               "its permissions",
                               folder.string(), error.message())};
  }
  return Journal::start(folder, fingerprint);
}

void forget_fruitless_run(const fs::path& folder, bool made) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename() != journal_name) return;
  }
  fs::remove(folder / journal_name, ignored);
  if (made) fs::remove(folder, ignored);
}

void remove_files_of(const ModelPlan& plan, const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> names = files_of(plan);
  for (const ShardPlan& shard : plan.shards) names.emplace_back(shard.name);
  names.emplace_back(manifest_name);
  for (const fs::path& name : names) {
    fs::remove(folder / name, ignored);
    // What held it goes once it is empty.
    for (fs::path holder = name.parent_path(); !holder.empty(); holder = holder.parent_path()) {
      fs::remove(folder / holder, ignored);
    }
  }
}

Result<ManifestFile> copy_into_place(const fs::path& from, const fs::path& to,
                                     std::span<std::uint8_t> buffer) {
  auto input = InputFile::open(from);
  if (!input) return input.failure();
  std::error_code error;
  fs::create_directories(to.parent_path(), error);
  const std::uint64_t size = input.value().size();
  auto output = OutputFile::create(to, size);
  if (!output) return output.failure();
  StreamHash hash;
  for (std::uint64_t at = 0; at < size;) {
    const auto part = buffer.first(std::min<std::uint64_t>(buffer.size(), size - at));
    if (Status read = input.value().read_at(at, part); !read) return read.failure();
    if (Status written = output.value().write_at(at, part); !written) return written.failure();
    hash.add(part);
    at += part.size();
  }
  if (Status committed = output.value().commit(); !committed) return committed.failure();
  take_permissions(from, to);
  return ManifestFile{size, hash.finish()};
}

}  // namespace microscale
