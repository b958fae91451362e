// What one run of `quantize` or `compare` found, as plain data: what the tables, HTML and JSON
// show.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "microscale/format.hpp"
#include "report/choice_report.hpp"
#include "report/error_metrics.hpp"

namespace microscale {

using CodeHistogram = std::array<std::uint64_t, 256>;  ///< how often each code (a byte) occurs

/// One block whose restored values are far from the original.
struct WorstBlock {
  std::int64_t row = 0;    ///< line of the tensor; for stacked experts counted through all of them
  std::int64_t block = 0;  ///< index of the block in its line
  std::uint8_t scale_code = 0;
  double squared_error = 0;  ///< sum over the block: what "worst" is ranked by, across tensors
  std::vector<float> original = {};
  std::vector<float> restored = {};  ///< as many
};

/// Of blocks that a conversion did not quantize again.
struct KeptSums {
  std::int64_t matrices = 0;
  std::int64_t blocks = 0;          ///< as they are in the output
  std::int64_t cast = 0;            ///< of these, MXFP4 that became NVFP4
  std::int64_t searched = 0;        ///< of these, of other values than before
  std::uint64_t hash_before = 0;    ///< of the values of the input
  std::uint64_t hash_expected = 0;  ///< of those that the output is to have

  void add(const KeptSums& other);
  bool operator==(const KeptSums&) const = default;
};

/// NaN and infinities of a tensor that was copied.
struct NotFinite {
  std::int64_t count = 0;
  std::int64_t first = 0;  ///< index of the first such element
  bool operator==(const NotFinite&) const = default;
};

struct TensorReport {
  std::string name = {};
  std::vector<std::int64_t> shape = {};
  std::string treatment = {};  ///< "nvfp4", "mxfp4", ... or "copied"
  std::string reason = {};     ///< why it was left as it is; may be empty for a quantized one
  std::uint64_t bytes_before = 0;
  std::uint64_t bytes_after = 0;           ///< codes, scales and global scale together
  ErrorSums error;                         ///< no elements: not measured
  std::optional<float> global_scale = {};  ///< NVFP4 decode multiplier
  std::int64_t blocks = 0;
  CodeHistogram scale_codes{};
  CodeHistogram element_codes{};
  std::vector<WorstBlock> worst_blocks = {};  ///< worst first
  /// Of the layer's output under the mean squares of its inputs, and what a search by the weights
  /// alone would have left; nothing measured: no statistics.
  WeightedSums output = {}, output_unweighted = {};
  KeptSums kept = {};
  NotFinite not_finite = {};

  bool has_output() const { return output.original > 0; }
  bool measured() const { return error.elements > 0; }
};

/// A file of the input that the output goes without.
struct LeftOutReport {
  std::string name = {};
  std::string reason = {};
};

struct ModelReport {
  std::string title = {};          ///< name of the model, or "A against B"
  std::string format = {};         ///< "nvfp4", ...
  std::string options = {};        ///< "scale rule search, rounding nearest_even, ..." in words
  std::string tool = {};           ///< "microscale 0.2.0"
  std::uint64_t bytes_before = 0;  ///< of all tensors (the checkpoint files)
  std::uint64_t bytes_after = 0;
  /// Value of each code, for the axes of the histograms (NaN: not a number); empty: codes are
  /// shown.
  std::vector<double> element_values = {};
  std::vector<double> scale_values = {};
  std::vector<TensorReport> tensors = {};  ///< in the order to be listed
  std::vector<LeftOutReport> left_out = {};
  std::optional<ChoiceReport> choice = {};  ///< of a budget
};

/// Fills element_values and scale_values with what the codes of `format` stand for, before any
/// global scale.
void set_code_values(ModelReport& report, Format format);

/// Over all tensors.
KeptSums total_kept(const ModelReport& report);

/// Sums over all measured tensors, merged in the order listed.
ErrorSums total_error(const ModelReport& report);
/// Errors of the outputs of the layers that have them: their number, and the mean of their shares.
struct OutputErrors {
  std::int64_t layers = 0;
  double mean = 0, unweighted_mean = 0;
};
OutputErrors output_errors(const ModelReport& report);
/// Over all tensors.
CodeHistogram total_scale_codes(const ModelReport& report);
CodeHistogram total_element_codes(const ModelReport& report);

/// Up to `count` measured tensors by relative MSE, worst first; equal ones in the order listed.
std::vector<const TensorReport*> worst_tensors(const ModelReport& report, std::size_t count);

struct WorstBlockOf {
  const TensorReport* tensor;
  const WorstBlock* block;
};
/// Up to `count` blocks of all tensors by squared error, worst first; equal ones in the order
/// listed.
std::vector<WorstBlockOf> worst_blocks(const ModelReport& report, std::size_t count);

enum class JsonDetail {
  full,     ///< with each tensor's histograms and worst blocks
  figures,  ///< one flat object a tensor; histograms of the whole model only
};

/// The report as JSON: the same bytes for the same report, ASCII only, numbers in the shortest form
/// that reads back equal, null for what is infinite or undefined. `indent` as in nlohmann (-1: one
/// line).
std::string to_json(const ModelReport& report, JsonDetail detail = JsonDetail::full,
                    int indent = 1);

}  // namespace microscale
