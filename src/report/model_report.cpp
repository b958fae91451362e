// Totals, rankings and JSON of a report.
#include "report/model_report.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "report/tensor_kind.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

CodeHistogram total(const ModelReport& report, CodeHistogram TensorReport::*histogram) {
  CodeHistogram sum{};
  for (const TensorReport& tensor : report.tensors) {
    for (std::size_t code = 0; code < sum.size(); ++code) sum[code] += (tensor.*histogram)[code];
  }
  return sum;
}

/// [code, count] of the codes that occur.
Json to_json(const CodeHistogram& histogram) {
  Json json = Json::array();
  for (std::size_t code = 0; code < histogram.size(); ++code) {
    if (histogram[code] > 0) json.push_back({code, histogram[code]});
  }
  return json;
}

void put_figures(Json& json, const ErrorSums& error) {
  json["elements"] = error.elements;
  json["relative_mse"] = error.relative_mse();
  json["sqnr_db"] = error.sqnr_db();  // nlohmann writes what is not finite as null
  json["cosine"] = error.cosine();
  json["max_error"] = error.max_error;
  json["rms_error"] = error.root_mean_square_error();
  json["clipped_share"] = error.clipped_share();
  json["flushed_share"] = error.flushed_share();
}

Json to_json(const WorstBlock& block) {
  Json json;
  json["row"] = block.row;
  json["block"] = block.block;
  json["scale_code"] = block.scale_code;
  json["squared_error"] = block.squared_error;
  json["original"] = block.original;
  json["restored"] = block.restored;
  return json;
}

Json to_json(const TensorReport& tensor, JsonDetail detail) {
  Json json;
  json["name"] = tensor.name;
  json["shape"] = tensor.shape;
  json["treatment"] = tensor.treatment;
  json["reason"] = tensor.reason;
  json["bytes_before"] = tensor.bytes_before;
  json["bytes_after"] = tensor.bytes_after;
  const TensorPlace kind = tensor_kind(tensor.name);
  json["layer"] = kind.layer < 0 ? Json(nullptr) : Json(kind.layer);
  json["kind"] = kind.kind;
  if (tensor.measured()) put_figures(json, tensor.error);
  if (tensor.has_output()) {
    json["output_error"] = tensor.output.share();
    json["output_error_by_weights"] = tensor.output_unweighted.share();
  }
  if (tensor.blocks > 0) json["blocks"] = tensor.blocks;
  if (tensor.global_scale) json["global_scale"] = *tensor.global_scale;
  if (detail == JsonDetail::figures || tensor.blocks == 0) return json;
  json["scale_codes"] = to_json(tensor.scale_codes);
  json["element_codes"] = to_json(tensor.element_codes);
  json["worst_blocks"] = Json::array();
  for (const WorstBlock& block : tensor.worst_blocks)
    json["worst_blocks"].push_back(to_json(block));
  return json;
}

/// NaN, which has no place in an order, counts as worst.
double badness(double value) { return std::isnan(value) ? HUGE_VAL : value; }

}  // namespace

void KeptSums::add(const KeptSums& other) {
  matrices += other.matrices;
  blocks += other.blocks;
  cast += other.cast;
  searched += other.searched;
  hash_before += other.hash_before;
  hash_expected += other.hash_expected;
}

KeptSums total_kept(const ModelReport& report) {
  KeptSums sums;
  for (const TensorReport& tensor : report.tensors) sums.add(tensor.kept);
  return sums;
}

ErrorSums total_error(const ModelReport& report) {
  ErrorSums sums;
  for (const TensorReport& tensor : report.tensors) sums.merge(tensor.error);
  return sums;
}

OutputErrors output_errors(const ModelReport& report) {
  OutputErrors errors;
  for (const TensorReport& tensor : report.tensors) {
    if (!tensor.has_output()) continue;
    ++errors.layers;
    errors.mean += tensor.output.share();
    errors.unweighted_mean += tensor.output_unweighted.share();
  }
  const double count = std::max(static_cast<double>(errors.layers), 1.0);
  errors.mean /= count;
  errors.unweighted_mean /= count;
  return errors;
}

CodeHistogram total_scale_codes(const ModelReport& report) {
  return total(report, &TensorReport::scale_codes);
}

CodeHistogram total_element_codes(const ModelReport& report) {
  return total(report, &TensorReport::element_codes);
}

std::vector<const TensorReport*> worst_tensors(const ModelReport& report, std::size_t count) {
  std::vector<const TensorReport*> worst;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.measured()) worst.push_back(&tensor);
  }
  // Pointers into one vector, so their order is the order listed.
  std::sort(worst.begin(), worst.end(), [](const TensorReport* a, const TensorReport* b) {
    const double first = badness(a->error.relative_mse()),
                 second = badness(b->error.relative_mse());
    return first != second ? first > second : a < b;
  });
  worst.resize(std::min(count, worst.size()));
  return worst;
}

std::vector<WorstBlockOf> worst_blocks(const ModelReport& report, std::size_t count) {
  std::vector<WorstBlockOf> worst;
  for (const TensorReport& tensor : report.tensors) {
    for (const WorstBlock& block : tensor.worst_blocks) worst.push_back({&tensor, &block});
  }
  std::sort(worst.begin(), worst.end(), [](const WorstBlockOf& a, const WorstBlockOf& b) {
    const double first = badness(a.block->squared_error), second = badness(b.block->squared_error);
    if (first != second) return first > second;
    return a.tensor != b.tensor ? a.tensor < b.tensor : a.block < b.block;
  });
  worst.resize(std::min(count, worst.size()), {nullptr, nullptr});
  return worst;
}

std::string to_json(const ModelReport& report, JsonDetail detail, int indent) {
  Json json;
  json["title"] = report.title;
  json["format"] = report.format;
  json["options"] = report.options;
  json["tool"] = report.tool;
  json["bytes_before"] = report.bytes_before;
  json["bytes_after"] = report.bytes_after;
  Json& total = json["total"];
  put_figures(total, total_error(report));
  if (const OutputErrors outputs = output_errors(report); outputs.layers > 0) {
    total["output_error"] = outputs.mean;
    total["output_error_by_weights"] = outputs.unweighted_mean;
    total["output_error_layers"] = outputs.layers;
  }
  total["scale_codes"] = to_json(total_scale_codes(report));
  total["element_codes"] = to_json(total_element_codes(report));
  Json& tensors = json["tensors"] = Json::array();
  for (const TensorReport& tensor : report.tensors) tensors.push_back(to_json(tensor, detail));
  for (const LeftOutReport& file : report.left_out) {
    json["left_out"].push_back({{"file", file.name}, {"reason", file.reason}});
  }
  if (report.choice) json["choice"] = Json::parse(to_json(*report.choice));
  return json.dump(indent, ' ', true, Json::error_handler_t::replace);
}

}  // namespace microscale
