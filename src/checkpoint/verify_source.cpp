#include "checkpoint/verify_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checkpoint/classifier.hpp"
#include "checkpoint/config_check.hpp"
#include "checkpoint/source_sums.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/verify_source_pairs.hpp"
#include "checkpoint/verify_source_verdict.hpp"
#include "checkpoint/weight_reader.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

// Tiles of a tensor whose scales are held against every rule.
constexpr std::int64_t sampled_tiles = 4;
constexpr std::int64_t copy_piece = 1 << 20;  // bytes

struct Task {
  std::size_t pair = 0;
  std::int64_t first = 0, count = 0;  // elements; of a copy bytes
  Tile tile;                          // the same in the original, where values are compared
  bool sampled = false;
};

struct Worker {
  PieceData stored;
  std::vector<std::uint8_t> bytes, scratch;
  std::vector<float> values;  // of the original
};

class SourceCheck {
 public:
  SourceCheck(const QuantizedFolder& folder, const std::vector<SourcePair>& pairs,
              Findings& findings)
      : folder_(folder), pairs_(pairs), findings_(findings) {}

  SourceAnswer run(int threads, const ProgressCallback& progress) {
    std::vector<Task> tasks;
    for (std::size_t i = 0; i < pairs_.size(); ++i) add_tasks(i, tasks);
    const int workers = threads > 0 ? threads : available_cores();
    std::vector<Worker> scratch(static_cast<std::size_t>(workers));
    SourceSums whole;
    std::int64_t done = 0, total = 0;
    for (const Task& task : tasks) total += task.count;
    compute_in_order<SourceSums>(
        static_cast<std::int64_t>(tasks.size()), workers,
        [&](std::int64_t i, int worker) {
          return measure(tasks[static_cast<std::size_t>(i)],
                         scratch[static_cast<std::size_t>(worker)]);
        },
        [&](std::int64_t i, SourceSums& sums) {
          const Task& task = tasks[static_cast<std::size_t>(i)];
          whole.add(sums);
          done += task.count;
          const auto next = static_cast<std::size_t>(i) + 1;
          if (next < tasks.size() && tasks[next].pair == task.pair) return;
          finish(pairs_[task.pair], whole);
          whole = {};
          if (progress && !progress(done, total, pairs_[task.pair].stored->name)) {
            throw Error(ErrorCode::interrupted, "verify: stopped before everything was compared");
          }
        });
    judge_rules();
    report_decoded();
    std::stable_sort(answer_.tensors.begin(), answer_.tensors.end(),
                     [](const SourceTensor& a, const SourceTensor& b) {
                       return a.relative_mse > b.relative_mse;
                     });
    return std::move(answer_);
  }

 private:
  void report(Severity severity, std::string_view rule, const LogicalTensor& tensor,
              const std::string& text) {
    const ModelTensor& at = tensor.main_part();
    findings_.push_back(make_finding(severity, rule, folder_.file_of(at), tensor.name, text));
  }

  void add_tasks(std::size_t i, std::vector<Task>& tasks) {
    const SourcePair& pair = pairs_[i];
    if (!pair.by_value) {
      const auto bytes = static_cast<std::int64_t>(pair.stored->bytes());
      for (std::int64_t at = 0; at == 0 || at < bytes; at += copy_piece) {
        tasks.push_back({i, at, std::min(copy_piece, bytes - at), {}, false});
      }
      return;
    }
    const TileGrid grid(pair.slice.rows, pair.slice.cols);
    const std::int64_t stride = std::max<std::int64_t>(1, grid.count() / sampled_tiles);
    for (std::int64_t t = 0; t < grid.count(); ++t) {
      const Tile tile = grid.tile(t);
      tasks.push_back(
          {i, tile.row * pair.slice.cols + tile.col, tile.elements(), tile, t % stride == 0});
    }
  }

  // Whether the bytes of a piece of a copy differ.
  SourceSums compare_bytes(const SourcePair& pair, const Task& task, Worker& worker) const {
    SourceSums sums;
    const ModelTensor& stored = *pair.stored->stored;
    const StoredType type = copied_type(*pair.original);
    sums.not_nearest = stored.entry->shape != pair.original->entry.shape;
    if (sums.not_nearest || task.count == 0 || type != stored.entry->type) return sums;
    worker.bytes.resize(static_cast<std::size_t>(task.count));
    worker.stored.codes.resize(worker.bytes.size());
    const auto at = static_cast<std::uint64_t>(task.first);
    take(folder_.model.shards[stored.shard].file.read_at(stored.entry->begin + at,
                                                         worker.stored.codes));
    take(read_copied(*pair.original, at, worker.bytes, worker.scratch));
    sums.not_nearest = worker.stored.codes != worker.bytes;
    return sums;
  }

  SourceSums measure(const Task& task, Worker& worker) {
    const SourcePair& pair = pairs_[task.pair];
    if (!pair.by_value) return compare_bytes(pair, task, worker);
    SourceSums sums;
    const TensorEntry& entry = pair.original->entry;
    const std::int64_t size = size_of(*dense_type(entry.type));
    worker.bytes.resize(static_cast<std::size_t>(task.count * size));
    worker.scratch.resize(static_cast<std::size_t>(tile_scratch_bytes));
    take(pair.original->read_tile(pair.slice, task.tile, worker.bytes, worker.scratch));
    worker.values.resize(static_cast<std::size_t>(task.count));
    decode_dense(entry.type, worker.bytes, worker.values);
    take(read_piece(folder_, {pair.stored, task.first, task.count}, worker.stored));
    const std::int64_t cols = pair.slice.cols;
    const auto coding = pair.stored->blocks();
    if (!coding || cols % info(coding->format).block != 0) {
      add_values(worker.stored, worker.values, cols, task.first, sums);
      return sums;
    }
    add_values(*coding, worker.stored, worker.values, cols, task.first, sums);
    if (task.sampled) try_rules(*coding, worker.stored, worker.values, sums);
    return sums;
  }

  void finish(const SourcePair& pair, const SourceSums& sums) {
    const LogicalTensor& stored = *pair.stored;
    if (stored.coded()) {
      SourceTensor tensor = figures_of(stored, sums);
      if (const auto verdict = judge_coded(folder_, pair, sums, tensor)) {
        report(verdict->severity, verdict->rule, stored, verdict->text);
      }
      keep(stored, std::move(tensor));
      return;
    }
    const std::int64_t differing = pair.by_value ? sums.differing : sums.not_nearest;
    const bool same_type = stored.stored->entry->type == copied_type(*pair.original);
    if (same_type && differing == 0) {
      ++answer_.copies;
      return;
    }
    SourceTensor tensor = figures_of(stored, sums);
    if (pair.by_value && (differing == 0 || looks_decoded(sums, tensor))) {
      ++answer_.decoded;
      keep(stored, std::move(tensor));
      return;
    }
    report(Severity::error, "source-copy", stored,
           "it is not quantized and differs from the original; copy it again");
  }

  void keep(const LogicalTensor& stored, SourceTensor tensor) {
    stored_.push_back(&stored);
    answer_.tensors.push_back(std::move(tensor));
  }

  // Said once: such a folder has many.
  void report_decoded() {
    if (answer_.decoded == 0) return;
    double worst = 0;
    const LogicalTensor* first = nullptr;
    for (std::size_t i = 0; i < answer_.tensors.size(); ++i) {
      if (stored_[i]->coded()) continue;
      if (!first) first = stored_[i];
      worst = std::max(worst, answer_.tensors[i].relative_mse);
    }
    const std::string more =
        answer_.decoded > 1 ? fmt::format(" and {} more weights are", answer_.decoded - 1) : " is";
    report(Severity::warning, "source-decoded", *first,
           fmt::format("it{} dense, and the original's but for rounding (a relative MSE of {} at "
                       "most): the model was quantized and decoded again, or trained further",
                       more, format_percent(worst, 4)));
  }

  // The rule of most tensors is the one that was meant.
  void judge_rules() {
    std::map<std::string, int> votes;
    for (const SourceTensor& tensor : answer_.tensors) {
      if (!tensor.rule.empty() && tensor.rule_share >= fits_rule) ++votes[tensor.rule];
    }
    const auto meant =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = 0; i < answer_.tensors.size(); ++i) {
      const SourceTensor& tensor = answer_.tensors[i];
      if (tensor.rule.empty()) continue;
      const bool fits = tensor.rule_share >= fits_rule;
      if (fits && tensor.rule == meant->first) continue;
      const std::string others =
          meant == votes.end() ? ""
                               : fmt::format("; those of most tensors follow '{}'", meant->first);
      report(
          Severity::warning, "source-rule", *stored_[i],
          fits ? fmt::format("its scales follow the rule '{}'{}", tensor.rule, others)
               : fmt::format("its scales follow no rule that is known here: '{}' fits best, {} of "
                             "them{}",
                             tensor.rule, format_percent(tensor.rule_share), others));
    }
  }

  const QuantizedFolder& folder_;
  const std::vector<SourcePair>& pairs_;
  Findings& findings_;
  std::vector<const LogicalTensor*> stored_;  // of answer_.tensors
  SourceAnswer answer_;
};

// People edit a config.json on purpose, so what differs is a warning.
void compare_configs(const ModelFolder& model, const ModelFolder& original, Findings& findings) {
  if (!model.config_text || !original.config_text || !model.whole_folder) return;
  for (const std::string& text : config_differences(*model.config_text, *original.config_text)) {
    findings.push_back(make_finding(Severity::warning, "source-config", "config.json", "", text));
  }
}

}  // namespace

SourceAnswer verify_source(const QuantizedFolder& folder, const std::filesystem::path& original,
                           int threads, const ProgressCallback& progress, Findings& findings) {
  QuantizedFolder source = take(open_quantized_folder(original));
  const DenseView view = dense_view_of(source);
  compare_configs(folder.model, source.model, findings);
  const SourcePairs paired = pair_with_source(folder, source, view, findings);
  return SourceCheck(folder, paired.pairs, findings).run(threads, progress);
}

}  // namespace microscale
