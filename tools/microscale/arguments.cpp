#include "arguments.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "checkpoint/choose_formats.hpp"
#include "core/result.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(separators, at), text.size());
    if (end > at) words.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string joined(std::span<const std::string> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::vector<std::string> all_scale_rules() {
  std::vector<std::string> names;
  for (const FormatInfo& format : all_formats())
    for (const ScaleRule rule : scale_rules(format.format))
      if (std::find(names.begin(), names.end(), to_string(rule)) == names.end())
        names.emplace_back(to_string(rule));
  return names;
}

[[noreturn]] void unknown(std::string_view option, const std::string& name,
                          const std::vector<std::string>& choices) {
  wrong(fmt::format("{} does not know '{}'{}; choose one of {}", option, name,
                    did_you_mean(name, choices), joined(choices)));
}

// Letters inserted, left out, replaced or swapped with their neighbour to get from one word to the
// other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      cost[i][j] = std::min(
          {cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

// Case, '-', '_' and '.' make no difference to what was meant.
std::string folded(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (c != '-' && c != '_' && c != '.')
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return out;
}

bool begins_as_negative_number(std::string_view word) {
  return word.size() >= 2 && word[0] == '-' &&
         std::string_view("0123456789.iInN").find(word[1]) != std::string_view::npos;
}

std::string read_standard_input() {
  constexpr std::size_t most = 1 << 20;
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, buffer, sizeof buffer);
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error(ErrorCode::io,
                  fmt::format("cannot read standard input: {}", std::strerror(errno)));
    text.append(buffer, static_cast<std::size_t>(count));
    if (text.size() > most)
      wrong("standard input has more than 1 MiB; give the values of one block");
  }
}

}  // namespace

std::vector<std::string> choices_of(std::string_view placeholder) {
  if (placeholder == "FORMAT") {
    std::vector<std::string> names = split(format_names(), ", ");
    names.insert(std::find(names.begin(), names.end(), "mxfp8_e4m3"), "mxfp8");
    return names;
  }
  if (placeholder == "FORMATS") return {"nvfp4", "mxfp4", "mxfp8", "fp8", "bf16"};
  if (placeholder == "RULE") return all_scale_rules();
  if (placeholder == "ROUNDING") return split(rounding_names(), ", ");
  if (placeholder == "TOOL") return split(compat_names(), ", ");
  if (placeholder == "DTYPE") return {"bf16", "f16", "f32"};
  if (placeholder == "ORDER") return {"interleaved", "halves"};
  if (placeholder == "CONTAINER") return split(container_names(), ", ");
  if (placeholder == "ACTIVATIONS") return {"dense", "dynamic"};
  if (placeholder == "DEVICE") return {"cpu", "cuda", "cuda:0", "cuda:all"};
  if (placeholder == "OPERATION") return {"quantize", "matmul", "attention"};
  if (placeholder == "BACKEND") return {"all", "cpu", "amx", "avx512", "avx2", "cuda", "cuda:0"};
  if (placeholder == "GENERATOR") return {"zeros", "ones", "iota", "normal", "uniform", "empty"};
  if (placeholder == "ACTION") return {"explain", "run", "profile"};
  if (placeholder == "SCHEDULE") return {"round_robin", "reverse", "random"};
  if (placeholder == "COMPLETION") return {"eager", "latest", "random"};
  if (placeholder == "SHELL") return {"bash", "zsh", "fish"};
  return {};
}

Format format_from(const std::string& name) {
  const std::optional<Format> format = parse_format(name);
  if (!format && name == "fp8") {
    wrong(
        "--format has no fp8 here, whose scales are no block's; only quantize makes models of it");
  }
  if (!format) unknown("--format", name, choices_of("FORMAT"));
  return *format;
}

DType dtype_from(const std::string& name) {
  const std::optional<DType> type = parse_dtype(name);
  if (!type) unknown("--dtype", name, choices_of("DTYPE"));
  return *type;
}

ExpertOrder expert_order_from(const std::string& name) {
  if (name == "halves") return ExpertOrder::halves;
  if (name != "interleaved") unknown("--experts", name, choices_of("ORDER"));
  return ExpertOrder::interleaved;
}

Activations activations_from(const std::string& name) {
  if (name == "dense") return Activations::dense;
  if (name != "dynamic") unknown("--activations", name, choices_of("ACTIVATIONS"));
  return Activations::dynamic;
}

Container container_from(const std::string& option, const std::string& name) {
  const std::optional<Container> container = parse_container(name);
  if (!container) unknown(option, name, choices_of("CONTAINER"));
  return *container;
}

UseFormat use_from(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0)
    wrong(
        fmt::format("--use got '{}'; it takes PATTERN=FORMAT, such as '*.down_proj=mxfp8'", text));
  const std::string name = text.substr(equals + 1);
  const std::optional<WeightFormat> format = parse_weight_format(name);
  if (!format) unknown("--use", name, {"nvfp4", "mxfp4", "mxfp8", "fp8", "fp8_tensor"});
  return {text.substr(0, equals), *format};
}

LoraUse lora_from(const std::string& text) {
  std::error_code error;
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text, error)) return {text};
  const std::string number = text.substr(colon + 1);
  char* end = nullptr;
  const double weight = std::strtod(number.c_str(), &end);
  if (colon == 0 || number.empty() || *end != '\0' || !std::isfinite(weight))
    wrong(fmt::format("--lora got '{}'; it takes ADAPTER or ADAPTER:WEIGHT, such as style:0.8",
                      text));
  return {text.substr(0, colon), weight};
}

std::vector<int> gpus_from(const std::string& device) {
  if (device == "cpu") return {};
  if (device == "cuda") return {0};
  if (device == "cuda:all") {
    std::vector<int> gpus(static_cast<std::size_t>(cuda::device_count()));
    std::iota(gpus.begin(), gpus.end(), 0);
    if (gpus.empty())
      throw Error(ErrorCode::unsupported,
                  fmt::format("--device cuda:all finds no GPU: {}; use --device cpu",
                              cuda::unavailable_reason()));
    return gpus;
  }
  constexpr std::string_view prefix = "cuda:";
  const std::string number = device.rfind(prefix, 0) == 0 ? device.substr(prefix.size()) : "";
  if (number.empty() || number.find_first_not_of("0123456789") != number.npos)
    wrong(fmt::format("--device got '{}'{}; it takes cpu, cuda, cuda:N or cuda:all", device,
                      did_you_mean(device, choices_of("DEVICE"))));
  return {static_cast<int>(integer_from("--device cuda:N", number, 0, 1023))};
}

Numerics numerics_from(const NumericWords& words, Format format, bool all) {
  Numerics numerics;
  if (!words.compat.empty()) {
    const std::optional<Compat> compat = parse_compat(words.compat);
    if (!compat) unknown("--compat", words.compat, choices_of("TOOL"));
    numerics = numerics_for(*compat, format);
  }
  if (!words.scale_rule.empty()) {
    const std::optional<ScaleRule> rule = parse_scale_rule(words.scale_rule);
    if (!rule) unknown("--scale-rule", words.scale_rule, split(scale_rule_names(format), ", "));
    const std::span<const ScaleRule> rules = scale_rules(format);
    if (std::find(rules.begin(), rules.end(), *rule) == rules.end())
      wrong(fmt::format("--scale-rule {} is not defined for {}; choose one of {}", words.scale_rule,
                        info(format).name, scale_rule_names(format)));
    numerics.scale_rule = *rule;
  }
  if (!words.rounding.empty()) {
    const std::optional<Rounding> rounding = parse_rounding(words.rounding);
    if (!rounding) unknown("--rounding", words.rounding, choices_of("ROUNDING"));
    numerics.rounding = *rounding;
  }
  if (!words.seed.empty()) {
    char* end = nullptr;
    errno = 0;
    numerics.seed = std::strtoull(words.seed.c_str(), &end, 0);
    if (words.seed[0] < '0' || words.seed[0] > '9' || *end != '\0' || errno != 0)
      wrong(fmt::format("--seed got '{}'; it takes an integer from 0 to 2^64 - 1", words.seed));
    if (!all && numerics.rounding != Rounding::stochastic)
      wrong(
          fmt::format("--seed has no effect on rounding {}; leave it out, or add --rounding "
                      "stochastic",
                      to_string(numerics.rounding)));
  }
  return numerics;
}

void choose_format(const NumericWords& words, QuantizeModelOptions& options) {
  if (options.budget.given()) {
    options = take(with_menu(std::move(options)));
    options.numerics = numerics_from(words, options.format);
    return;
  }
  const std::optional<WeightFormat> weights = parse_weight_format(words.format);
  if (weights != WeightFormat::fp8 && weights != WeightFormat::fp8_tensor) {
    options.format = format_from(words.format);
    options.numerics = numerics_from(words, options.format);
    return;
  }
  for (const auto& [option, word] :
       {std::pair{"--scale-rule", &words.scale_rule}, std::pair{"--rounding", &words.rounding},
        std::pair{"--compat", &words.compat}, std::pair{"--seed", &words.seed}}) {
    if (!word->empty())
      wrong(fmt::format("{} has no effect on {}, which has one way to round; leave it out", option,
                        words.format));
  }
  set_format(options, *weights);
}

std::int64_t bytes_from(const std::string& option, const std::string& text) {
  constexpr std::string_view letters = "KMGT";
  const char* begin = text.c_str();
  char* end = nullptr;
  const double number = std::strtod(begin, &end);
  std::string_view unit = end;
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  double factor = 1;
  bool known = end != begin && (unit.empty() || unit == "B");
  if (!known && end != begin) {
    const char letter = unit[0] == 'k' ? 'K' : unit[0];
    const std::size_t power = letters.find(letter);
    const std::string_view rest = unit.substr(1);
    known = power != std::string_view::npos && (rest.empty() || rest == "B" || rest == "iB");
    factor = std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power) + 1);
  }
  if (!known || !(number * factor >= 1) || number * factor > 9e18)
    wrong(fmt::format("{} got '{}'; it takes a size such as 512M, 1GiB or 2GB", option, text));
  return static_cast<std::int64_t>(number * factor);
}

std::int64_t shared_bytes_from(const std::string& text) {
  return text.empty() || text == "0" ? 0 : bytes_from("--shared", text);
}

double share_from(const std::string& option, const std::string& text) {
  char* end = nullptr;
  double share = std::strtod(text.c_str(), &end);
  std::string_view unit = end;
  const bool percent = unit == "%" || unit == " %";
  if (percent) share /= 100;
  if (end == text.c_str() || !(percent || unit.empty()) || !(share >= 0) || std::isinf(share))
    wrong(fmt::format("{} got '{}'; it takes a number such as 0.01 or 1%", option, text));
  return share;
}

StatisticsUse statistics_from(const std::string& method, const std::string& shrink,
                              const std::string& damping) {
  StatisticsUse use;
  if (!method.empty()) {
    const auto known = parse_statistics_method(method);
    if (!known)
      wrong(
          fmt::format("--method got '{}'; it takes one of {}", method, statistics_method_names()));
    use.method = *known;
  }
  if (!shrink.empty()) use.shrink = share_from("--shrink", shrink);
  if (!damping.empty()) use.damping = share_from("--damping", damping);
  return use;
}

std::int64_t integer_from(const std::string& option, const std::string& text, std::int64_t smallest,
                          std::int64_t largest) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < smallest || value > largest)
    wrong(fmt::format("{} got '{}'; it takes an integer from {} to {}", option, text, smallest,
                      largest));
  return value;
}

float float_from(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (text.empty() || *end != '\0')
    wrong(fmt::format("{} got '{}'; it takes a number such as 0.945, -7, 1e-3, inf or nan", option,
                      text));
  const bool written_infinite = text.find_first_of("nN") != std::string::npos;
  if (std::isinf(value) && !written_infinite)
    wrong(fmt::format("{} got '{}', beyond the largest FP32 number (3.4e38)", option, text));
  return value;
}

std::vector<float> floats_from(const std::vector<std::string>& words, std::size_t most) {
  std::vector<float> values;
  const auto add = [&](std::string_view text) {
    for (const std::string& number : split(text, " \t\r\n\v\f,;[]()"))
      values.push_back(float_from("VALUES", number));
  };
  for (const std::string& word : words) add(word == "-" ? read_standard_input() : word);
  if (values.empty())
    wrong("no values given; name at least one, or - to read them from standard input");
  if (values.size() > most)
    wrong(fmt::format("{} values given; a block of this format has {}, so give at most that many",
                      values.size(), most));
  return values;
}

std::optional<std::string> nearest(std::string_view name, std::span<const std::string> choices) {
  std::optional<std::string> best;
  std::size_t least = 0;
  for (const std::string& choice : choices) {
    const std::size_t distance = edit_distance(folded(name), folded(choice));
    if (distance <= std::max<std::size_t>(1, choice.size() / 3) && (!best || distance < least)) {
      best = choice;
      least = distance;
    }
  }
  if (best) return best;
  // A beginning is enough where only one choice has it.
  for (const std::string& choice : choices) {
    if (name.size() < 2 || folded(choice).find(folded(name)) != 0) continue;
    if (best) return std::nullopt;
    best = choice;
  }
  return best;
}

std::string did_you_mean(std::string_view name, std::span<const std::string> choices) {
  const std::optional<std::string> choice = nearest(name, choices);
  return choice ? " (did you mean " + *choice + "?)" : std::string();
}

void protect_negative_numbers(std::vector<std::string>& arguments) {
  for (std::string& word : arguments)
    if (begins_as_negative_number(word)) word = std::string(1, ' ').append(word);
}

std::string unprotected(std::string word) {
  if (word.starts_with(' ') && begins_as_negative_number(std::string_view(word).substr(1)))
    word.erase(0, 1);
  return word;
}

}  // namespace microscale
