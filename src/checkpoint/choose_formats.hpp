// From a budget to a format for each layer: what every format of the menu costs each of them is
// measured, then the choice of the least error within the budget is made.
#pragma once

#include <functional>

#include "checkpoint/format_errors.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"
#include "report/choice_report.hpp"

namespace microscale {

/// The options with the menu that an empty one stands for, and `format` the first of it with
/// blocks. Without a budget as they are. A failure where the budget is none, or the container takes
/// no mixture or not these formats.
Result<QuantizeModelOptions> with_menu(QuantizeModelOptions options);

/// Of options with_menu gave, with a budget and no choice. Refuses a budget that cannot be met
/// before any weight is read, with the least and the most. `advance` as FormatErrors has it;
/// `begin` is called before it with the bytes that are measured and those that a conversion reads.
/// Throws Error.
FormatChoice choose_formats(
    const QuantizeModelOptions& options, const TileQuantizerFactory& quantizers,
    const std::function<void(std::int64_t measured, std::int64_t converted)>& begin,
    const FormatErrors::Advance& advance);

/// The choice that an earlier run of the same budget has left in options.output; nothing where
/// there is none, or one of another menu.
std::optional<FormatChoice> recorded_choice(const QuantizeModelOptions& options);

/// The choice as the report shows it, with the curve of the best choices.
ChoiceReport report_on(const FormatChoice& choice);

/// Options and progress of a conversion once formats are chosen.
struct ChosenRun {
  QuantizeModelOptions options;
  ProgressCallback progress;
};

/// with_menu's options with the choice: that of an earlier run with options.resume, rank 0's for
/// all ranks, or none where options have no budget. Measuring is the first part of the progress,
/// the conversion the second, or with `plan_only` none. Throws Error.
ChosenRun choose_run(const QuantizeModelOptions& options, const ProgressCallback& progress,
                     const TileQuantizerFactory& quantizers, Ranks& ranks, bool plan_only = false);

}  // namespace microscale
