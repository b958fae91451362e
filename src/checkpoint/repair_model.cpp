// repair_model: a quantized folder written again as loaders want it. Bytes that are right are
// copied; the folder gets its name once it is complete.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "checkpoint/conversion_report.hpp"
#include "checkpoint/dense_output.hpp"
#include "checkpoint/file_names.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/repair_plan.hpp"
#include "checkpoint/rescale.hpp"
#include "checkpoint/shard_index.hpp"
#include "checkpoint/verify_model.hpp"
#include "checkpoint/weight_reader.hpp"
#include "core/threads.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t copy_piece = 4 << 20;  // bytes
// In the folder while it is written, so that what a stopped run left is known for ours.
constexpr const char* repair_marker = ".microscale-repair";

// What repair mends; of anything else verify's sentence is the answer.
constexpr std::array<std::string_view, 13> mended_rules{
    "fused-global-scale", "fused-input-scale",      "leftover-buffer",
    "extra-tensor",       "metadata-format",        "fused-name-ignored",
    "dense-but-expected", "quantized-but-ignored",  "config",
    "format-mismatch",    "no-quantization-config", "quantized-but-not-targeted",
    "manifest-added"};

// Codes or scales of a module for another global scale, or bytes copied as they are.
struct Unit {
  std::size_t tensor = 0;  // of the file
  std::uint64_t at = 0;    // bytes of the tensor; of a rescaled module elements
  std::uint64_t length = 0;
};

using LayerCounts = std::map<const QuantizedModule*, RescaleCounts>;

struct Worker {
  PieceData data;
  LayerCounts counts;
};

class FileWriter {
 public:
  FileWriter(const RepairPlan& plan, const RepairedFile& file, const fs::path& folder)
      : plan_(plan),
        file_(file),
        output_(take(OutputFile::create(folder / file.name, file.layout.file_size))),
        hashes_(lengths_of(file)) {
    const auto* header = reinterpret_cast<const std::uint8_t*>(file.layout.header.data());
    take(output_.write_at(0, {header, file.layout.header.size()}));
    for (std::size_t i = 0; i < file.tensors.size(); ++i) add_units(i);
  }

  const std::vector<Unit>& units() const { return units_; }

  void run(const Unit& unit, Worker& worker) {
    const RepairedTensor& tensor = file_.tensors[unit.tensor];
    if (!tensor.bytes.empty()) return write(unit.tensor, 0, tensor.bytes);
    if (tensor.rescaled) return rescale(unit, tensor, worker);
    std::vector<std::uint8_t>& bytes = worker.data.codes;
    bytes.resize(unit.length);
    const ModelTensor& source = *tensor.source;
    take(
        plan_.folder.model.shards[source.shard].file.read_at(source.entry->begin + unit.at, bytes));
    write(unit.tensor, unit.at, bytes);
  }

  HashedFile finish() {
    take(output_.commit());
    HashedFile hashed{file_.name, &file_.layout.tensors, {}};
    for (std::size_t i = 0; i < hashes_.size(); ++i) hashed.hashes.push_back(hashes_.of(i));
    return hashed;
  }

 private:
  static std::vector<std::uint64_t> lengths_of(const RepairedFile& file) {
    std::vector<std::uint64_t> lengths;
    for (const TensorEntry& entry : file.layout.tensors) lengths.push_back(entry.bytes());
    return lengths;
  }

  void add_units(std::size_t i) {
    const RepairedTensor& tensor = file_.tensors[i];
    const bool rescaled = tensor.rescaled != nullptr;
    const std::uint64_t total =
        rescaled ? static_cast<std::uint64_t>(tensor.rescaled->rows * tensor.rescaled->cols)
                 : file_.layout.tensors[i].bytes();
    const std::uint64_t piece = rescaled ? std::uint64_t{piece_elements} : copy_piece;
    for (std::uint64_t at = 0; at < total; at += piece) {
      units_.push_back({i, at, std::min(piece, total - at)});
    }
  }

  // Codes and scales may lie in different files, so each is worked out by itself.
  void rescale(const Unit& unit, const RepairedTensor& tensor, Worker& worker) {
    const QuantizedModule& module = *tensor.rescaled;
    LogicalTensor whole{module.name, {module.rows, module.cols}, nullptr, &module};
    const auto first = static_cast<std::int64_t>(unit.at);
    take(read_piece_bytes(plan_.folder, {&whole, first, static_cast<std::int64_t>(unit.length)},
                          worker.data));
    const RescaleCounts counts =
        rescale_blocks(worker.data.codes, worker.data.scales, tensor.ratio);
    const FormatInfo& format = info(module.format);
    if (tensor.source == module.codes) {
      worker.counts[&module].add(counts);
      write(unit.tensor, static_cast<std::uint64_t>(code_bytes(format, first)), worker.data.codes);
    } else {
      write(unit.tensor, static_cast<std::uint64_t>(first / format.block), worker.data.scales);
    }
  }

  void write(std::size_t tensor, std::uint64_t at, std::span<const std::uint8_t> bytes) {
    const std::uint64_t begin = file_.layout.tensors[tensor].begin;
    take(output_.write_at(begin + at, bytes));
    hashes_.add(tensor, at, bytes, [&](std::uint64_t place, std::span<std::uint8_t> out) {
      take(output_.read_at(begin + place, out));
    });
  }

  const RepairPlan& plan_;
  const RepairedFile& file_;
  OutputFile output_;
  TensorHashes hashes_;
  std::vector<Unit> units_;
};

class Repairer {
 public:
  Repairer(const RepairPlan& plan, const fs::path& folder, int threads,
           const ProgressCallback& progress)
      : plan_(plan),
        folder_(folder),
        workers_(static_cast<std::size_t>(threads > 0 ? threads : available_cores())),
        progress_(progress) {
    for (const RepairedFile& file : plan.files) {
      total_ += static_cast<std::int64_t>(file.layout.file_size);
    }
  }

  LayerCounts run() {
    advance(0, "");
    std::vector<HashedFile> hashed;
    for (const RepairedFile& file : plan_.files) {
      FileWriter writer(plan_, file, folder_);
      parallel_for_worker(static_cast<std::int64_t>(writer.units().size()),
                          static_cast<int>(workers_.size()), [&](std::int64_t i, int worker) {
                            writer.run(writer.units()[static_cast<std::size_t>(i)],
                                       workers_[static_cast<std::size_t>(worker)]);
                          });
      hashed.push_back(writer.finish());
      advance(static_cast<std::int64_t>(file.layout.file_size), file.name);
    }
    write_others(hashed);
    LayerCounts counts;
    for (const Worker& worker : workers_) {
      for (const auto& [module, of_module] : worker.counts) counts[module].add(of_module);
    }
    return counts;
  }

 private:
  void write_others(const std::vector<HashedFile>& hashed) {
    const ModelFolder& model = plan_.folder.model;
    std::vector<std::uint8_t> buffer(copy_piece);
    ManifestContents manifest{hashed, {}, {}};
    for (const fs::path& file : model.other_files) {
      manifest.other_files[file.string()] =
          take(copy_into_place(model.root / file, folder_ / file, buffer));
    }
    if (!model.index_name.empty()) {
      ShardIndex index;
      index.total_size = 0;
      for (const RepairedFile& file : plan_.files) {
        if (file.side) continue;
        for (const TensorEntry& entry : file.layout.tensors) {
          index.weight_map[entry.name] = file.name;
          *index.total_size += entry.bytes();
        }
      }
      take(write_file_atomically(folder_ / model.index_name, write_shard_index(index)));
    }
    take(write_file_atomically(folder_ / manifest_name, manifest_text(manifest, tool_name())));
    if (!plan_.config_text.empty()) {
      take(write_file_atomically(folder_ / "config.json", plan_.config_text));
    }
    take(sync_folder(folder_));
  }

  void advance(std::int64_t bytes, std::string_view item) {
    done_ += bytes;
    if (progress_ && !progress_(done_, total_, item)) {
      throw Error(ErrorCode::interrupted, "repair: stopped; run the same command again");
    }
  }

  const RepairPlan& plan_;
  fs::path folder_;
  std::vector<Worker> workers_;
  const ProgressCallback& progress_;
  std::int64_t total_ = 0, done_ = 0;
};

// The folder under the name it has while it is written; what an earlier run of ours left is taken
// away.
fs::path make_partial(const fs::path& output) {
  std::error_code error;
  const bool taken = fs::exists(output, error) &&
                     !(fs::is_directory(output, error) && fs::is_empty(output, error));
  if (taken) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("repair: the output '{}' is there already; name a folder that does not "
                            "exist yet",
                            output.string()));
  }
  const fs::path named = output.has_filename() ? output : output.parent_path();
  const fs::path partial = partial_path(named);
  if (fs::exists(partial / repair_marker, error)) fs::remove_all(partial, error);
  if (fs::exists(partial, error) || !fs::create_directories(partial, error)) {
    throw Error(ErrorCode::io, fmt::format("repair: cannot make '{}'; remove it, or check the path "
                                           "and its permissions",
                                           partial.string()));
  }
  take(write_file_atomically(partial / repair_marker, "of " + named.string() + "\n"));
  return partial;
}

/// Of a layer's squares. Rounding block scales anew costs a tenth of this; more means that a global
/// scale was wrong, not only unlike its neighbours'.
constexpr double largest_change = 0.01;

void refuse_large_change(const LayerCounts& counts) {
  for (const auto& [module, changed] : counts) {
    if (changed.squared_change <= largest_change * changed.squared_before) continue;
    throw Error(ErrorCode::bad_input,
                fmt::format("repair: '{}': its global scale is so far from that of the layers it "
                            "is fused with that one for all would change it by {:.3g} % (of "
                            "squares; 1 % is accepted); quantize the original again",
                            module->name, 100 * changed.squared_change / changed.squared_before));
  }
}

// Verify has read all of it: what is wrong with values cannot be mended.
void refuse_what_stays_wrong(const VerifyReport& report) {
  for (const Finding& finding : report.findings) {
    if (finding.rule == "magnitude") {
      throw Error(ErrorCode::bad_input,
                  fmt::format("repair: which scale is right cannot be told from the folder, so "
                              "quantize the original again: {}",
                              finding.message));
    }
    const bool mended =
        std::find(mended_rules.begin(), mended_rules.end(), finding.rule) != mended_rules.end();
    if (finding.severity == Severity::warning || mended) continue;
    throw Error(ErrorCode::bad_input,
                fmt::format("repair: this it cannot mend: {}", finding.message));
  }
}

}  // namespace

RepairReport repair_model(const RepairModelOptions& options, const ProgressCallback& progress) {
  if (!options.dry_run || !options.output.empty()) {
    take(check_output_place(options.input, options.output, "repair"));
  }
  const VerifyReport verified = verify_checkpoint(options.input, {.threads = options.threads});
  refuse_what_stays_wrong(verified);
  ModelFolder model = take(open_model_folder(options.input));
  if (const auto file = unfinished_run(model)) {
    throw Error(ErrorCode::bad_input,
                fmt::format("repair: '{}' is unfinished ('{}' is there); finish it first",
                            options.input.string(), *file));
  }
  take(check_file_names(model, "repair"));
  const RepairPlan plan = take(plan_repair(std::move(model)));
  RepairReport report;
  report.changes = plan.changes;
  report.found = verified.errors();
  if (options.dry_run || plan.changes.empty()) return report;
  const fs::path partial = make_partial(options.output);
  const LayerCounts layers = Repairer(plan, partial, options.threads, progress).run();
  take(check_unchanged(plan.folder.model, "repair"));
  std::error_code error;
  try {
    refuse_large_change(layers);
  } catch (...) {
    fs::remove_all(partial, error);
    throw;
  }
  RescaleCounts counts;
  for (const auto& [module, changed] : layers) counts.add(changed);
  fs::remove(partial / repair_marker, error);
  fs::rename(partial,
             options.output.has_filename() ? options.output : options.output.parent_path());
  report.written = true;
  report.blocks = counts.blocks;
  report.scales_changed = counts.scales_changed;
  report.blocks_inexact = counts.blocks_inexact;
  report.codes_changed = counts.codes_changed;
  if (counts.squared_before > 0) {
    report.relative_change = counts.squared_change / counts.squared_before;
  }
  return report;
}

}  // namespace microscale
