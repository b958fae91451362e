// inspect: what is in a checkpoint, tensor by tensor, or one tensor in detail.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "checkpoint/inspect_model.hpp"
#include "checkpoint/json.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "report/table.hpp"
#include "inspect_engines.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

// Columns of the longest bar of a histogram, and of what stands before it.
constexpr int widest_bar = 40, narrowest_bar = 8, before_bar = 29;

// An element, which may be NaN, where format_number has no figure to show.
std::string element_text(float value, int digits = 4) {
  return std::isnan(value) ? "NaN" : format_number(value, digits);
}

std::string global_scale_text(const TensorSummary& tensor) {
  return tensor.global_scale ? format_number(*tensor.global_scale, 6) : "";
}

double bits_per_element(std::uint64_t bytes, std::int64_t elements) {
  return elements > 0 ? 8.0 * static_cast<double>(bytes) / static_cast<double>(elements) : 0;
}

Json to_json(const TensorSummary& tensor) {
  Json json;
  json["name"] = tensor.name;
  json["format"] = tensor.format;
  json["quantized"] = tensor.quantized;
  json["shape"] = tensor.shape;
  json["elements"] = tensor.elements;
  json["bytes"] = tensor.bytes;
  json["global_scale"] = tensor.global_scale ? Json(*tensor.global_scale) : Json(nullptr);
  json["file"] = tensor.file;
  return json;
}

Json to_json(const ModelSummary& summary) {
  Json document;
  document["files"] = summary.files;
  document["bytes"] = summary.bytes;
  document["elements"] = summary.elements;
  document["quantized_bytes"] = summary.quantized_bytes;
  document["quantized_elements"] = summary.quantized_elements;
  document["notes"] = summary.notes;
  if (!summary.metadata.empty()) document["metadata"] = Json::object();
  for (const auto& [key, value] : summary.metadata) document["metadata"].push_back({key, value});
  document["tensors"] = Json::array();
  for (const TensorSummary& tensor : summary.tensors)
    document["tensors"].push_back(to_json(tensor));
  return document;
}

std::string metadata_text(const ModelSummary& summary, const Console& console) {
  if (summary.metadata.empty()) return "";
  Table table({{"metadata", Align::left}, {"value", Align::left, true}});
  for (const auto& [key, value] : summary.metadata) table.add_row({key, value});
  return table.text(console.out) + "\n";
}

void print_text(const ModelSummary& summary, Console& console) {
  for (const std::string& note : summary.notes) console.note("note: " + note);
  Table table({{"tensor", Align::left, true},
               {"format", Align::left},
               {"shape", Align::left},
               {"size", Align::right},
               {"global scale", Align::right}});
  for (const TensorSummary& tensor : summary.tensors) {
    table.add_row({tensor.name, tensor.format, format_shape(tensor.shape),
                   format_bytes(tensor.bytes), global_scale_text(tensor)});
  }
  std::string text = metadata_text(summary, console) + table.text(console.out);
  text += fmt::format("{} tensors in {} {}: {}, {} elements, {:.2f} bits each\n",
                      summary.tensors.size(), summary.files, summary.files == 1 ? "file" : "files",
                      format_bytes(summary.bytes),
                      format_count(static_cast<std::uint64_t>(summary.elements)),
                      bits_per_element(summary.bytes, summary.elements));
  if (summary.quantized_elements > 0) {
    text += fmt::format("quantized: {}, {} elements, {:.2f} bits each\n",
                        format_bytes(summary.quantized_bytes),
                        format_count(static_cast<std::uint64_t>(summary.quantized_elements)),
                        bits_per_element(summary.quantized_bytes, summary.quantized_elements));
  }
  console.print(text);
}

// One code that occurs, as a line of a histogram.
struct Bar {
  std::uint8_t code;
  float value;
  std::uint64_t count;
};

template <class ValueOf>
std::vector<Bar> bars_of(const CodeHistogram& histogram, ValueOf value_of) {
  std::vector<Bar> bars;
  for (std::size_t code = 0; code < histogram.size(); ++code) {
    if (histogram[code] == 0) continue;
    bars.push_back({static_cast<std::uint8_t>(code), value_of(static_cast<std::uint8_t>(code)),
                    histogram[code]});
  }
  // By value, so that the shape of the distribution shows; -0 before +0, NaN last.
  std::sort(bars.begin(), bars.end(), [](const Bar& a, const Bar& b) {
    if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);
    if (!std::isnan(a.value) && a.value != b.value) return a.value < b.value;
    if (std::signbit(a.value) != std::signbit(b.value)) return std::signbit(a.value);
    return a.code < b.code;
  });
  return bars;
}

std::string histogram_text(const std::vector<Bar>& bars, const TextStyle& style) {
  const int room = style.width > 0 ? style.width - before_bar : widest_bar;
  const int bar_width = std::clamp(room, narrowest_bar, widest_bar);
  std::uint64_t total = 0, most = 1;
  for (const Bar& bar : bars) {
    total += bar.count;
    most = std::max(most, bar.count);
  }
  std::string text;
  for (const Bar& bar : bars) {
    const double share = static_cast<double>(bar.count) / static_cast<double>(most);
    const auto length = static_cast<std::size_t>(std::max(1.0, std::round(bar_width * share)));
    const std::string value = std::isnan(bar.value) ? "NaN" : fmt::format("{:.6g}", bar.value);
    text += fmt::format("  0x{:02X} {:>12} {:>8} {}\n", bar.code, value,
                        format_percent(static_cast<double>(bar.count) / static_cast<double>(total)),
                        std::string(length, '#'));
  }
  return text;
}

std::string block_text(const BlockDetail& block) {
  std::string codes, values;
  for (const std::uint8_t code : block.codes) codes += fmt::format(" {:X}", code);
  for (const float value : block.values) values += " " + element_text(value);
  return fmt::format("  scale 0x{:02X}, one step is {}\n  codes{}\n  values{}\n", block.scale_code,
                     element_text(block.scale, 6), codes, values);
}

void print_text(const TensorDetail& detail, Format format, Console& console) {
  const TensorSummary& tensor = detail.summary;
  std::string text = fmt::format("{}\n", console.bold(printable(tensor.name, console.out.utf8)));
  text += fmt::format("{}, {}, {} in {}\n", tensor.format, format_shape(tensor.shape),
                      format_bytes(tensor.bytes), printable(tensor.file, console.out.utf8));
  if (tensor.global_scale) {
    text += fmt::format("global scale {} (its reciprocal: {})\n",
                        format_number(*tensor.global_scale, 9),
                        format_number(1.0 / *tensor.global_scale, 9));
  }
  if (!detail.has_values) {
    console.print(text);
    return;
  }
  const auto share = [&](std::int64_t count) {
    return tensor.elements > 0 ? static_cast<double>(count) / static_cast<double>(tensor.elements)
                               : 0;
  };
  text += fmt::format("values from {} to {}, root mean square {}, {} zero, {} not finite\n",
                      format_number(detail.smallest, 6), format_number(detail.largest, 6),
                      format_number(std::sqrt(detail.mean_square), 6),
                      format_percent(share(detail.zeros)), detail.non_finite);
  if (detail.blocks == 0) {
    text += "first values:";
    for (const float value : detail.first_values) text += " " + element_text(value);
    console.print(text + "\n");
    return;
  }
  text += fmt::format("\n{} ({} blocks)\n", console.bold("Block scales"),
                      format_count(static_cast<std::uint64_t>(detail.blocks)));
  text += histogram_text(
      bars_of(detail.scale_codes, [&](std::uint8_t code) { return scale_value(format, code); }),
      console.out);
  text += fmt::format("\n{}\n", console.bold("Element codes"));
  text += histogram_text(
      bars_of(detail.element_codes, [&](std::uint8_t code) { return element_value(format, code); }),
      console.out);
  if (detail.first_block) {
    text += fmt::format("\n{}\n{}", console.bold("First block"), block_text(*detail.first_block));
  }
  console.print(text);
}

Json histogram_json(const CodeHistogram& histogram) {
  Json json = Json::array();
  for (std::size_t code = 0; code < histogram.size(); ++code) {
    if (histogram[code] > 0) json.push_back({code, histogram[code]});
  }
  return json;
}

Json to_json(const TensorDetail& detail) {
  Json json = to_json(detail.summary);
  if (!detail.has_values) return json;
  json["smallest"] = detail.smallest;
  json["largest"] = detail.largest;
  json["mean_square"] = detail.mean_square;
  json["zeros"] = detail.zeros;
  json["non_finite"] = detail.non_finite;
  json["first_values"] = detail.first_values;
  if (detail.blocks == 0) return json;
  json["blocks"] = detail.blocks;
  json["scale_codes"] = histogram_json(detail.scale_codes);
  json["element_codes"] = histogram_json(detail.element_codes);
  if (const auto& block = detail.first_block) {
    json["first_block"] = {{"scale_code", block->scale_code},
                           {"step", block->scale},
                           {"codes", block->codes},
                           {"values", block->values}};
  }
  return json;
}

// "; there are 'a.q_proj.weight' and ...": names that end like, or hold, what was asked for.
std::string suggestions(const QuantizedFolder& folder, const std::string& wanted) {
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : folder.tensors) {
    if (names.size() < 3 && tensor.name.find(wanted) != std::string::npos) {
      names.push_back(in_quotes(tensor.name));
    }
  }
  if (!names.empty()) return fmt::format("; there is {}", fmt::join(names, ", "));
  std::vector<std::string> all;
  for (const LogicalTensor& tensor : folder.tensors) all.push_back(tensor.name);
  // A module's name stands for its weight.
  for (const std::string& name : {wanted, wanted + ".weight"}) {
    if (std::string near = did_you_mean(name, all); !near.empty()) return near;
  }
  return "; leave it out to list all";
}

}  // namespace

int run(const InspectCommand& command, Console& console) {
  const QuantizedFolder folder = take(open_quantized_folder(command.path));
  if (command.engines) {
    if (!command.tensor.empty()) {
      throw Error(ErrorCode::invalid_argument,
                  "inspect: --engines is about the whole model; leave the tensor out");
    }
    return inspect_engines(folder, console);
  }
  if (command.tensor.empty()) {
    const ModelSummary summary = summarize_model(folder);
    if (console.json)
      console.print_json(to_json(summary));
    else
      print_text(summary, console);
    return exit_success;
  }
  const LogicalTensor* tensor = folder.find(command.tensor);
  if (!tensor) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("inspect: '{}' has no tensor {}{}", command.path.string(),
                            in_quotes(command.tensor), suggestions(folder, command.tensor)));
  }
  console.catch_interrupts();
  const TensorDetail detail = inspect_tensor(
      folder, *tensor, 0,
      [&](std::int64_t, std::int64_t, std::string_view) { return !console.interrupted(); });
  if (console.json)
    console.print_json(to_json(detail));
  else
    print_text(detail, tensor->blocks().value_or(BlockCoding{Format::mxfp4}).format, console);
  return exit_success;
}

}  // namespace microscale
