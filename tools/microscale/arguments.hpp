// Words of the command line turned into values; each failure is an Error{invalid_argument} that
// names the option, what it got, what it could have got and, for a misspelled name, the nearest
// right one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "microscale/checkpoint.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// --format, --scale-rule, --rounding, --compat and --seed as written; empty: not given.
struct NumericWords {
  std::string format;
  std::string scale_rule;
  std::string rounding;
  std::string compat;
  std::string seed;
};

/// What an option or argument takes, by the word its help shows for it: the one place that says so,
/// to the parser, to error messages and to completion. Empty for a word that stands for anything.
std::vector<std::string> choices_of(std::string_view placeholder);

Format format_from(const std::string& name);
/// --bits, --fit and --menu, each empty where it was not given. `format`: --format, which none of
/// them goes with.
Budget budget_from(const std::string& bits, const std::string& fit, const std::string& menu,
                   const std::string& format);
/// --format of quantize, or the first with blocks of a budget's menu, and its numerics; when
/// options.budget, use, container and input_scales are set.
void choose_format(const NumericWords& words, QuantizeModelOptions& options);
/// The profile of --compat, with --scale-rule and --rounding over it. `all`: every rounding is
/// shown; else a seed is refused where no rounding uses it.
Numerics numerics_from(const NumericWords& words, Format format, bool all = false);
DType dtype_from(const std::string& name);
ExpertOrder expert_order_from(const std::string& name);
Activations activations_from(const std::string& name);
Container container_from(const std::string& option, const std::string& name);
/// "PATTERN=FORMAT".
UseFormat use_from(const std::string& text);
/// "ADAPTER" or "ADAPTER:WEIGHT".
LoraUse lora_from(const std::string& text);
/// The GPUs that --device names: none for "cpu", GPU 0 for "cuda", GPU N for "cuda:N", every one of
/// this machine for "cuda:all". Error{unsupported} where that is none.
std::vector<int> gpus_from(const std::string& device);

/// "512M", "1GiB", "4096": bytes. K, M, G, T with or without "iB" are powers of 1024; kB, MB, ...
/// of 1000.
std::int64_t bytes_from(const std::string& option, const std::string& text);
/// The same for --shared, of which there may be none: "0" or nothing.
std::int64_t shared_bytes_from(const std::string& text);
/// --method, --shrink and --damping, each empty where it was not given.
StatisticsUse statistics_from(const std::string& method, const std::string& shrink,
                              const std::string& damping);
/// "0.01" or "1%".
double share_from(const std::string& option, const std::string& text);
std::int64_t integer_from(const std::string& option, const std::string& text, std::int64_t smallest,
                          std::int64_t largest);
float float_from(const std::string& option, const std::string& text);
/// Numbers in words, several in a word apart by blanks or commas, brackets ignored; the word "-"
/// stands for those on standard input. At most `most`, at least one.
std::vector<float> floats_from(const std::vector<std::string>& words, std::size_t most);

/// The choice nearest to `name`, if near enough to be meant.
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> choices);
/// " (did you mean X?)" or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string> choices);

/// A command-line parser takes -7 and -inf for options. A blank before them makes them values, and
/// no number minds it.
void protect_negative_numbers(std::vector<std::string>& arguments);
/// The word as it was written, without that blank.
std::string unprotected(std::string word);

}  // namespace microscale
