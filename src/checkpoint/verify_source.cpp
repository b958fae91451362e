#include "checkpoint/verify_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/fused_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/source_order.hpp"
#include "checkpoint/source_sums.hpp"
#include "checkpoint/stray_weights.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/treatments.hpp"
#include "checkpoint/weight_reader.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

// Tiles of a tensor whose scales are held against every rule.
constexpr std::int64_t sampled_tiles = 4;
constexpr std::int64_t copy_piece = 1 << 20;  // bytes
constexpr double fits_rule = 0.995;           // of the scales; tools differ in last bits
// Decoded values that are off by more than this factor are so by mistake, not by rounding.
constexpr double largest_ratio = 1.25;
// A weight may cost that many times what allowed_squares says (a bound of rounding to the nearest;
// rounding at random and fitting to activations cost more), and never more than that share.
constexpr double least_excess = 2, most_relative_mse = 0.3;
// Stored and original values point the same way, or the opposite one.
constexpr double same_direction = 0.9;

// A tensor of the folder and what it was made of: a matrix of the original, or all of a tensor.
struct Pair {
  const LogicalTensor* stored = nullptr;
  const DenseTensor* original = nullptr;
  MatrixSlice slice;  // of a quantized weight
};

struct Task {
  std::size_t pair = 0;
  std::int64_t first = 0, count = 0;  // elements; of a copy bytes
  Tile tile;                          // the same in the original, for a quantized weight
  bool sampled = false;
};

struct Worker {
  PieceData stored;
  std::vector<std::uint8_t> bytes, scratch;
  std::vector<float> values;  // of the original
};

class SourceCheck {
 public:
  SourceCheck(const QuantizedFolder& folder, const ModelFolder& original, const DenseView& view,
              Findings& findings)
      : folder_(folder), model_(original), original_(view), findings_(findings) {}

  SourceAnswer run(int threads, const ProgressCallback& progress) {
    match();
    if (folder_.model.whole_folder) report_lost();
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

  // The matrices of the original that a converter would have made modules of, by module.
  std::map<std::string, Pair> matrices() {
    const Classifier classifier = take(classify_model(model_, original_));
    const Recipe recipe = take(Recipe::create(WeightFormat::nvfp4, {}, {}));
    const ExpertOrder order = classifier.expert_order().value_or(ExpertOrder::halves);
    std::map<std::string, Pair> found;
    for (const TensorTreatment& treatment :
         take(decide_treatments(model_, original_, classifier, recipe, order))) {
      const TensorEntry& entry = *treatment.entry;
      const DenseTensor* tensor = treatment.source;
      const Treatment what = treatment.decision.treatment;
      // Biases of fused experts are split up, and what a calibration left behind goes.
      const bool bias = what == Treatment::split && entry.shape.size() != 3;
      if (bias || what == Treatment::drop) used_.insert(tensor);
      if (treatment.decision.treatment == Treatment::split && entry.shape.size() == 3) {
        for (MatrixSlice& slice :
             slice_experts(entry.name, *treatment.verdict.part, *treatment.experts)) {
          const std::string module = slice.module;
          found[module] = {nullptr, tensor, std::move(slice)};
        }
      } else if (entry.shape.size() == 2 && entry.name.ends_with(".weight")) {
        MatrixSlice slice;
        slice.module = module_of(entry.name);
        slice.rows = entry.shape[0];
        slice.cols = slice.row_step = entry.shape[1];
        const std::string module = slice.module;
        found[module] = {nullptr, tensor, std::move(slice)};
      }
    }
    return found;
  }

  void match() {
    auto known = matrices();
    for (const LogicalTensor& tensor : folder_.tensors) {
      if (tensor.weight) continue;  // of a container that quantize does not write
      if (!tensor.module) {
        const DenseTensor* original = original_.find(tensor.name);
        if (original) pairs_.push_back({&tensor, original, {}});
        used_.insert(original);
        continue;
      }
      const auto found = known.find(tensor.module->name);
      if (found == known.end()) {
        report(Severity::error, "source-missing", tensor, "the original has no such weight");
        continue;
      }
      Pair& pair = found->second;
      used_.insert(pair.original);
      pair.stored = &tensor;
      const std::vector<std::int64_t> shape{pair.slice.rows, pair.slice.cols};
      if (shape != tensor.shape) {
        report(Severity::error, "source-shape", tensor,
               fmt::format("it is {}, but {} in the original", format_shape(tensor.shape),
                           format_shape(shape)));
      } else if (!dense_type(pair.original->entry.type)) {
        report(Severity::error, "source-missing", tensor,
               fmt::format("in the original it is {}, no full precision",
                           to_string(pair.original->entry.type)));
      } else {
        pairs_.push_back(std::move(pair));
      }
    }
  }

  void report_lost() {
    for (const DenseTensor& tensor : original_.tensors) {
      if (used_.contains(&tensor)) continue;
      findings_.push_back(make_finding(Severity::error, "source-lost", "", tensor.entry.name,
                                       "it is in the original and not in this folder; convert the "
                                       "model again"));
    }
  }

  void add_tasks(std::size_t i, std::vector<Task>& tasks) {
    const Pair& pair = pairs_[i];
    if (!pair.stored->module) {
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
  SourceSums compare_bytes(const Pair& pair, const Task& task, Worker& worker) const {
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
    const Pair& pair = pairs_[task.pair];
    const QuantizedModule* module = pair.stored->module;
    if (!module) return compare_bytes(pair, task, worker);
    SourceSums sums;
    const TensorEntry& entry = pair.original->entry;
    const std::int64_t size = size_of(*dense_type(entry.type));
    worker.bytes.resize(static_cast<std::size_t>(task.count * size));
    worker.scratch.resize(static_cast<std::size_t>(tile_scratch_bytes));
    take(pair.original->read_tile(pair.slice, task.tile, worker.bytes, worker.scratch));
    worker.values.resize(static_cast<std::size_t>(task.count));
    decode_dense(entry.type, worker.bytes, worker.values);
    take(read_piece(folder_, {pair.stored, task.first, task.count}, worker.stored));
    add_values(*module, worker.stored, worker.values, task.first, sums);
    if (task.sampled) try_rules(*module, worker.stored, worker.values, sums);
    return sums;
  }

  void finish(const Pair& pair, const SourceSums& sums) {
    if (!pair.stored->module) {
      const bool same_type = pair.stored->stored->entry->type == copied_type(*pair.original);
      if (same_type && sums.not_nearest == 0) {
        ++answer_.copies;
      } else {
        report(Severity::error, "source-copy", *pair.stored,
               "it is not quantized and differs from the original; copy it again");
      }
      return;
    }
    SourceTensor tensor;
    tensor.name = pair.stored->name;
    tensor.elements = sums.elements;
    tensor.not_nearest = sums.not_nearest;
    if (sums.original > 0) tensor.relative_mse = sums.error / sums.original;
    if (std::abs(sums.cosine()) > same_direction) {
      tensor.ratio = std::copysign(std::sqrt(sums.stored / sums.original), sums.dot);
    } else if (sums.original > 0 && sums.stored == 0) {
      tensor.ratio = 0;
    }
    std::int64_t most = -1;
    for (const auto& [rule, count] : sums.followed) {
      if (count <= most) continue;
      most = count;
      tensor.rule = std::string(to_string(rule));
    }
    if (sums.blocks > 0) {
      tensor.rule_share = static_cast<double>(most) / static_cast<double>(sums.blocks);
    }
    judge(pair, sums, tensor);
    stored_.push_back(pair.stored);
    answer_.tensors.push_back(std::move(tensor));
  }

  void judge(const Pair& pair, const SourceSums& sums, const SourceTensor& tensor) {
    if (tensor.ratio > largest_ratio || tensor.ratio < 1 / largest_ratio) {
      const std::string why = tensor.ratio == 0 ? "all of them are 0"
                              : tensor.ratio < 0
                                  ? "their signs are turned"
                                  : "a global scale was not applied, or is another's";
      report(Severity::error, "source-ratio", *pair.stored,
             fmt::format("its values are {} times those of the original: {}; convert the model "
                         "again",
                         format_number(tensor.ratio), why));
      return;
    }
    if (sums.original == 0 && sums.stored > 0) {
      report(Severity::error, "source-error", *pair.stored,
             "the original is all zero, and its values are not; convert the model again");
      return;
    }
    const double allowed = std::min(
        most_relative_mse, sums.original > 0 ? least_excess * sums.allowed / sums.original : 0);
    const bool by_rule = tensor.rule_share >= fits_rule && tensor.not_nearest == 0;
    if (tensor.relative_mse > allowed && !by_rule) {
      report(
          Severity::error, "source-error", *pair.stored,
          fmt::format("its relative MSE is {}, where {} can do with {} for these values: {}; "
                      "convert the model again",
                      format_percent(tensor.relative_mse), info(pair.stored->module->format).name,
                      format_percent(allowed), cause_of(pair, sums)));
      return;
    }
    if (tensor.not_nearest > 0) {
      const std::int64_t cols = pair.stored->shape.back();
      report(
          Severity::warning, "source-not-nearest", *pair.stored,
          fmt::format("{} of {} codes are not the nearest for their scales, first row {}, column "
                      "{}: rounded otherwise, fitted to activations, or damaged",
                      tensor.not_nearest, tensor.elements, sums.first / cols, sums.first % cols));
    }
  }

  std::string cause_of(const Pair& pair, const SourceSums& sums) const {
    if (sums.swapped_cosine() > same_direction) return "the two codes of each byte are swapped";
    if (sums.swapped_cosine() < -same_direction) {
      return "the two codes of each byte are swapped, and their signs turned";
    }
    const std::string order = order_against(folder_, *pair.stored, *pair.original, pair.slice);
    return order.empty() ? "these are other weights, or they are damaged" : order;
  }

  // The rule of most tensors is the one that was meant.
  void judge_rules() {
    std::map<std::string, int> votes;
    for (const SourceTensor& tensor : answer_.tensors) {
      if (tensor.rule_share >= fits_rule) ++votes[tensor.rule];
    }
    const auto meant =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (std::size_t i = 0; i < answer_.tensors.size(); ++i) {
      const SourceTensor& tensor = answer_.tensors[i];
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
  const ModelFolder& model_;
  const DenseView& original_;
  Findings& findings_;
  std::vector<Pair> pairs_;
  std::set<const DenseTensor*> used_;         // of the original: something was made of them
  std::vector<const LogicalTensor*> stored_;  // of answer_.tensors
  SourceAnswer answer_;
};

}  // namespace

SourceAnswer verify_source(const QuantizedFolder& folder, const std::filesystem::path& original,
                           int threads, const ProgressCallback& progress, Findings& findings) {
  QuantizedFolder source = take(open_quantized_folder(original));
  const DenseView view = dense_view_of(source);
  return SourceCheck(folder, source.model, view, findings).run(threads, progress);
}

}  // namespace microscale
