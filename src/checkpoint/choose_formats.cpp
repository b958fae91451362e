#include "checkpoint/choose_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "checkpoint/choice_groups.hpp"
#include "checkpoint/format_choice.hpp"
#include "checkpoint/fused_groups.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/knapsack.hpp"
#include "checkpoint/tensor_name.hpp"
#include "checkpoint/verify_model.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

constexpr int most_tries = 16;  // until the bytes of headers and texts fit, too
// The manifest will have errors and the budget, of no longer a text than these.
constexpr double longest_error = 1.2345678901234567e-100;
constexpr std::int64_t longest_bytes = std::numeric_limits<std::int64_t>::max();

Failure refuse(const std::string& message) {
  return {ErrorCode::invalid_argument, "quantize: " + message};
}

std::string option_of(const Budget& budget) {
  return budget.bits ? fmt::format("--bits {}", *budget.bits)
                     : fmt::format("--fit {}", budget.bytes.value_or(0));
}

Status check_budget(const Budget& budget) {
  if (budget.bits && budget.bytes) return refuse("--bits and --fit are two budgets; give one");
  if (budget.bits && !(std::isfinite(*budget.bits) && *budget.bits > 0))
    return refuse(fmt::format("--bits {}; it takes a number above 0, such as 4.75", *budget.bits));
  if (budget.bytes && *budget.bytes <= 0)
    return refuse(fmt::format("--fit {}; it takes bytes, such as 24GiB", *budget.bytes));
  return success();
}

std::vector<KnapsackItem> items_of(const std::vector<GroupFormats>& groups) {
  std::vector<KnapsackItem> items;
  for (const GroupFormats& group : groups) items.push_back({group.errors, group.bytes});
  return items;
}

// Choices by size alone.
enum class Extreme { least, most };
FormatChoice extreme_choice(const QuantizeModelOptions& options,
                            const std::vector<ChoiceGroup>& groups, Extreme extreme) {
  FormatChoice choice;
  choice.budget = in_words(Budget{options.budget.bits, longest_bytes, options.budget.menu});
  choice.menu = lines_of(options);
  for (const ChoiceGroup& group : groups) {
    GroupFormats& facts = choice.groups.emplace_back(group.facts);
    bool found = false;
    for (std::size_t line = 0; line < facts.bytes.size(); ++line) {
      if (!std::isfinite(facts.errors[line])) continue;
      const bool better = extreme == Extreme::least ? facts.bytes[line] < facts.bytes[facts.chosen]
                                                    : facts.bytes[line] > facts.bytes[facts.chosen];
      if (!found || better) facts.chosen = line;
      found = true;
    }
    for (double& error : facts.errors)
      if (std::isfinite(error)) error = longest_error;
  }
  choice.weighted_layers = choice.layers();
  choice.by_gradients = false;  // the longer word
  return choice;
}

// Of all files, with this choice.
std::int64_t written_bytes(QuantizeModelOptions options, FormatChoice choice) {
  if (options.budget.bytes) options.budget.bytes = longest_bytes;
  options.choice = std::move(choice);
  return take(make_model_plan(options)).summary.disk_needed;
}

// Refuses what no choice meets; gives the bytes of the groups that may be taken at most.
std::int64_t capacity_of(const QuantizeModelOptions& options,
                         const std::vector<ChoiceGroup>& groups) {
  const Budget& budget = options.budget;
  const FormatChoice least = extreme_choice(options, groups, Extreme::least);
  const FormatChoice most = extreme_choice(options, groups, Extreme::most);
  const std::string out_of = in_words(budget.menu);
  if (budget.bits) {
    if (*budget.bits < least.bits() || *budget.bits > most.bits()) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("quantize: {} cannot be met: out of {} the layers take at least {:.6g} "
                      "bits a weight and at most {:.6g}",
                      option_of(budget), out_of, least.bits(), most.bits()));
    }
    return static_cast<std::int64_t>(*budget.bits / 8 * static_cast<double>(least.weights()));
  }
  const std::int64_t smallest = written_bytes(options, least);
  const std::int64_t largest = written_bytes(options, most);
  if (*budget.bytes < smallest || *budget.bytes > largest) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("quantize: {} cannot be met: with layers in {} all files together take at "
                    "least {} bytes and at most {}",
                    option_of(budget), out_of, smallest, largest));
  }
  return *budget.bytes - smallest + least.bytes();
}

// Experts of a layer count as one: a token goes through few of them.
std::vector<double> parts_of(const ChoiceGroup& group, const ModelPlan& plan) {
  const bool experts = std::any_of(group.matrices.begin(), group.matrices.end(), [&](MatrixId id) {
    const std::string& module = plan.shards[id.shard].matrices[id.matrix].slice.module;
    return expert_layer_of(module).has_value();
  });
  double part = 1;
  if (experts) {
    std::set<std::string_view> roles;
    for (const MatrixId id : group.matrices)
      roles.insert(leaf_of(plan.shards[id.shard].matrices[id.matrix].slice.module));
    part = static_cast<double>(roles.size()) / static_cast<double>(group.matrices.size());
  }
  return std::vector<double>(group.matrices.size(), part);
}

void add_errors(std::vector<ChoiceGroup>& groups, const std::vector<MenuFormat>& lines,
                const std::vector<std::vector<WeightFormat>>& formats, const ModelPlan& plan,
                const FormatErrors& errors) {
  for (ChoiceGroup& group : groups) {
    // By gradients the tokens of an expert are counted, else experts of a layer count as one.
    const std::vector<double> parts = errors.by_gradients()
                                          ? std::vector<double>(group.matrices.size(), 1)
                                          : parts_of(group, plan);
    for (std::size_t i = 0; i < group.matrices.size(); ++i) {
      const MatrixId id = group.matrices[i];
      const auto& measured = formats[plan.shards[id.shard].matrices[id.matrix].tensor];
      const std::vector<double> costs = errors.by_gradients()
                                            ? errors.divergences(id.shard, id.matrix)
                                            : errors.shares(id.shard, id.matrix);
      for (std::size_t line = 0; line < lines.size(); ++line) {
        if (!lines[line] || !std::isfinite(group.facts.errors[line])) continue;
        const auto at = std::find(measured.begin(), measured.end(), *lines[line]);
        group.facts.errors[line] +=
            parts[i] * costs[static_cast<std::size_t>(at - measured.begin())];
      }
    }
  }
}

// By tensor, what its layers may get.
std::vector<std::vector<WeightFormat>> formats_to_measure(const ModelPlan& plan,
                                                          const std::vector<MenuFormat>& lines,
                                                          const std::vector<ChoiceGroup>& groups) {
  std::vector<std::vector<WeightFormat>> formats(plan.tensors.size());
  for (const ChoiceGroup& group : groups) {
    std::vector<WeightFormat> open;
    for (std::size_t line = 0; line < lines.size(); ++line)
      if (lines[line] && std::isfinite(group.facts.errors[line])) open.push_back(*lines[line]);
    for (const MatrixId id : group.matrices)
      formats[plan.shards[id.shard].matrices[id.matrix].tensor] = open;
  }
  return formats;
}

FormatChoice solve(const QuantizeModelOptions& options, FormatChoice choice,
                   std::int64_t capacity) {
  const std::vector<KnapsackItem> items = items_of(choice.groups);
  for (int i = 0; i < most_tries; ++i) {
    const auto solution = solve_knapsack(items, capacity);
    if (!solution) break;
    for (std::size_t group = 0; group < items.size(); ++group)
      choice.groups[group].chosen = solution->chosen[group];
    if (!options.budget.bytes) return choice;
    const std::int64_t over = written_bytes(options, choice) - *options.budget.bytes;
    if (over <= 0) return choice;
    capacity -= over;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("quantize: {} is too near to the least that is possible; give some more",
                          option_of(options.budget)));
}

}  // namespace

Result<QuantizeModelOptions> with_menu(QuantizeModelOptions options) {
  Budget& budget = options.budget;
  if (!budget.given()) {
    if (budget.menu.empty()) return options;
    return refuse("--menu has no effect without a budget; give --bits or --fit, or leave it out");
  }
  if (Status checked = check_budget(budget); !checked) return checked.failure();
  if (options.container == Container::gguf || options.container == Container::gpt_oss) {
    return refuse(
        fmt::format("{} mixes formats layer by layer, which {} files do not take; choose "
                    "compressed-tensors, modelopt or comfyui as --container",
                    option_of(budget), to_string(options.container)));
  }
  const ContainerWriter& writer = writer_of(options.container);
  std::vector<MenuFormat> menu;
  for (const WeightFormat format : all_weight_formats()) {
    if (format != WeightFormat::fp8_tensor && writer.holds(format)) menu.push_back(format);
  }
  menu.push_back(std::nullopt);
  for (const MenuFormat wanted : budget.menu) {
    if (std::find(menu.begin(), menu.end(), wanted) != menu.end()) continue;
    return refuse(fmt::format("--menu {} is not to be had in the container {}; it takes {}",
                              menu_name(wanted), to_string(options.container), in_words(menu)));
  }
  if (!budget.menu.empty()) {  // in one order, each once
    std::erase_if(menu, [&](MenuFormat format) {
      return std::find(budget.menu.begin(), budget.menu.end(), format) == budget.menu.end();
    });
  }
  budget.menu = std::move(menu);
  const auto blocks = std::find_if(budget.menu.begin(), budget.menu.end(),
                                   [](MenuFormat format) { return format && blocks_of(*format); });
  if (blocks == budget.menu.end()) {
    return refuse(fmt::format("a menu of {} has no format of blocks; add nvfp4, mxfp4 or mxfp8",
                              in_words(budget.menu)));
  }
  if (budget.menu.size() < 2) {
    return refuse(
        fmt::format("a menu of {} alone leaves nothing to choose; add others, such as bf16",
                    in_words(budget.menu)));
  }
  options.format = *blocks_of(**blocks);
  return options;
}

FormatChoice choose_formats(
    const QuantizeModelOptions& options, const TileQuantizerFactory& quantizers,
    const std::function<void(std::int64_t measured, std::int64_t converted)>& begin,
    const FormatErrors::Advance& advance) {
  const ModelPlan plan = take(make_model_plan(options));
  const std::vector<MenuFormat> lines = lines_of(options);
  std::vector<ChoiceGroup> groups = take(choice_groups(plan, options));
  FormatChoice choice;
  choice.budget = in_words(options.budget);
  choice.menu = lines;
  if (groups.empty()) return choice;
  const std::int64_t capacity = capacity_of(options, groups);
  const auto formats = formats_to_measure(plan, lines, groups);
  FormatErrors errors(plan, options, formats);
  begin(errors.bytes(), plan.summary.bytes_before);
  errors.run(quantizers, advance);
  add_errors(groups, lines, formats, plan, errors);
  choice.by_gradients = errors.by_gradients();
  for (ChoiceGroup& group : groups) {
    for (const MatrixId id : group.matrices)
      choice.weighted_layers += errors.weighted(plan.shards[id.shard].matrices[id.matrix]);
    choice.groups.push_back(std::move(group.facts));
  }
  return solve(options, std::move(choice), capacity);
}

std::optional<FormatChoice> recorded_choice(const QuantizeModelOptions& options) {
  auto recorded = Journal::recorded(options.output);
  if (!recorded) {
    Findings unreadable;
    if (auto manifest = read_manifest(options.output, unreadable))
      recorded = std::move(manifest->made_of);
  }
  if (!recorded) return std::nullopt;
  const auto text = std::find_if(recorded->begin(), recorded->end(),
                                 [](const auto& entry) { return entry.first == choice_entry; });
  if (text == recorded->end()) return std::nullopt;
  auto choice = choice_from(text->second);
  if (!choice || choice.value().menu != lines_of(options)) return std::nullopt;
  return std::move(choice.value());
}

ChoiceReport report_on(const FormatChoice& choice) {
  ChoiceReport report;
  report.budget = choice.budget;
  for (const MenuFormat format : choice.menu) report.menu.emplace_back(menu_name(format));
  report.weighted_layers = choice.weighted_layers;
  report.by_gradients = choice.by_gradients;
  for (const GroupFormats& group : choice.groups) {
    report.rows.push_back(
        {group.name, group.layers, group.weights, group.errors, group.bytes, group.chosen});
  }
  if (choice.groups.empty()) return report;
  const auto weights = static_cast<double>(choice.weights());
  for (const KnapsackPoint& point : knapsack_curve(items_of(choice.groups)))
    report.curve.push_back({8 * static_cast<double>(point.size) / weights, point.cost});
  return report;
}

ChosenRun choose_run(const QuantizeModelOptions& asked, const ProgressCallback& progress,
                     const TileQuantizerFactory& quantizers, Ranks& ranks, bool plan_only) {
  ChosenRun run{take(with_menu(asked)), progress};
  QuantizeModelOptions& options = run.options;
  if (!options.budget.given() || options.choice) return run;
  if (ranks.rank() == 0 && options.resume) options.choice = recorded_choice(options);
  std::int64_t total = 0;  // of the measuring
  if (ranks.rank() == 0 && !options.choice) {
    std::int64_t done = 0, all = 0;
    const auto tell = [&](std::string_view item) {
      if (!progress || progress(done, all, item)) return;
      throw Error(ErrorCode::interrupted,
                  "quantize: interrupted while formats were measured; nothing was written");
    };
    options.choice = choose_formats(
        options, quantizers,
        [&](std::int64_t measured, std::int64_t converted) {
          total = measured;
          all = measured + (plan_only ? 0 : converted);
          tell("");
        },
        [&](std::int64_t bytes, std::string_view item) {
          done += bytes;
          tell(item);
        });
  }
  const std::string text =
      ranks.from_first(options.choice ? to_text(*options.choice) : std::string());
  if (!options.choice) options.choice = take(choice_from(text));
  if (progress && total > 0) {
    run.progress = [progress, total](std::int64_t done, std::int64_t all, std::string_view item) {
      return progress(total + done, total + all, item);
    };
  }
  return run;
}

}  // namespace microscale
