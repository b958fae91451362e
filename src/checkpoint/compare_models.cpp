#include "checkpoint/compare_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/inspect_model.hpp"
#include "checkpoint/json.hpp"
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
  if (tensor.module) return std::string(info(tensor.module->format).name);
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
std::uint64_t count_clipped(const QuantizedModule& module, const Scratch& data, std::size_t begin,
                            std::size_t end) {
  const FormatInfo& format = info(module.format);
  const auto block = static_cast<std::size_t>(format.block);
  const float largest_code =
      with_codec(format.element, [](auto codec) { return codec.decode(codec.max_code); });
  std::uint64_t clipped = 0;
  for (std::size_t at = begin; at < end; at += block) {
    float step = scale_value(module.format, data.other.scales[at / block]);
    if (!format.e8m0_scale) step *= module.multiplier;
    const float limit = largest_code * step;
    for (std::size_t i = at; i < std::min(at + block, end); ++i) {
      clipped += std::fabs(data.original.values[i]) > limit;
    }
  }
  return clipped;
}

class Comparison {
 public:
  Comparison(const QuantizedFolder& original, const QuantizedFolder& other, ModelComparison& result)
      : original_(original), other_(other), result_(result) {}

  void match() {
    auto a = original_.tensors.begin(), b = other_.tensors.begin();
    while (a != original_.tensors.end() || b != other_.tensors.end()) {
      if (b == other_.tensors.end() || (a != original_.tensors.end() && a->name < b->name)) {
        result_.only_in_original.push_back((a++)->name);
      } else if (a == original_.tensors.end() || b->name < a->name) {
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
      for (const Piece& piece : pieces_of(*pairs_[i].original)) {
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
    if (b.module) {
      report.blocks = b.elements() / info(b.module->format).block;
      if (b.module->global_scale) report.global_scale = b.module->multiplier;
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
    const QuantizedModule* module = pair.other->module;
    if (module) count_codes(data.other, module->format, result.scale_codes, result.element_codes);
    const std::span<const float> original(data.original.values), restored(data.other.values);
    constexpr auto run = static_cast<std::size_t>(error_run_elements);
    for (std::size_t begin = 0; begin < original.size(); begin += run) {
      const std::size_t end = std::min(begin + run, original.size());
      result.runs.push_back(
          error_run(original.subspan(begin, end - begin), restored.subspan(begin, end - begin)));
      if (module) result.runs.back().clipped = count_clipped(*module, data, begin, end);
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
    if (same_bytes) {
      report.reason = "identical";
      report.error = {};
      ++result_.identical;
    } else if (!has_values(*pair.original)) {
      report.reason = fmt::format("{} values differ", report.treatment);
    }
  }

  const QuantizedFolder& original_;
  const QuantizedFolder& other_;
  ModelComparison& result_;
  std::vector<Pair> pairs_;
  std::vector<bool> same_bytes_;  // of each pair, so far
};

}  // namespace

ModelComparison compare_models(const QuantizedFolder& first, const QuantizedFolder& second,
                               int threads, const ProgressCallback& progress) {
  ModelComparison result;
  result.swapped = !first.modules.empty() && second.modules.empty();
  const QuantizedFolder& original = result.swapped ? second : first;
  const QuantizedFolder& other = result.swapped ? first : second;
  result.report.title =
      fmt::format("{} against {}", original.model.opened.string(), other.model.opened.string());
  std::set<std::string_view> formats;
  for (const QuantizedModule& module : other.modules) formats.insert(info(module.format).name);
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
