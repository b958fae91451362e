#include "checkpoint/conversion_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/choose_formats.hpp"
#include "checkpoint/coded_input.hpp"
#include "checkpoint/importance.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/tensor_name.hpp"
#include "formats/compat.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "microscale/version.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::vector<double> values_of_elements(Element element) {
  return with_codec(element, [](auto codec) {
    using Codec = decltype(codec);
    std::vector<double> values;
    for (int code = 0; code < Codec::code_count; ++code) {
      const auto byte = static_cast<std::uint8_t>(code);
      values.push_back(Codec::is_nan(byte) ? std::numeric_limits<double>::quiet_NaN()
                                           : static_cast<double>(Codec::decode(byte)));
    }
    return values;
  });
}

std::vector<double> values_of_scales(bool e8m0) {
  std::vector<double> values(256, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t byte = 0; byte < (e8m0 ? 255u : 127u); ++byte) {
    const auto code = static_cast<std::uint8_t>(byte);
    values[byte] = static_cast<double>(e8m0 ? decode_e8m0(code) : UE4M3::decode(code));
  }
  return values;
}

std::string options_in_words(const QuantizeModelOptions& options) {
  const Numerics& numerics = options.numerics;
  std::string text = fmt::format("scale rule {}, rounding {}", to_string(numerics.scale_rule),
                                 to_string(numerics.rounding));
  if (numerics.rounding == Rounding::stochastic) text += fmt::format(" (seed {})", numerics.seed);
  if (numerics.compat != Compat::none)
    text += fmt::format(", {}as {}", keeps_profile(numerics, options.format) ? "" : "otherwise ",
                        to_string(numerics.compat));
  if (!options.importance.empty())
    text += fmt::format(", weighted by importance ({})", in_words(options.statistics));
  for (const LoraUse& use : options.lora) {
    text +=
        fmt::format(", the adapter {} added times {:g}", use.path.filename().string(), use.weight);
  }
  if (options.container != Container::compressed_tensors)
    text += ", in the container " + std::string(to_string(options.container));
  if (options.activations == Activations::dynamic) text += ", activations dynamic";
  if (!options.input_scales.empty()) text += ", inputs scaled";
  return text;
}

std::string title_of(const std::filesystem::path& input) {
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(input, error);
  return error || path.filename().empty() ? input.string() : path.filename().string();
}

Json histogram_json(const CodeHistogram& histogram) {
  Json json = Json::array();
  for (std::size_t code = 0; code < histogram.size(); ++code) {
    if (histogram[code] > 0) json.push_back({code, histogram[code]});
  }
  return json;
}

void read_histogram(const Json& json, CodeHistogram& histogram) {
  for (const Json& entry : json) histogram.at(entry.at(0).get<std::size_t>()) = entry.at(1);
}

Json tensor_json(const TensorReport& tensor) {
  const ErrorSums& e = tensor.error;
  Json json;
  json["name"] = tensor.name;
  json["error"] = {e.squared_error, e.squared_original, e.squared_restored, e.dot,
                   e.max_error,     e.elements,         e.clipped,          e.flushed};
  if (tensor.global_scale) json["global_scale"] = *tensor.global_scale;
  json["blocks"] = tensor.blocks;
  json["scale_codes"] = histogram_json(tensor.scale_codes);
  json["element_codes"] = histogram_json(tensor.element_codes);
  if (const KeptSums& kept = tensor.kept; kept.matrices > 0) {
    json["kept"] = {kept.matrices, kept.blocks,      kept.cast,
                    kept.searched, kept.hash_before, kept.hash_expected};
  }
  if (const NotFinite& values = tensor.not_finite; values.count > 0) {
    json["not_finite"] = {values.count, values.first};
  }
  if (tensor.has_output()) {
    json["output"] = {tensor.output.error, tensor.output.original, tensor.output_unweighted.error,
                      tensor.output_unweighted.original};
  }
  for (const WorstBlock& block : tensor.worst_blocks) {
    json["worst"].push_back({block.row, block.block, block.scale_code, block.squared_error,
                             block.original, block.restored});
  }
  return json;
}

void read_tensor(const Json& json, TensorReport& tensor) {
  const Json& e = json.at("error");
  ErrorSums& sums = tensor.error;
  sums = {e.at(0), e.at(1), e.at(2), e.at(3), e.at(4), e.at(5), e.at(6), e.at(7)};
  if (json.contains("global_scale")) tensor.global_scale = json["global_scale"].get<float>();
  tensor.blocks = json.at("blocks");
  read_histogram(json.at("scale_codes"), tensor.scale_codes);
  read_histogram(json.at("element_codes"), tensor.element_codes);
  if (json.contains("kept")) {
    const Json& kept = json["kept"];
    tensor.kept = {kept.at(0), kept.at(1), kept.at(2), kept.at(3), kept.at(4), kept.at(5)};
  }
  if (json.contains("not_finite")) {
    tensor.not_finite = {json["not_finite"].at(0), json["not_finite"].at(1)};
  }
  if (json.contains("output")) {
    const Json& output = json["output"];
    tensor.output = {output.at(0), output.at(1)};
    tensor.output_unweighted = {output.at(2), output.at(3)};
  }
  if (!json.contains("worst")) return;
  for (const Json& entry : json["worst"]) {
    tensor.worst_blocks.push_back({entry.at(0), entry.at(1), entry.at(2), entry.at(3),
                                   entry.at(4).get<std::vector<float>>(),
                                   entry.at(5).get<std::vector<float>>()});
  }
}

// Where one huge element sets the scale of a whole tensor, the error as a share of all squares is
// small, and yet the others are gone. Of ordinary weights about a tenth becomes 0.
std::vector<std::string> lost_to_zero(const ModelReport& report) {
  constexpr double most = 0.5;
  constexpr std::size_t listed = 10;
  std::vector<std::string> sentences;
  for (const TensorReport& tensor : report.tensors) {
    if (!tensor.measured() || tensor.error.flushed_share() < most) continue;
    if (sentences.size() == listed) {
      sentences.push_back("more tensors lost most of their values; see the column \"to zero\"");
      break;
    }
    sentences.push_back(fmt::format(
        "{:.3g} % of the values of {} became 0, as others in it are so much larger; look at its "
        "values with inspect, or keep it with --ignore {}",
        100 * tensor.error.flushed_share(), in_quotes(tensor.name),
        in_quotes(module_of(tensor.name))));
  }
  return sentences;
}

}  // namespace

std::string tool_name() { return fmt::format("microscale {}", version()); }

ModelReport start_report(const ModelPlan& plan, const QuantizeModelOptions& options) {
  const std::vector<WeightFormat> formats = formats_in(plan);
  ModelReport report;
  report.title = title_of(options.input);
  for (const WeightFormat format : formats) {
    report.format += (report.format.empty() ? "" : " and ") + std::string(to_string(format));
  }
  report.options = options_in_words(options);
  if (const std::string codings = codings_in_words(plan.view); !codings.empty()) {
    report.options += ", from weights quantized already: " + codings;
  }
  report.tool = tool_name();
  report.bytes_before = static_cast<std::uint64_t>(plan.summary.bytes_before);
  report.bytes_after = static_cast<std::uint64_t>(plan.summary.bytes_after);
  if (const auto blocks = formats.empty() ? plan.format : blocks_of(formats.front())) {
    report.element_values = values_of_elements(info(*blocks).element);
    report.scale_values = values_of_scales(info(*blocks).e8m0_scale);
  } else {
    report.element_values = values_of_elements(Element::e4m3);
  }
  report.tensors.reserve(plan.summary.tensors.size());
  for (const TensorPlan& planned : plan.summary.tensors) {
    TensorReport& tensor = report.tensors.emplace_back();
    tensor.name = planned.name;
    tensor.shape = planned.shape;
    tensor.treatment = !planned.format.empty()                ? planned.format
                       : planned.treatment == Treatment::drop ? "left out"
                                                              : "copied";
    tensor.reason = planned.treatment == Treatment::quantize ? "" : planned.reason;
    tensor.bytes_before = static_cast<std::uint64_t>(planned.bytes_before);
    tensor.bytes_after = static_cast<std::uint64_t>(planned.bytes_after);
  }
  if (options.choice) report.choice = report_on(*options.choice);
  for (std::size_t i = 0; i < plan.summary.dropped_files.size(); ++i) {
    report.left_out.push_back({plan.summary.dropped_files[i], plan.summary.dropped_reasons[i]});
  }
  return report;
}

std::string shard_report_text(const ModelPlan& plan, const ModelReport& report, std::size_t shard) {
  Json json = Json::array();
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const TensorReport& tensor = report.tensors[i];
    const bool found = tensor.measured() || tensor.kept.matrices > 0 || tensor.not_finite.count > 0;
    if (found && plan.tensors[i].shard == shard) {
      json.push_back(tensor_json(report.tensors[i]));
    }
  }
  return json.dump();
}

Status restore_shard_report(std::string_view text, const ModelPlan& plan, std::size_t shard,
                            ModelReport& report) {
  const auto parsed = parse_json(text);
  if (!parsed) return parsed.failure();
  try {
    std::size_t next = 0;
    for (const Json& json : parsed.value()) {
      const std::string name = json.at("name");
      while (next < report.tensors.size() &&
             (plan.tensors[next].shard != shard || report.tensors[next].name != name)) {
        ++next;
      }
      if (next == report.tensors.size()) break;
      read_tensor(json, report.tensors[next]);
    }
  } catch (const std::exception& error) {  // of nlohmann: a value of another kind
    return Failure{
        ErrorCode::bad_input,
        fmt::format("cannot resume: the journal's report on '{}' is damaged ({}); start again "
                    "in another folder",
                    plan.shards[shard].name, error.what())};
  }
  return success();
}

std::vector<std::string> unusual_errors(const ModelReport& report) {
  // Of normally distributed weights; of weights with longer tails up to twice as much.
  const auto usual = [](const TensorReport& tensor) {
    return tensor.treatment.starts_with("nvfp4")   ? 0.009
           : tensor.treatment.starts_with("mxfp4") ? 0.013
                                                   : 0.0007;  // of eight bits
  };
  constexpr double far_above = 4;
  constexpr std::size_t most = 10;
  std::vector<const TensorReport*> worst;
  for (const TensorReport& tensor : report.tensors) {
    const bool far = tensor.measured() && tensor.error.relative_mse() > far_above * usual(tensor);
    if (far) worst.push_back(&tensor);
  }
  std::stable_sort(worst.begin(), worst.end(), [](const TensorReport* a, const TensorReport* b) {
    return a->error.relative_mse() > b->error.relative_mse();
  });
  std::vector<std::string> sentences;
  for (std::size_t i = 0; i < std::min(most, worst.size()); ++i) {
    sentences.push_back(fmt::format(
        "{} lost more than usual: its relative MSE is {:.3g} %, that of ordinary weights in {} is "
        "about {:.2g} %; look at its values with inspect, or keep it with --ignore {}",
        in_quotes(worst[i]->name), 100 * worst[i]->error.relative_mse(), worst[i]->treatment,
        100 * usual(*worst[i]), in_quotes(module_of(worst[i]->name))));
  }
  for (std::string& sentence : lost_to_zero(report)) sentences.push_back(std::move(sentence));
  if (worst.size() > most) {
    sentences.push_back(fmt::format("{} more tensors lost more than usual", worst.size() - most));
  }
  return sentences;
}

}  // namespace microscale
