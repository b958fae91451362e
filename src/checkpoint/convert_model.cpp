// The public calls that put weights which are quantized already into another container.
#include <string>
#include <string_view>

#include "checkpoint/convert.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/output_folder.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

// What a conversion shares with quantize speaks in its name.
template <class Work>
auto in_own_name(Work work) {
  try {
    return work();
  } catch (const Error& error) {
    constexpr std::string_view theirs = "quantize: ";
    const std::string_view text = error.what();
    if (!text.starts_with(theirs)) throw;
    throw Error(error.code(), "convert: " + std::string(text.substr(theirs.size())));
  }
}

}  // namespace

ConversionPlan plan_convert_model(const ConvertModelOptions& options) {
  return in_own_name([&] {
    if (!options.output.empty()) {
      take(check_output_place(options.input, options.output, "convert"));
    }
    return take(make_model_plan(take(options_for(options)))).summary;
  });
}

ConvertedModel convert_model(const ConvertModelOptions& options, const ProgressCallback& progress) {
  return in_own_name([&] {
    take(check_output_place(options.input, options.output, "convert"));
    Conversion conversion = convert_model(take(options_for(options)), progress);
    const KeptSums sums = total_kept(conversion.report);
    ConvertedModel result;
    result.plan = std::move(conversion.plan);
    result.already_done = conversion.finished.done;
    result.weights = sums.matrices;
    result.blocks = sums.blocks;
    result.cast = sums.cast;
    result.searched = sums.searched;
    if (sums.searched > 0) result.searched_mse = total_error(conversion.report).relative_mse();
    result.hash_before = sums.hash_before;
    result.hash_after = conversion.hash_after;
    return result;
  });
}

}  // namespace microscale
