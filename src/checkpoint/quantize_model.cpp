// The public calls that quantize a model folder.
#include "checkpoint/choose_formats.hpp"
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

ConversionPlan plan_quantize_model(const QuantizeModelOptions& options,
                                   const ProgressCallback& progress) {
  if (!options.output.empty()) take(check_output_place(options.input, options.output));
  const ChosenRun run = choose_run(options, progress, open_quantizers(options), one_rank(), true);
  ModelPlan whole = take(make_model_plan(run.options));
  take(check_added(whole.adapters, run.options));
  ConversionPlan plan = std::move(whole.summary);
  plan.computed_on = computed_on(run.options);
  return plan;
}

Conversion convert_model(const QuantizeModelOptions& options, const ProgressCallback& progress,
                         const TileQuantizerFactory& quantizers, Ranks& ranks) {
  take(check_output_place(options.input, options.output));
  // Measuring takes long: not before what stands in the way is seen.
  if (options.budget.given() && !options.resume && ranks.rank() == 0)
    take(check_vacant(options, ranks.count()));
  const ChosenRun run = choose_run(options, progress, quantizers, ranks);
  return convert_settled(run.options, run.progress, quantizers, ranks);
}

Conversion convert_model(const QuantizeModelOptions& options, const ProgressCallback& progress,
                         Ranks& ranks) {
  const std::string place = computed_on(options);
  Conversion conversion = convert_model(options, progress, open_quantizers(options), ranks);
  conversion.plan.computed_on = place;
  return conversion;
}

ConversionPlan quantize_model(const QuantizeModelOptions& options,
                              const ProgressCallback& progress) {
  return convert_model(options, progress).plan;
}

}  // namespace microscale
