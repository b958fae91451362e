// The public calls that quantize a model folder.
#include "checkpoint/convert.hpp"
#include "checkpoint/merged_weight.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

std::string_view to_string(Activations activations) {
  return activations == Activations::dense ? "dense" : "dynamic";
}

ConversionPlan plan_quantize_model(const QuantizeModelOptions& options) {
  if (!options.output.empty()) take(check_output_place(options.input, options.output));
  ModelPlan whole = take(make_model_plan(options));
  take(check_added(whole.adapters, options));
  ConversionPlan plan = std::move(whole.summary);
  plan.computed_on = computed_on(options);
  return plan;
}

ConversionPlan quantize_model(const QuantizeModelOptions& options,
                              const ProgressCallback& progress) {
  return convert_model(options, progress).plan;
}

}  // namespace microscale
