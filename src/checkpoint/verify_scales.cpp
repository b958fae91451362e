#include "checkpoint/verify_scales.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/containers/scaled_weight.hpp"
#include "checkpoint/model_facts.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::int64_t scales_at_once = 1024;
constexpr std::int64_t bytes_at_once = 1 << 16;
// Below this kernels take numbers for 0.
constexpr double smallest_normal = 0x1p-126;

struct Tally {
  std::int64_t count = 0, row = 0, col = 0;
  float scale = 0;

  void add(std::int64_t at_row, std::int64_t at_col, float value) {
    if (count++ > 0) return;
    row = at_row, col = at_col, scale = value;
  }
};

std::string more_of(const Tally& tally) {
  return tally.count > 1 ? fmt::format(" ({} more in this tensor)", tally.count - 1) : "";
}

const InputFile& file_of(const ModelFolder& model, const ModelTensor& tensor) {
  return model.shards[tensor.shard].file;
}

class ScaleCheck {
 public:
  ScaleCheck(const ModelFolder& model, const StoredWeight& weight, Findings& findings)
      : model_(model), weight_(weight), findings_(findings) {}

  void run() {
    if (const ScaleGrid* grid = grid_of(weight_)) {
      check_grid(*grid);
    } else if (!weight_.blocks() && weight_.facts().parts.size() > 1) {
      check_lines();
    }
  }

 private:
  const ModelTensor& scales() const { return *weight_.facts().parts[1]; }

  void report(std::string_view rule, const std::string& text) {
    findings_.push_back(make_finding(Severity::error, rule, model_.shards[scales().shard].name,
                                     scales().name(), text));
  }

  void check_grid(const ScaleGrid& grid) {
    const StoredType type = weight_.codes().entry->type;
    const double largest = type == StoredType::f8_e4m3 ? E4M3::max_value : E5M2::max_value;
    const std::int64_t per_matrix = grid.grid_rows * grid.grid_cols;
    const std::int64_t total = per_matrix * (grid.shared ? 1 : grid.matrices);
    std::array<float, scales_at_once> values;
    Tally negative, zero;
    for (std::int64_t at = 0; at < total; at += scales_at_once) {
      const auto some =
          std::span(values).first(static_cast<std::size_t>(std::min(scales_at_once, total - at)));
      take(read_scales(weight_, at, some));
      for (std::size_t i = 0; i < some.size(); ++i) {
        const std::int64_t index = at + static_cast<std::int64_t>(i);
        const std::int64_t within = index % per_matrix;
        const std::int64_t row =
            index / per_matrix * grid.rows + within / grid.grid_cols * grid.block_rows;
        const std::int64_t col = within % grid.grid_cols * grid.block_cols;
        if (some[i] < 0) {
          negative.add(row, col, some[i]);
        } else if (some[i] * largest < smallest_normal && has_codes(grid, row, col)) {
          zero.add(row, col, some[i]);
        }
      }
    }
    if (negative.count > 0) {
      report("scale-negative",
             fmt::format("row {}, column {}: the scale is {}, which turns the signs of the weight, "
                         "and loaders expect none; download or quantize the model again{}",
                         negative.row, negative.col, negative.scale, more_of(negative)));
    }
    if (zero.count > 0) report_zero(zero);
  }

  void report_zero(const Tally& zero) {
    report("scale-zero",
           fmt::format("row {}, column {}: the scale is {} but codes under it are not 0, so their "
                       "values are lost; download or quantize the model again{}",
                       zero.row, zero.col, zero.scale, more_of(zero)));
  }

  // Whether codes under the scale of the rectangle that begins there are not all 0 and -0.
  bool has_codes(const ScaleGrid& grid, std::int64_t row, std::int64_t col) const {
    const std::int64_t matrix = row / grid.rows, first = row % grid.rows;
    const std::int64_t end = std::min(grid.rows, first + grid.block_rows);
    const std::int64_t matrices = grid.shared ? grid.matrices : 1;
    const std::int64_t cols = std::min(grid.block_cols, grid.cols - col);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(cols));
    for (std::int64_t m = matrix; m < matrix + matrices; ++m) {
      for (std::int64_t r = first; r < end; ++r) {
        const std::int64_t at = (m * grid.rows + r) * grid.cols + col;
        take(file_of(model_, weight_.codes())
                 .read_at(weight_.codes().entry->begin + static_cast<std::uint64_t>(at), codes));
        if (std::any_of(codes.begin(), codes.end(),
                        [](std::uint8_t code) { return (code & 0x7F) != 0; })) {
          return true;
        }
      }
    }
    return false;
  }

  // Powers of two, one byte for each 16 bytes of 4-bit codes, in the same order: 2^-127 is no
  // normal number, and kernels take it for 0.
  void check_lines() {
    constexpr std::uint64_t codes_per_scale = 16;
    const TensorEntry &codes = *weight_.codes().entry, &bytes = *scales().entry;
    const bool powers = bytes.type == StoredType::u8 || bytes.type == StoredType::f8_e8m0;
    if (!powers || codes.bytes() != bytes.bytes() * codes_per_scale) return;
    std::vector<std::uint8_t> some_scales, some_codes;
    Tally zero;
    const auto width = static_cast<std::int64_t>(bytes.shape.empty() ? 1 : bytes.shape.back());
    for (std::uint64_t at = 0; at < bytes.bytes(); at += some_scales.size()) {
      some_scales.resize(std::min<std::uint64_t>(bytes.bytes() - at, bytes_at_once));
      take(file_of(model_, scales()).read_at(bytes.begin + at, some_scales));
      if (std::find(some_scales.begin(), some_scales.end(), 0) == some_scales.end()) continue;
      some_codes.resize(some_scales.size() * codes_per_scale);
      take(
          file_of(model_, weight_.codes()).read_at(codes.begin + at * codes_per_scale, some_codes));
      for (std::size_t i = 0; i < some_scales.size(); ++i) {
        const auto first = some_codes.begin() + static_cast<std::ptrdiff_t>(i * codes_per_scale);
        const bool lost = some_scales[i] == 0 &&
                          std::any_of(first, first + codes_per_scale,
                                      [](std::uint8_t code) { return (code & 0x77) != 0; });
        const std::int64_t index = static_cast<std::int64_t>(at + i);
        if (lost) zero.add(index / width, index % width * 32, 0x1p-127f);
      }
    }
    if (zero.count > 0) report_zero(zero);
  }

  const ModelFolder& model_;
  const StoredWeight& weight_;
  Findings& findings_;
};

bool speaks_of_quantized(const ModelFolder& model) {
  if (!model.config_text) return false;
  const auto facts = read_model_facts(*model.config_text);
  return facts && facts.value().quantized_by.has_value();
}

}  // namespace

void verify_scale_parts(const QuantizedFolder& folder, Findings& findings) {
  if (!folder.quantized() && !speaks_of_quantized(folder.model)) return;
  const Classifier classifier = take(classify_model(folder.model));
  constexpr std::array<std::string_view, 2> endings{"_scale_inv", ".scale_weight"};
  for (const LogicalTensor& tensor : folder.tensors) {
    if (!tensor.stored) continue;
    const TensorEntry& entry = *tensor.stored->entry;
    const auto report = [&](std::string_view rule, std::string_view text) {
      findings.push_back(
          make_finding(Severity::error, rule, folder.file_of(*tensor.stored), tensor.name, text));
    };
    const bool refused =
        std::any_of(folder.unusable.begin(), folder.unusable.end(), [&](const Finding& finding) {
          return finding.message.find(tensor.name) != std::string::npos;
        });
    if (refused) continue;
    const Verdict verdict = classifier.judge(entry);
    if (verdict.tool == QuantizingTool::fp8_bare) {
      report(
          "missing-scale",
          "its codes are FP8 but its scale (weight_scale, weight_scale_inv) is missing; download "
          "or quantize the model again");
      continue;
    }
    for (const std::string_view ending : endings) {
      if (!tensor.name.ends_with(ending)) continue;
      report("missing-codes",
             "it is the scale of FP8 codes that are missing; download the model again, or remove "
             "this tensor");
    }
  }
}

void verify_scales(const ModelFolder& model, std::span<const std::unique_ptr<StoredWeight>> weights,
                   Findings& findings) {
  for (const auto& weight : weights) ScaleCheck(model, *weight, findings).run();
}

Status refuse_bad_scales(const ModelFolder& model,
                         std::span<const std::unique_ptr<StoredWeight>> weights,
                         std::string_view command) {
  Findings findings;
  verify_scales(model, weights, findings);
  if (findings.empty()) return success();
  const std::string more =
      findings.size() > 1 ? fmt::format(" (and {} more; run verify)", findings.size() - 1) : "";
  return Failure{ErrorCode::bad_input, fmt::format("{}: '{}': {}{}", command, model.opened.string(),
                                                   findings.front().message, more)};
}

}  // namespace microscale
