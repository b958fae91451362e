// compare: what quantizing cost, tensor by tensor.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/compare_models.hpp"
#include "command_progress.hpp"
#include "commands.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t worst_count = 10;
constexpr std::size_t names_shown = 20;  // of tensors that only one side has

// A NaN or an infinity among the values leaves no figure of error.
bool finite(const ErrorSums& error) {
  return std::isfinite(error.squared_original) && std::isfinite(error.squared_restored);
}

// Beyond ten times the square of the original the figure says no more than that it is wrong.
std::string mse_text(const ErrorSums& error) {
  constexpr double most = 10;
  const double mse = error.relative_mse();
  return mse > most ? "> 1000 %" : format_percent(mse, 4);
}

// "8241 times as large as the original: a global scale was not applied".
std::string ratio_text(double ratio) {
  const double size = std::fabs(ratio);
  const std::string sign = ratio < 0 ? ", with the sign turned" : "";
  const std::string times = format_number(size >= 1 ? size : 1 / size, 4);
  std::string text = size >= 1.25 ? fmt::format("{} times as large as the original{}", times, sign)
                     : size <= 0.8
                         ? fmt::format("{} times smaller than the original{}", times, sign)
                         : "the original with the sign turned";
  const double exponent = std::log2(size);
  if (size < 1.25 && size > 0.8) return text;
  const bool power_of_two = std::fabs(exponent - std::round(exponent)) < 0.002;
  return text + (power_of_two
                     ? ": block scales were read with another exponent, or a scale was not "
                       "applied"
                     : ": a global scale was not applied, or the wrong way round");
}

std::vector<std::string> scaled(const ModelComparison& comparison) {
  std::vector<std::string> lines;
  for (const TensorReport& tensor : comparison.report.tensors) {
    if (!tensor.measured()) continue;
    const auto ratio = constant_ratio(tensor.error);
    if (ratio) lines.push_back(fmt::format("{}: {}", tensor.name, ratio_text(*ratio)));
  }
  return lines;
}

const TensorReport* report_of(const ModelComparison& comparison, const std::string& name) {
  for (const TensorReport& tensor : comparison.report.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::vector<std::string> should_be_kept(const ModelComparison& comparison) {
  std::vector<std::string> lines;
  for (const ModelComparison::Kept& kept : comparison.should_be_kept) {
    const TensorReport* tensor = report_of(comparison, kept.name);
    lines.push_back(fmt::format(
        "{} ({}){}", kept.name, kept.reason,
        tensor && tensor->measured() ? ": relative MSE " + mse_text(tensor->error) : ""));
  }
  return lines;
}

Table figures_table() {
  return Table({{"tensor", Align::left, true},
                {"as", Align::left},
                {"rel. MSE", Align::right},
                {"SQNR", Align::right},
                {"cosine", Align::right},
                {"max error", Align::right},
                {"clipped", Align::right},
                {"to zero", Align::right}});
}

std::vector<std::string> figures(const std::string& name, const std::string& treatment,
                                 const ErrorSums& error) {
  return {name,
          treatment,
          mse_text(error),
          format_decibel(error.sqnr_db()),
          finite(error) ? fmt::format("{:.6f}", error.cosine()) : "-",
          finite(error) ? format_number(error.max_error) : "-",
          format_percent(error.clipped_share()),
          format_percent(error.flushed_share())};
}

std::string list_of(const std::string& title, const std::vector<std::string>& names, bool utf8) {
  if (names.empty()) return "";
  std::string text = fmt::format("\n{} ({}):\n", title, names.size());
  for (std::size_t i = 0; i < std::min(names.size(), names_shown); ++i) {
    text += fmt::format("  {}\n", printable(names[i], utf8));
  }
  if (names.size() > names_shown)
    text += fmt::format("  and {} more\n", names.size() - names_shown);
  return text;
}

// Names of tensors that were compared without figures, except the identical ones.
std::vector<std::string> unmeasured(const ModelComparison& comparison) {
  std::vector<std::string> names;
  for (const TensorReport& tensor : comparison.report.tensors) {
    if (tensor.measured() || tensor.reason.empty() || tensor.reason == "identical" ||
        tensor.reason == "different shape") {
      continue;
    }
    names.push_back(fmt::format("{}: {}", tensor.name, tensor.reason));
  }
  return names;
}

// Which side of a tensor without figures holds what is no number.
std::vector<std::string> not_finite(const ModelComparison& comparison) {
  std::vector<std::string> names;
  for (const TensorReport& tensor : comparison.report.tensors) {
    if (finite(tensor.error)) continue;
    const bool original = !std::isfinite(tensor.error.squared_original);
    const bool other = !std::isfinite(tensor.error.squared_restored);
    names.push_back(fmt::format("{}: {} NaN or infinity", tensor.name,
                                original && other ? "both hold"
                                : original        ? "the original holds"
                                                  : "the other holds"));
  }
  return names;
}

std::string counted(std::size_t count, const char* one, const char* more) {
  return fmt::format("{} {}", count, count == 1 ? one : more);
}

// Why the check has failed: the figure is too large or none, or is not one of all of the model.
std::vector<std::string> failures_of(const ModelComparison& comparison, std::size_t unusable,
                                     double max_mse) {
  std::vector<std::string> failures;
  const double mse = total_error(comparison.report).relative_mse();
  if (std::isnan(mse)) {
    const std::size_t count = not_finite(comparison).size();
    failures.push_back(counted(count, "tensor holds", "tensors hold") + " NaN or infinity");
  } else if (mse > max_mse) {
    failures.push_back(fmt::format("the relative MSE {} is above the limit {}",
                                   mse_text(total_error(comparison.report)),
                                   format_percent(max_mse, 4)));
  }
  std::size_t above = 0;
  for (const TensorReport& tensor : comparison.report.tensors) {
    above += tensor.measured() && tensor.error.relative_mse() > max_mse;
  }
  if (above > 0) {
    const TensorReport& worst = *worst_tensors(comparison.report, 1).front();
    failures.push_back(
        fmt::format("{}: {} with {}",
                    above == 1 ? "1 tensor is above the limit"
                               : fmt::format("{} tensors are above the limit, first", above),
                    worst.name, mse_text(worst.error)));
  }
  const auto add = [&](std::size_t count, const char* one, const char* more) {
    if (count > 0) failures.push_back(counted(count, one, more));
  };
  add(comparison.only_in_original.size(), "tensor of the original is missing in the other",
      "tensors of the original are missing in the other");
  add(comparison.different_shapes.size(), "tensor has another shape", "tensors have other shapes");
  add(unusable, "tensor or module cannot be decoded", "tensors or modules cannot be decoded");
  add(unmeasured(comparison).size(), "tensor differs without a figure",
      "tensors differ without a figure");
  return failures;
}

void print_text(const ModelComparison& comparison, const std::vector<std::string>& notes,
                Console& console) {
  const ModelReport& report = comparison.report;
  for (const std::string& note : notes) console.note("note: " + note);
  if (comparison.swapped)
    console.note("note: the second folder is dense, so it is taken for the original");
  Table all = figures_table();
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.measured()) all.add_row(figures(tensor.name, tensor.treatment, tensor.error));
  }
  std::string text = list_of("Quantized, but of a kind that quantize keeps by default",
                             should_be_kept(comparison), console.out.utf8);
  text += list_of("A constant apart", scaled(comparison), console.out.utf8);
  if (!text.empty()) text = text.substr(1) + "\n";
  if (!all.empty()) {
    all.add_rule();
    all.add_row(figures("all of these", "", total_error(report)));
    text += all.text(console.out);
  }
  const auto worst = worst_tensors(report, worst_count);
  if (worst.size() > 1) {
    Table table = figures_table();
    for (const TensorReport* tensor : worst) {
      table.add_row(figures(tensor->name, tensor->treatment, tensor->error));
    }
    text += "\n" + console.bold("Worst by relative MSE:") + "\n" + table.text(console.out);
  }
  text +=
      fmt::format("\n{} identical. All that are in both: {} against {}, {}\n",
                  comparison.identical == 1 ? "1 tensor is"
                                            : fmt::format("{} tensors are", comparison.identical),
                  format_bytes(report.bytes_before), format_bytes(report.bytes_after),
                  format_change(report.bytes_before, report.bytes_after));
  text += list_of("Not finite", not_finite(comparison), console.out.utf8);
  text += list_of("Not measured", unmeasured(comparison), console.out.utf8);
  text += list_of("Different shapes", comparison.different_shapes, console.out.utf8);
  text += list_of("Only in the original", comparison.only_in_original, console.out.utf8);
  text += list_of("Only in the other", comparison.only_in_other, console.out.utf8);
  console.print(text);
}

Json document_of(const ModelComparison& comparison, const std::vector<std::string>& notes,
                 const std::optional<std::vector<std::string>>& failures) {
  Json document = Json::parse(to_json(comparison.report, JsonDetail::figures));
  document["identical"] = comparison.identical;
  document["only_in_original"] = comparison.only_in_original;
  document["only_in_other"] = comparison.only_in_other;
  document["different_shapes"] = comparison.different_shapes;
  document["should_be_kept"] = Json::array();
  for (const ModelComparison::Kept& kept : comparison.should_be_kept) {
    document["should_be_kept"].push_back({{"name", kept.name}, {"reason", kept.reason}});
  }
  document["constant_ratios"] = Json::object();
  for (const TensorReport& tensor : comparison.report.tensors) {
    const auto ratio = tensor.measured() ? constant_ratio(tensor.error) : std::nullopt;
    if (ratio) document["constant_ratios"][tensor.name] = *ratio;
  }
  document["not_finite"] = not_finite(comparison);
  document["not_measured"] = unmeasured(comparison);
  document["swapped"] = comparison.swapped;
  document["notes"] = notes;
  document["within_max_mse"] = failures ? Json(failures->empty()) : Json(nullptr);
  document["max_mse_failures"] = failures ? Json(*failures) : Json(nullptr);
  document["worst"] = Json::array();
  for (const TensorReport* tensor : worst_tensors(comparison.report, worst_count)) {
    document["worst"].push_back(tensor->name);
  }
  return document;
}

}  // namespace

int run(const CompareCommand& command, Console& console) {
  const QuantizedFolder first = take(open_quantized_folder(command.original));
  const QuantizedFolder second = take(open_quantized_folder(command.other));
  CommandProgress progress(console, "compare");
  const ModelComparison comparison =
      compare_models(first, second, command.threads, progress.callback());
  progress.finish();

  std::vector<std::string> notes;
  for (const QuantizedFolder* folder : {&first, &second}) {
    for (const Finding& finding : folder->unusable) notes.push_back(finding.message);
  }
  const std::size_t unusable = notes.size();
  for (const QuantizedFolder* folder : {&first, &second}) {
    const auto more = folder->model.sentences();
    notes.insert(notes.end(), more.begin(), more.end());
  }
  std::optional<std::vector<std::string>> failures;
  if (command.max_mse) failures = failures_of(comparison, unusable, *command.max_mse);
  if (console.json)
    console.print_json(document_of(comparison, notes, failures));
  else
    print_text(comparison, notes, console);
  if (!failures || failures->empty()) return exit_success;
  console.note(fmt::format("--max-mse has failed: {}", fmt::join(*failures, "; ")));
  return exit_check_failed;
}

}  // namespace microscale
