#include "inspect_engines.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/engine_support.hpp"
#include "checkpoint/verify_model.hpp"
#include "commands.hpp"
#include "report/table.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const CheckpointScheme& scheme) {
  Json document;
  document["scheme"] = in_words(scheme);
  for (const EngineAnswer& answer : engines_for(scheme)) {
    document["engines"].push_back({{"engine", answer.engine},
                                   {"processor", to_string(answer.hardware)},
                                   {"support", to_string(answer.support)},
                                   {"note", answer.note},
                                   {"source", answer.source}});
  }
  return document;
}

std::string text_of(const CheckpointScheme& scheme, Console& console) {
  std::vector<Column> columns{{"engine", Align::left}};
  for (const Hardware hardware : all_hardware)
    columns.push_back({std::string(to_string(hardware)), Align::left});
  Table table(std::move(columns));
  std::vector<std::string> row;
  std::set<std::string> notes;
  for (const EngineAnswer& answer : engines_for(scheme)) {
    if (row.empty()) row.emplace_back(answer.engine);
    row.emplace_back(to_string(answer.support));
    if (!answer.source.empty()) {
      notes.insert(fmt::format("{}, {}: {}({})", answer.engine, to_string(answer.support),
                               answer.note.empty() ? "" : fmt::format("{} ", answer.note),
                               answer.source));
    }
    if (row.size() <= all_hardware.size()) continue;
    table.add_row(std::move(row));
    row.clear();
  }
  std::string text = console.bold(in_words(scheme)) + "\n" + table.text(console.out);
  for (const std::string& note : notes) text += note + "\n";
  return text;
}

}  // namespace

int inspect_engines(const QuantizedFolder& folder, Console& console) {
  Findings findings;
  const auto description = read_description(folder, findings);
  const auto schemes = schemes_in(folder, description ? &description->config : nullptr);
  if (schemes.empty()) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("inspect: '{}' has no quantized weights that are decoded here; --engines is "
                    "about those",
                    folder.model.opened.string()));
  }
  if (console.json) {
    Json document = Json::array();
    for (const CheckpointScheme& scheme : schemes) document.push_back(to_json(scheme));
    console.print_json({{"schemes", document}});
    return exit_success;
  }
  std::string text;
  for (const CheckpointScheme& scheme : schemes) {
    text += (text.empty() ? "" : "\n") + text_of(scheme, console);
  }
  console.print(text);
  return exit_success;
}

}  // namespace microscale
