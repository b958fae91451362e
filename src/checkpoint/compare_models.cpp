#include "checkpoint/compare_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/classifier.hpp"
#include "checkpoint/inspect_model.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/split_experts.hpp"
#include "checkpoint/tile.hpp"
#include "checkpoint/weight_reader.hpp"
#include "formats/elements.hpp"
#include "report/error_metrics.hpp"

namespace microscale {
namespace {

struct Pair {
  const LogicalTensor* original;
  const LogicalTensor* other;
  std::size_t report;  // index of its TensorReport
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

// "nvfp4", or the stored type in small letters.
std::string treatment_of(const LogicalTensor& tensor) {
  if (tensor.coded()) return tensor.coding_name();
  std::string name = to_string(tensor.stored->entry->type);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

bool same_stored_type(const LogicalTensor& a, const LogicalTensor& b) {
  return a.stored && b.stored && a.stored->entry->type == b.stored->entry->type;
}

// The piece's share of what the original takes on the disk.
std::int64_t bytes_of(const Piece& piece) {
  return static_cast<std::int64_t>(static_cast<double>(piece.tensor->bytes()) *
                                   static_cast<double>(piece.count) /
                                   static_cast<double>(piece.tensor->elements()));
}

struct PieceResult {
  std::vector<ErrorSums> runs;
  CodeHistogram scale_codes{}, element_codes{};
  bool same_bytes = false;
};

struct Scratch {
  PieceData original, other;
};

// Elements of [begin, end) of the piece that are larger than the largest value of their block. A
// block of NaN clips nothing.
std::uint64_t count_clipped(const BlockCoding& coding, const Scratch& data, std::size_t begin,
                            std::size_t end) {
  const FormatInfo& format = info(coding.format);
  const auto block = static_cast<std::size_t>(format.block);
  const float largest_code =
      with_codec(format.element, [](auto codec) { return codec.decode(codec.max_code); });
  std::uint64_t clipped = 0;
  for (std::size_t at = begin; at < end; at += block) {
    float step = scale_value(coding.format, data.other.scales[at / block]);
    if (!format.e8m0_scale) step *= coding.multiplier;
    const float limit = largest_code * step;
    for (std::size_t i = at; i < std::min(at + block, end); ++i) {
      clipped += std::fabs(data.original.values[i]) > limit;
    }
  }
  return clipped;
}

// Of the original's tensors; config.json of the other, where the original has none.
Classifier classifier_of(const ModelFolder& original, const ModelFolder& other) {
  ModelFacts facts;
  const auto& text = original.config_text ? original.config_text : other.config_text;
  if (text) {
    if (auto read = read_model_facts(*text)) facts = std::move(read.value());
  }
  std::vector<const TensorEntry*> entries;
  for (const ModelTensor& tensor : original.tensors) entries.push_back(tensor.entry);
  return {entries, std::move(facts)};
}

// What one expert of `a` and the same of `b` differ by, at their beginning; infinite where neither
// is part of a fused tensor.
double error_of_one_expert(const QuantizedFolder& first, const SplitTensors& a,
                           const QuantizedFolder& second, const SplitTensors& b) {
  for (const LogicalTensor& left : a.tensors) {
    const auto right = std::lower_bound(
        b.tensors.begin(), b.tensors.end(), left.name,
        [](const LogicalTensor& tensor, const std::string& name) { return tensor.name < name; });
    if (right == b.tensors.end() || right->name != left.name || right->shape != left.shape)
      continue;
    if ((!left.slice && !right->slice) || !left.name.ends_with(".gate_proj.weight")) continue;
    const std::int64_t count = std::min(left.elements(), piece_elements);
    PieceData from, to;
    take(read_piece(first, {&left, 0, count}, from));
    take(read_piece(second, {&*right, 0, count}, to));
    return error_run(from.values, to.values).relative_mse();
  }
  return INFINITY;
}

// How gate and up lie in experts that one side holds fused: what the model says, else the order in
// which both sides agree better.
ExpertOrder order_of_experts(const QuantizedFolder& original, const QuantizedFolder& other,
                             const Classifier& classifier) {
  if (const auto order = classifier.expert_order()) return *order;
  const auto error = [&](ExpertOrder order) {
    return error_of_one_expert(original, split_like(original, other, classifier.facts(), order),
                               other, split_like(other, original, classifier.facts(), order));
  };
  return error(ExpertOrder::interleaved) < error(ExpertOrder::halves) ? ExpertOrder::interleaved
                                                                      : ExpertOrder::halves;
}

class Comparison {
 public:
  Comparison(const QuantizedFolder& original, const QuantizedFolder& other, ModelComparison& result)
      : original_(original),
        other_(other),
        classifier_(classifier_of(original.model, other.model)),
        order_(order_of_experts(original, other, classifier_)),
        originals_(split_like(original, other, classifier_.facts(), order_)),
        others_(split_like(other, original, classifier_.facts(), order_)),
        result_(result) {}

  void match() {
    const auto &left = originals_.tensors, &right = others_.tensors;
    auto a = left.begin(), b = right.begin();
    while (a != left.end() || b != right.end()) {
      if (b == right.end() || (a != left.end() && a->name < b->name)) {
        result_.only_in_original.push_back((a++)->name);
      } else if (a == left.end() || b->name < a->name) {
        result_.only_in_other.push_back((b++)->name);
      } else {
        add_pair(*a++, *b++);
      }
    }
  }

  void measure(int threads, const ProgressCallback& progress) {
    std::vector<Piece> pieces;
    std::vector<std::size_t> pair_of;  // of each piece
    std::int64_t total = 0, done = 0;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      // A slice is read run by run, so fewer and larger pieces of it.
      const bool slice = pairs_[i].original->slice || pairs_[i].other->slice;
      for (const Piece& piece :
           pieces_of(*pairs_[i].original, slice ? tile_elements : piece_elements)) {
        pieces.push_back(piece);
        pair_of.push_back(i);
      }
      total += static_cast<std::int64_t>(pairs_[i].original->bytes());
      same_bytes_.push_back(same_stored_type(*pairs_[i].original, *pairs_[i].other));
    }
    const int workers = threads > 0 ? threads : available_cores();
    std::vector<Scratch> scratch(static_cast<std::size_t>(workers));
    const auto advance = [&](std::int64_t bytes, std::string_view item) {
      done += bytes;
      if (progress && !progress(done, total, item)) {
        throw Error(ErrorCode::interrupted, "compare: stopped before everything was measured");
      }
    };
    advance(0, "");
    compute_in_order<PieceResult>(
        static_cast<std::int64_t>(pieces.size()), workers,
        [&](std::int64_t i, int worker) {
          const auto at = static_cast<std::size_t>(i);
          return measure_piece(pairs_[pair_of[at]], pieces[at],
                               scratch[static_cast<std::size_t>(worker)]);
        },
        [&](std::int64_t i, PieceResult& piece) {
          const auto at = static_cast<std::size_t>(i);
          const Pair& pair = pairs_[pair_of[at]];
          fold(pair, pair_of[at], piece);
          advance(bytes_of(pieces[at]), pair.original->name);
        });
    for (std::size_t i = 0; i < pairs_.size(); ++i) conclude(pairs_[i], same_bytes_[i]);
  }

 private:
  void add_pair(const LogicalTensor& a, const LogicalTensor& b) {
    TensorReport report;
    report.name = a.name;
    report.shape = a.shape;
    report.treatment = treatment_of(b);
    report.bytes_before = a.bytes();
    report.bytes_after = b.bytes();
    if (const auto coding = b.blocks()) {
      report.blocks = b.elements() / info(coding->format).block;
      if (!info(coding->format).e8m0_scale) report.global_scale = coding->multiplier;
    }
    if (a.shape != b.shape) {
      report.reason = "different shape";
      result_.different_shapes.push_back(fmt::format("{} is {} in the original and {} in the other",
                                                     in_quotes(a.name), shape_text(a.shape),
                                                     shape_text(b.shape)));
    } else if (!same_stored_type(a, b) && !(has_values(a) && has_values(b))) {
      report.reason =
          fmt::format("{} against {} is not compared", treatment_of(a), report.treatment);
    } else {
      pairs_.push_back({&a, &b, result_.report.tensors.size()});
    }
    result_.report.bytes_before += report.bytes_before;
    result_.report.bytes_after += report.bytes_after;
    result_.report.tensors.push_back(std::move(report));
  }

  PieceResult measure_piece(const Pair& pair, const Piece& piece, Scratch& data) const {
    PieceResult result;
    const Piece other_piece{pair.other, piece.first, piece.count};
    if (!has_values(*pair.original)) {
      take(read_piece_bytes(original_, piece, data.original));
      take(read_piece_bytes(other_, other_piece, data.other));
      result.same_bytes = data.original.codes == data.other.codes;
      return result;
    }
    take(read_piece(original_, piece, data.original));
    take(read_piece(other_, other_piece, data.other));
    result.same_bytes =
        same_stored_type(*pair.original, *pair.other) && data.original.codes == data.other.codes;
    const auto coding = pair.other->blocks();
    if (coding) count_codes(data.other, coding->format, result.scale_codes, result.element_codes);
    const std::span<const float> original(data.original.values), restored(data.other.values);
    constexpr auto run = static_cast<std::size_t>(error_run_elements);
    for (std::size_t begin = 0; begin < original.size(); begin += run) {
      const std::size_t end = std::min(begin + run, original.size());
      result.runs.push_back(
          error_run(original.subspan(begin, end - begin), restored.subspan(begin, end - begin)));
      if (coding) result.runs.back().clipped = count_clipped(*coding, data, begin, end);
    }
    return result;
  }

  void fold(const Pair& pair, std::size_t index, const PieceResult& piece) {
    TensorReport& report = result_.report.tensors[pair.report];
    for (const ErrorSums& run : piece.runs) report.error.merge(run);
    for (std::size_t code = 0; code < piece.scale_codes.size(); ++code) {
      report.scale_codes[code] += piece.scale_codes[code];
      report.element_codes[code] += piece.element_codes[code];
    }
    same_bytes_[index] = same_bytes_[index] && piece.same_bytes;
  }

  // Identical tensors are not part of the totals: they would only dilute the error of the others.
  void conclude(const Pair& pair, bool same_bytes) {
    TensorReport& report = result_.report.tensors[pair.report];
    if (pair.other->coded() && !pair.original->coded()) note_if_kept(*pair.other);
    if (same_bytes) {
      report.reason = "identical";
      report.error = {};
      ++result_.identical;
    } else if (!has_values(*pair.original)) {
      report.reason = fmt::format("{} values differ", report.treatment);
    }
  }

  void note_if_kept(const LogicalTensor& tensor) {
    const TensorEntry dense{tensor.name, StoredType::bf16, tensor.shape};
    Verdict verdict = classifier_.judge(dense);
    if (verdict.kept == Kept::no || verdict.kept >= Kept::scalar) return;
    result_.should_be_kept.push_back({tensor.name, std::move(verdict.reason)});
  }

  const QuantizedFolder& original_;
  const QuantizedFolder& other_;
  const Classifier classifier_;
  const ExpertOrder order_;
  SplitTensors originals_, others_;
  ModelComparison& result_;
  std::vector<Pair> pairs_;
  std::vector<bool> same_bytes_;  // of each pair, so far
};

}  // namespace

std::optional<double> constant_ratio(const ErrorSums& error) {
  constexpr double same_direction = 0.95, least = 0.8, most = 1.25;
  if (!(error.squared_original > 0) || !(error.squared_restored > 0)) return std::nullopt;
  const double cosine = error.cosine();
  if (!(std::fabs(cosine) >= same_direction)) return std::nullopt;
  const double factor =
      std::copysign(std::sqrt(error.squared_restored / error.squared_original), cosine);
  if (!std::isfinite(factor) || (factor >= least && factor <= most)) return std::nullopt;
  return factor;
}

ModelComparison compare_models(const QuantizedFolder& first, const QuantizedFolder& second,
                               int threads, const ProgressCallback& progress) {
  ModelComparison result;
  result.swapped = first.quantized() && !second.quantized();
  const QuantizedFolder& original = result.swapped ? second : first;
  const QuantizedFolder& other = result.swapped ? first : second;
  result.report.title =
      fmt::format("{} against {}", original.model.opened.string(), other.model.opened.string());
  std::set<std::string> formats;
  for (const LogicalTensor& tensor : other.tensors) {
    if (tensor.coded()) formats.insert(tensor.coding_name());
  }
  result.report.format = fmt::format("{}", fmt::join(formats, ", "));

  Comparison comparison(original, other, result);
  comparison.match();
  if (result.report.tensors.empty()) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("compare: '{}' and '{}' have no tensor name in common; compare two versions "
                    "of one model",
                    original.model.opened.string(), other.model.opened.string()));
  }
  comparison.measure(threads, progress);
  return result;
}

}  // namespace microscale
