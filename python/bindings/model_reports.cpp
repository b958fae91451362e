// What is in a model, and how two of them differ.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "checkpoint/compare_models.hpp"
#include "checkpoint/inspect_model.hpp"
#include "interruptible.hpp"
#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

using Path = std::filesystem::path;

nb::dict summary_of(const TensorSummary& tensor) {
  nb::dict entry;
  entry["name"] = tensor.name;
  entry["format"] = tensor.format;
  entry["quantized"] = tensor.quantized;
  entry["shape"] = tuple_of(tensor.shape);
  entry["elements"] = tensor.elements;
  entry["bytes"] = tensor.bytes;
  entry["global_scale"] = tensor.global_scale;
  entry["file"] = tensor.file;
  return entry;
}

nb::dict summary_of(const ModelSummary& model) {
  nb::dict entry;
  nb::list tensors;
  for (const TensorSummary& tensor : model.tensors) tensors.append(summary_of(tensor));
  entry["tensors"] = tensors;
  entry["notes"] = model.notes;
  entry["files"] = model.files;
  entry["bytes"] = model.bytes;
  entry["elements"] = model.elements;
  entry["quantized_bytes"] = model.quantized_bytes;
  entry["quantized_elements"] = model.quantized_elements;
  return entry;
}

nb::dict detail_of(const TensorDetail& detail) {
  nb::dict entry = summary_of(detail.summary);
  if (!detail.has_values) return entry;
  entry["smallest"] = detail.smallest;
  entry["largest"] = detail.largest;
  entry["mean_square"] = detail.mean_square;
  entry["zeros"] = detail.zeros;
  entry["non_finite"] = detail.non_finite;
  entry["first_values"] = detail.first_values;
  if (detail.blocks == 0) return entry;
  const auto counts = [](const CodeHistogram& histogram) {
    nb::dict codes;
    for (std::size_t code = 0; code < histogram.size(); ++code)
      if (histogram[code] > 0) codes[nb::int_(code)] = histogram[code];
    return codes;
  };
  entry["blocks"] = detail.blocks;
  entry["scale_codes"] = counts(detail.scale_codes);
  entry["element_codes"] = counts(detail.element_codes);
  return entry;
}

nb::dict inspect(const Path& path, const std::optional<std::string>& tensor) {
  const QuantizedFolder folder = take(open_quantized_folder(path));
  if (!tensor) return summary_of(summarize_model(folder));
  const LogicalTensor* const found = folder.find(*tensor);
  if (!found)
    throw Error(ErrorCode::invalid_argument, "tensor: '" + path.string() + "' has no '" + *tensor +
                                                 "'; leave it out to list all");
  TensorDetail detail;
  run_interruptible(nb::none(), [&](const ProgressCallback& report) {
    detail = inspect_tensor(folder, *found, 0, report);
  });
  return detail_of(detail);
}

nb::dict figures_of(const ErrorSums& error) {
  nb::dict entry;
  entry["relative_mse"] = error.relative_mse();
  entry["sqnr_db"] = error.sqnr_db();
  entry["cosine"] = error.cosine();
  entry["max_error"] = error.max_error;
  entry["clipped_share"] = error.clipped_share();
  entry["flushed_share"] = error.flushed_share();
  return entry;
}

nb::dict compare(const Path& original, const Path& other, int threads, nb::handle progress) {
  const QuantizedFolder first = take(open_quantized_folder(original));
  const QuantizedFolder second = take(open_quantized_folder(other));
  ModelComparison comparison;
  run_interruptible(progress, [&](const ProgressCallback& report) {
    comparison = compare_models(first, second, threads, report);
  });
  nb::dict entry = figures_of(total_error(comparison.report));
  nb::list tensors;
  for (const TensorReport& tensor : comparison.report.tensors) {
    nb::dict line;
    line["name"] = tensor.name;
    line["treatment"] = tensor.treatment;
    line["reason"] = tensor.reason;
    line["bytes_before"] = tensor.bytes_before;
    line["bytes_after"] = tensor.bytes_after;
    if (tensor.measured()) line.update(figures_of(tensor.error));
    tensors.append(line);
  }
  entry["tensors"] = tensors;
  entry["identical"] = comparison.identical;
  entry["only_in_original"] = comparison.only_in_original;
  entry["only_in_other"] = comparison.only_in_other;
  entry["different_shapes"] = comparison.different_shapes;
  entry["swapped"] = comparison.swapped;
  return entry;
}

}  // namespace

void bind_model_reports(nb::module_& module) {
  module.def(
      "inspect_model", inspect, nb::arg("path"), nb::arg("tensor") = nb::none(),
      nb::sig("def inspect_model(path: str | os.PathLike[str], tensor: str | None = None) -> "
              "dict[str, Any]"),
      "What is in a model folder or file: 'tensors' (name, format, shape, bytes, ...), 'notes'\n"
      "and totals, as `microscale inspect --json` prints them. tensor: one in detail, with\n"
      "the range of its values and how often each code occurs.");
  module.def(
      "compare_models", compare, nb::arg("original"), nb::arg("other"), nb::kw_only(),
      nb::arg("threads") = 0, nb::arg("progress") = nb::none(),
      nb::sig("def compare_models(original: str | os.PathLike[str], other: str | "
              "os.PathLike[str], *, threads: int = 0, progress: Progress = None) -> dict[str, "
              "Any]"),
      "What quantizing cost: 'relative_mse', 'sqnr_db', 'cosine', ... of the whole and, in\n"
      "'tensors', of each tensor that both have; names that only one has; 'swapped' where\n"
      "only the first is quantized and the second was taken for the original.");
}

}  // namespace microscale::python
