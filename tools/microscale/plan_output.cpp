#include "plan_output.hpp"

#include <fmt/format.h>

#include "console.hpp"
#include "report/terminal.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t bytes(std::int64_t count) { return static_cast<std::uint64_t>(count); }

const char* name_of(Treatment treatment) {
  switch (treatment) {
    case Treatment::quantize:
      return "quantize";
    case Treatment::split:
      return "split";
    case Treatment::drop:
      return "drop";
    case Treatment::copy:
      break;
  }
  return "copy";
}

}  // namespace

bool fits_on_disk(const ConversionPlan& plan) { return plan.disk_needed <= plan.disk_free; }

Json left_out_json(const ConversionPlan& plan) {
  Json files = Json::array();
  for (std::size_t i = 0; i < plan.dropped_files.size(); ++i) {
    files.push_back({{"file", plan.dropped_files[i]}, {"reason", plan.dropped_reasons[i]}});
  }
  return files;
}

std::string left_out_text(const ConversionPlan& plan, bool utf8) {
  std::string text;
  for (std::size_t i = 0; i < plan.dropped_files.size(); ++i) {
    text +=
        printable(fmt::format("left out: {} ({})", plan.dropped_files[i], plan.dropped_reasons[i]),
                  utf8) +
        "\n";
  }
  return text;
}

std::string fresh_start(const std::filesystem::path& output, bool resume) {
  std::error_code error;
  const bool holds =
      std::filesystem::exists(output, error) && !std::filesystem::is_empty(output, error);
  if (!resume || holds || error) return "";
  return fmt::format("--resume finds no run to go on with in '{}': this one begins anew",
                     output.string());
}

void print_notices(const ConversionPlan& plan, Console& console) {
  for (const std::string& notice : plan.notices) console.note("note: " + notice);
}

// Free space is that of the moment: what a started run has written already is no longer free.
std::string disk_sentence(const ConversionPlan& plan) {
  return fmt::format("{} will be written, {} are free: {}", format_bytes(bytes(plan.disk_needed)),
                     format_bytes(bytes(plan.disk_free)),
                     fits_on_disk(plan) ? "enough" : "NOT ENOUGH");
}

std::string copied_text(const ConversionPlan& plan, bool utf8) {
  std::string text;
  for (const std::string& file : plan.copied_files) {
    text += printable("copied unchanged: " + file, utf8) + "\n";
  }
  return text;
}

void add_plan(const ConversionPlan& plan, Json& document) {
  document["bytes_before"] = plan.bytes_before;
  document["bytes_after"] = plan.bytes_after;
  document["disk_needed"] = plan.disk_needed;
  document["disk_free"] = plan.disk_free;
  document["fits_on_disk"] = fits_on_disk(plan);
  document["copied_files"] = plan.copied_files;
  document["dropped_files"] = plan.dropped_files;
  document["left_out"] = left_out_json(plan);
  document["notices"] = plan.notices;
  Json& tensors = document["tensors"] = Json::array();
  for (const TensorPlan& tensor : plan.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype},
                       {"shape", tensor.shape},
                       {"treatment", name_of(tensor.treatment)},
                       {"reason", tensor.reason},
                       {"format", tensor.format.empty() ? Json() : Json(tensor.format)},
                       {"group", tensor.group.empty() ? Json(nullptr) : Json(tensor.group)},
                       {"file", tensor.file},
                       {"input_amax", tensor.input_amax ? Json(*tensor.input_amax) : Json()},
                       {"bytes_before", tensor.bytes_before},
                       {"bytes_after", tensor.bytes_after}});
  }
}

Table plan_table(const ConversionPlan& plan, bool keeps_codes) {
  Table table({{"tensor", Align::left, true},
               {"type", Align::left},
               {"shape", Align::left},
               {"treatment", Align::left},
               {"why", Align::left, true},
               {"before", Align::right},
               {"after", Align::right}});
  std::size_t quantized = 0;
  for (const TensorPlan& tensor : plan.tensors) {
    if (tensor.treatment == Treatment::quantize || tensor.treatment == Treatment::split) {
      ++quantized;
    }
    const std::string treatment =
        tensor.format.empty() ? name_of(tensor.treatment)
        : keeps_codes         ? fmt::format("keep as {}", tensor.format)
                              : fmt::format("{} to {}", name_of(tensor.treatment), tensor.format);
    table.add_row({tensor.name, tensor.dtype, format_shape(tensor.shape), treatment, tensor.reason,
                   format_bytes(bytes(tensor.bytes_before)),
                   format_bytes(bytes(tensor.bytes_after))});
  }
  table.add_rule();
  table.add_row({fmt::format("{} of {} tensors {}", quantized, plan.tensors.size(),
                             keeps_codes ? "keep their codes" : "quantized"),
                 "", "", "", "", format_bytes(bytes(plan.bytes_before)),
                 format_bytes(bytes(plan.bytes_after))});
  return table;
}

}  // namespace microscale
