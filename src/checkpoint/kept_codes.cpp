#include "checkpoint/kept_codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>

#include "checkpoint/coded_input.hpp"
#include "checkpoint/joined_experts.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/model_place.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/tensor_name.hpp"
#include "formats/elements.hpp"

namespace microscale {
namespace {

constexpr std::string_view divisor_of_inputs = ".input_global_scale";
constexpr std::string_view multiplier_of_inputs = ".input_scale";

MatrixSlice whole(const DenseTensor& tensor) {
  MatrixSlice slice;
  slice.rows = tensor.entry.shape[0];
  slice.cols = slice.row_step = tensor.entry.shape[1];
  return slice;
}

// The first expert of [E, N, K], or of [E, K, N] whose blocks run down the columns.
std::optional<BlockCoding> coding_of_experts(const DenseTensor& tensor) {
  const auto& shape = tensor.entry.shape;
  MatrixSlice rows, columns;
  rows.rows = shape[1];
  rows.cols = rows.row_step = shape[2];
  columns.rows = columns.col_step = shape[2];
  columns.cols = shape[1];
  columns.row_step = 1;
  const auto coding = tensor.weight->coding_of(rows);
  return coding ? coding : tensor.weight->coding_of(columns);
}

float step_of(const BlockCoding& coding, std::uint8_t scale) {
  const float value = E4M3::decode(scale);
  return coding.divisor != 0 ? value / coding.divisor : value * coding.multiplier;
}

int differing_steps(const BlockCoding& a, const BlockCoding& b) {
  int count = 0;
  for (std::uint8_t scale = 1; scale <= E4M3::max_code; ++scale) {
    count += step_of(a, scale) != step_of(b, scale);
  }
  return count;
}

// The tensor that scales the inputs of a layer, among the parts of its weight.
const ModelTensor* input_scale_of(const StoredWeight& weight) {
  for (const ModelTensor* part : weight.facts().parts) {
    const std::string_view name = part->name();
    if (name.ends_with(divisor_of_inputs) || name.ends_with(multiplier_of_inputs)) return part;
  }
  return nullptr;
}

// The largest magnitude that a stored scale of inputs stands for.
Result<double> input_amax(const ModelTensor& part, const ModelFolder& model) {
  constexpr double largest = 2688;  // 6 * 448
  const auto bad = [&](std::string_view why) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("convert: {}, the scale of a layer's inputs, {}; mend it, or remove "
                               "all of them for weight-only layers",
                               in_quotes(part.name()), why)};
  };
  if (part.entry->type != StoredType::f32 || part.entry->bytes() != sizeof(float)) {
    return bad("is not one number of type F32");
  }
  std::array<std::uint8_t, sizeof(float)> bytes{};
  Status read = model.shards[part.shard].file.read_at(part.entry->begin, bytes);
  if (!read) return read.failure();
  const auto number = std::bit_cast<float>(bytes);
  if (!(number > 0) || !std::isnormal(number)) {
    return bad(fmt::format("is {}, not a positive normal number", number));
  }
  const double exact = number;
  return part.name().ends_with(divisor_of_inputs) ? largest / exact : exact * largest;
}

// Whether a kept tensor has the values it had: dense, and only laid out otherwise.
bool keeps_values(const WeightFacts& facts) {
  return facts.exact && (facts.type == facts.copied || facts.copied == StoredType::f16);
}

// Tensors that are decoded, as there is no place for their codes.
Status tell_decoded(ModelPlan& plan, const QuantizeModelOptions& options) {
  std::map<std::string, std::pair<std::size_t, std::string>> decoded;  // coding: count, first
  for (const TensorTreatment& tensor : plan.tensors) {
    const StoredWeight* weight = tensor.source->weight;
    if (!weight || tensor.decision.treatment != Treatment::copy) continue;
    if (keeps_values(weight->facts())) continue;
    if (options.keep_codes->exact && weight->facts().type != StoredType::bf16) {
      return Failure{
          ErrorCode::bad_input,
          fmt::format("convert: {} is {}, which {} as written here does not hold; its values would "
                      "be rounded to BF16, which --exact rules out",
                      in_quotes(weight->name()), weight->facts().description,
                      to_string(options.container))};
    }
    auto& [count, first] = decoded[weight->facts().description];
    if (count++ == 0) first = weight->name();
  }
  for (const auto& [description, found] : decoded) {
    plan.summary.notices.push_back(
        fmt::format("{} weight{} ({}{}) {} written as BF16 values: {}", found.first,
                    found.first == 1 ? "" : "s", in_quotes(found.second),
                    found.first == 1 ? "" : ", ...", found.first == 1 ? "is" : "are", description));
  }
  return success();
}

Status tell_inexact_scales(ModelPlan& plan, const QuantizeModelOptions& options) {
  std::size_t count = 0;
  std::string first;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      if (matrix.kept->same_global) continue;
      if (count++ == 0) first = matrix.slice.module;
    }
  }
  if (count == 0) return success();
  const std::string what = fmt::format(
      "the global scale of {} weight{} ({}{}) has no reciprocal in FP32 that gives all of its "
      "block "
      "scales the same value: codes and block scales stay, values change in the last bit of FP32",
      count, count == 1 ? "" : "s", in_quotes(first), count == 1 ? "" : ", ...");
  if (options.keep_codes->exact) {
    return Failure{ErrorCode::bad_input, fmt::format("convert: {}, which --exact rules out", what)};
  }
  plan.summary.notices.push_back(what);
  return success();
}

// What engines do with the inputs of layers, as the input's config.json has it.
void read_activations(const ModelFolder& model, const DenseView& view,
                      QuantizeModelOptions& options) {
  std::size_t scaled = 0, unscaled = 0;
  for (const auto& weight : view.weights) {
    const BlockCoding* coding = weight->blocks();
    if (!coding || coding->format != Format::nvfp4) continue;
    ++(input_scale_of(*weight) ? scaled : unscaled);
  }
  options.keep_codes->scaled_inputs = scaled > 0 && unscaled == 0;
  options.keep_codes->lost_input_scales = unscaled > 0 ? static_cast<std::int64_t>(scaled) : 0;
  const auto config = parse_quantization_config(model.config_text.value_or(""));
  if (!config || !config.value()) return;
  for (const QuantizationGroup& group : config.value()->groups) {
    if (group.format && *group.format != Format::nvfp4 && group.quantized_activations) {
      options.activations = Activations::dynamic;
    }
  }
}

}  // namespace

BlockCoding coding_of_stored(float number, bool divides) {
  BlockCoding coding{.format = Format::nvfp4, .multiplier = divides ? 1.0f / number : number};
  BlockCoding dividing = coding;
  dividing.divisor = number;
  return divides && differing_steps(coding, dividing) > 0 ? dividing : coding;
}

StoredGlobal stored_global(const BlockCoding& coding, bool divides) {
  float nearest = coding.multiplier;
  if (coding.divisor != 0) {
    nearest = divides ? coding.divisor : 1.0f / coding.divisor;
  } else if (divides) {
    nearest = 1.0f / coding.multiplier;
  }
  StoredGlobal best{nearest, coding_of_stored(nearest, divides), false};
  int differing = differing_steps(best.coding, coding);
  for (const float towards : {0.0f, std::numeric_limits<float>::infinity()}) {
    if (differing == 0) break;
    const float other = std::nextafter(nearest, towards);
    const BlockCoding candidate = coding_of_stored(other, divides);
    const int found = differing_steps(candidate, coding);
    if (found >= differing) continue;
    differing = found;
    best.number = other;
    best.coding = candidate;
  }
  best.same = differing == 0;
  return best;
}

std::optional<WeightFormat> kept_format(Format blocks, const QuantizeModelOptions& options) {
  const auto own = weight_format_of(blocks);
  if (!own) return std::nullopt;
  const ContainerWriter& writer = writer_of(options.container);
  const bool castable = own == WeightFormat::mxfp4 && writer.holds(WeightFormat::nvfp4);
  if (castable && options.keep_codes->cast) return WeightFormat::nvfp4;
  if (writer.holds(*own)) return own;
  return castable ? std::optional(WeightFormat::nvfp4) : std::nullopt;
}

std::optional<BlockCoding> coding_that_stays(const DenseTensor& tensor) {
  if (!tensor.weight) return std::nullopt;
  switch (tensor.entry.shape.size()) {
    case 2:
      return tensor.weight->coding_of(whole(tensor));
    case 3:
      return coding_of_experts(tensor);
    default:
      return std::nullopt;
  }
}

void keep_codes(TensorTreatment& treatment, const QuantizeModelOptions& options) {
  Decision& decision = treatment.decision;
  if (decision.treatment == Treatment::drop) return;
  const bool layer = decision.linear || treatment.verdict.part.has_value();
  const auto coding = layer ? coding_that_stays(*treatment.source) : std::nullopt;
  if (coding) {
    const auto format = kept_format(coding->format, options);
    const auto& shape = treatment.source->entry.shape;
    const bool fits =
        format && (shape.size() != 2 ||
                   writer_of(options.container).obstacle(*format, shape[0], shape[1]).empty());
    if (fits) {
      const bool cast = weight_format_of(coding->format) != format;
      treatment.format = format.value();
      decision.treatment = treatment.verdict.part ? Treatment::split : Treatment::quantize;
      decision.reason = cast ? "the same values under scales of NVFP4" : "its codes stay";
      decision.kept = Kept::no;
      return;
    }
  }
  const bool would_be_quantized =
      decision.treatment == Treatment::quantize || decision.treatment == Treatment::split;
  if (would_be_quantized || treatment.source->weight) {
    decision.reason =
        treatment.source->weight ? "written as BF16 values" : "not quantized in the input";
    decision.kept = Kept::not_included;
  }
  decision.treatment = Treatment::copy;
}

KeptBlocks kept_blocks(const DenseTensor& source, const MatrixSlice& slice, WeightFormat format,
                       const QuantizeModelOptions& options) {
  KeptBlocks kept;
  // There is one: keep_codes has asked for that of the tensor, and its slices have the same.
  kept.coding = source.weight->coding_of(slice).value();
  kept.written = kept.coding;
  kept.written.format = *blocks_of(format);
  if (kept.coding.format != Format::nvfp4) return kept;
  const StoredGlobal global =
      stored_global(kept.coding, writer_of(options.container).stores_divisors());
  kept.stored_global = global.number;
  kept.written = global.coding;
  kept.same_global = global.same;
  return kept;
}

Status plan_kept_codes(ModelPlan& plan, const QuantizeModelOptions& options) {
  for (ShardPlan& shard : plan.shards) {
    for (QuantizedMatrix& matrix : shard.matrices) {
      if (!options.keep_codes->scaled_inputs || matrix.format != WeightFormat::nvfp4) continue;
      const ModelTensor* part = input_scale_of(*plan.tensors[matrix.tensor].source->weight);
      if (!part) continue;
      const auto amax = input_amax(*part, plan.model);
      if (!amax) return amax.failure();
      matrix.input_amax = amax.value();
    }
  }
  if (Status told = tell_decoded(plan, options); !told) return told;
  if (const std::int64_t lost = options.keep_codes->lost_input_scales; lost > 0) {
    plan.summary.notices.push_back(
        fmt::format("{} layers have a scale of their inputs and others have none, so all of them "
                    "are described as weight-only",
                    lost));
  }
  return tell_inexact_scales(plan, options);
}

Result<QuantizeModelOptions> options_for(const ConvertModelOptions& options) {
  if (options.container == Container::gpt_oss && options.to_nvfp4) {
    return Failure{
        ErrorCode::invalid_argument,
        "convert: gpt-oss's layout holds MXFP4 and nothing else; leave out --to-nvfp4, or "
        "choose another container"};
  }
  const auto place = find_model(options.input);
  if (options.container == Container::gguf && place && place.value().is_gguf) {
    return Failure{
        ErrorCode::invalid_argument,
        fmt::format("convert: '{}' is a GGUF file already; `microscale quantize` makes one with "
                    "other types of it",
                    options.input.string())};
  }
  QuantizeModelOptions wanted;
  wanted.input = options.input;
  wanted.output = options.output;
  wanted.container = options.container;
  wanted.threads = options.threads;
  wanted.max_memory = options.max_memory;
  wanted.resume = options.resume;
  wanted.keep_codes =
      KeepCodes{.exact = options.exact, .read_back = options.read_back, .cast = options.to_nvfp4};
  auto model = open_model_folder(options.input);
  if (!model) return model.failure();
  auto folder = sort_quantized_folder(std::move(model.value()), false, false);
  if (!folder) return folder.failure();
  const bool gpt_oss = options.container == Container::gpt_oss;
  if (gpt_oss) {
    if (Status joined = join_experts(folder.value(), "convert"); !joined) return joined.failure();
  }
  const DenseView view = dense_view_of(folder.value());
  std::map<WeightFormat, std::int64_t> elements;
  std::string other;
  for (const DenseTensor& tensor : view.tensors) {
    const auto coding = coding_that_stays(tensor);
    const auto format = coding ? kept_format(coding->format, wanted) : std::nullopt;
    if (format) {
      elements[*format] += tensor.weight->elements();
    } else if (tensor.weight && !tensor.weight->facts().exact && other.empty()) {
      other = fmt::format("{} is {}", in_quotes(tensor.weight->name()),
                          tensor.weight->facts().description);
    }
  }
  if (elements.empty()) {
    return Failure{
        ErrorCode::bad_input,
        fmt::format("convert: no weight of '{}' has codes that {} holds{}; `microscale quantize` "
                    "makes such weights",
                    options.input.string(), to_string(options.container),
                    other.empty() ? "" : " (" + other + ")")};
  }
  const auto most = std::max_element(elements.begin(), elements.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  wanted.format = *blocks_of(most->first);
  // ComfyUI, llama.cpp and loaders of gpt-oss decide by themselves what they do with inputs.
  if (options.container != Container::gguf) read_activations(folder.value().model, view, wanted);
  if (options.container == Container::comfyui || gpt_oss) wanted.activations = Activations::dense;
  return wanted;
}

}  // namespace microscale
