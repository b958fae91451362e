#include "checkpoint/verify_source_verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/source_order.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

// Decoded values that are off by more than this factor are so by mistake, not by rounding.
constexpr double largest_ratio = 1.25;
// A weight may cost that many times what allowed_squares says (a bound of rounding to the nearest;
// rounding at random and fitting to activations cost more), and never more than that share.
constexpr double least_excess = 2, most_relative_mse = 0.3;
// Stored and original values point the same way, or the opposite one.
constexpr double same_direction = 0.9;
// Of the largest magnitude of a weight: what a scale of all of it (E4M3 codes, or E4M3 scales under
// a global one) rounds to 0.
constexpr double rounded_to_zero = 0x1p-18;
// Shares of the values: quantizing changes most of them, damage few.
constexpr double most_differ = 0.1;

// FP8: half the distance of neighbouring codes, and of those around 0, with one scale for all of
// the weight that is twice as coarse as it need be. Of what is known of no other coding: the most.
double allowed_relative_mse(const LogicalTensor& stored, const SourceSums& sums) {
  if (!(sums.original > 0)) return 0;
  if (stored.blocks()) {
    return std::min(most_relative_mse, least_excess * sums.allowed / sums.original);
  }
  const StoredType codes = stored.weight ? stored.weight->codes().entry->type : StoredType::bf16;
  double relative = 0;
  if (codes == StoredType::f8_e4m3) relative = 0x1p-8;
  if (codes == StoredType::f8_e5m2) relative = 0x1p-6;
  if (relative == 0) return most_relative_mse;
  // Scales are normal numbers, so codes stand no closer than 2^-135.
  const double smallest = std::max(sums.largest * 0x1p-17, 0x1p-136);
  return std::min(
      most_relative_mse,
      relative + smallest * smallest * static_cast<double>(sums.elements) / sums.original);
}

bool wrong_ratio(double ratio) { return ratio > largest_ratio || ratio < 1 / largest_ratio; }

bool has_lost(const SourceSums& sums) {
  return sums.lost > 0 && sums.largest_lost > sums.largest * rounded_to_zero;
}

std::string cause_of(const QuantizedFolder& folder, const SourcePair& pair,
                     const SourceSums& sums) {
  if (sums.swapped_cosine() > same_direction) return "the two codes of each byte are swapped";
  if (sums.swapped_cosine() < -same_direction) {
    return "the two codes of each byte are swapped, and their signs turned";
  }
  const std::string order = order_against(folder, *pair.stored, *pair.original, pair.slice);
  return order.empty() ? "these are other weights, or they are damaged" : order;
}

std::string lost_text(const LogicalTensor& stored, const SourceSums& sums) {
  const std::int64_t cols = stored.shape.empty() ? 1 : stored.shape.back();
  const auto coding = stored.blocks();
  const std::int64_t run = coding ? info(coding->format).block : 32;
  const std::int64_t row = sums.first_lost / cols, col = sums.first_lost % cols;
  return fmt::format(
      "{} of {} {} of {} values hold nothing of the original's (they are 0, or far "
      "from them), first row {}, columns {} to {}; convert the model again",
      sums.lost, (sums.elements + run - 1) / run, coding ? "blocks" : "runs", run, row, col,
      std::min(col + run, cols) - 1);
}

// A relative MSE may be anything where scales are damaged.
std::string percent(double share) {
  constexpr double largest_shown = 10;
  return share > largest_shown ? "> 1000 %" : format_percent(share);
}

}  // namespace

SourceTensor figures_of(const LogicalTensor& stored, const SourceSums& sums) {
  SourceTensor tensor;
  tensor.name = stored.name;
  tensor.coding = stored.coding_name();
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
  return tensor;
}

std::optional<SourceVerdict> judge_coded(const QuantizedFolder& folder, const SourcePair& pair,
                                         const SourceSums& sums, const SourceTensor& figures) {
  const LogicalTensor& stored = *pair.stored;
  const double allowed = allowed_relative_mse(stored, sums);
  // Values so small that the format has only 0 for them.
  const bool vanished =
      figures.ratio == 0 && stored.blocks() && sums.original <= least_excess * sums.allowed;
  if (wrong_ratio(figures.ratio) && !vanished) {
    const char* why = figures.ratio == 0  ? "all of them are 0"
                      : figures.ratio < 0 ? "their signs are turned"
                      : stored.module     ? "a global scale was not applied, or is another's"
                                          : "a scale was not applied, or is another's";
    return SourceVerdict{
        Severity::error, "source-ratio",
        fmt::format("its values are {} times those of the original: {}; convert the model again",
                    format_number(figures.ratio), why)};
  }
  if (sums.original == 0 && sums.stored > 0) {
    return SourceVerdict{
        Severity::error, "source-error",
        "the original is all zero, and its values are not; convert the model again"};
  }
  const bool by_rule = figures.rule_share >= fits_rule && figures.not_nearest == 0;
  // All else is as it should be.
  const bool holes = sums.error - sums.lost_error <= allowed * sums.original || by_rule;
  if (has_lost(sums) && holes && !vanished) {
    return SourceVerdict{Severity::error, "source-block", lost_text(stored, sums)};
  }
  if (figures.relative_mse > allowed && !by_rule && !vanished) {
    return SourceVerdict{
        Severity::error, "source-error",
        fmt::format("its relative MSE is {}, where {} can do with {} for these values: {}; "
                    "convert the model again",
                    percent(figures.relative_mse), stored.coding_name(), format_percent(allowed),
                    cause_of(folder, pair, sums))};
  }
  if (figures.not_nearest > 0) {
    const std::int64_t cols = stored.shape.back();
    return SourceVerdict{
        Severity::warning, "source-not-nearest",
        fmt::format("{} of {} codes are not the nearest for their scales, first row {}, column "
                    "{}: rounded otherwise, fitted to activations, or damaged",
                    figures.not_nearest, figures.elements, sums.first / cols, sums.first % cols)};
  }
  return std::nullopt;
}

bool looks_decoded(const SourceSums& sums, const SourceTensor& figures) {
  return static_cast<double>(sums.differing) > most_differ * static_cast<double>(sums.elements) &&
         figures.relative_mse <= most_relative_mse && !wrong_ratio(figures.ratio) &&
         !has_lost(sums);
}

}  // namespace microscale
