// sass: what assembled kernels are made of, and how many instructions an element they take.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "commands.hpp"
#include "console.hpp"
#include "kernel_commands.hpp"
#include "cuda/device/kernel_images.hpp"
#include "report/table.hpp"
#include "sass/counts.hpp"
#include "sass/disassemble.hpp"
#include "sass/quantizers.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

struct Row {
  std::string architecture, name, assembler;
  int registers, shared_bytes;
  sass::Counts counts;
  std::optional<sass::ThreadCost> cost;
};

void add_rows(const sass::Listing& listing, const std::string& assembler, const std::string& wanted,
              std::vector<Row>& rows) {
  for (const sass::Function& kernel : listing.functions)
    if (kernel.name.find(wanted) != std::string::npos)
      rows.push_back({listing.architecture, kernel.name, assembler, kernel.registers,
                      kernel.shared_bytes, sass::count(kernel),
                      sass::thread_cost(kernel, listing.architecture)});
}

/// Of a file, or of the kernels that this program carries for an architecture.
std::vector<Row> rows_of(const SassCommand& command) {
  std::vector<Row> rows;
  bool carried = false;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (image.architecture != command.file.string()) continue;
    carried = true;
    if (image.entries.find(command.kernel) == image.entries.npos) continue;
    const auto cubin = image.cubin.bytes();
    add_rows(sass::disassemble(cubin), sass::assembler_of(cubin), command.kernel, rows);
  }
  if (!carried && command.file.string().rfind("sm_", 0) == 0 &&
      !std::filesystem::exists(command.file))
    throw Error(ErrorCode::unsupported,
                fmt::format("this program carries no kernels for {}: give sm_90a, sm_100f or "
                            "sm_120f, which it carries where nvcc built it, or a .cubin file",
                            command.file.string()));
  if (!carried) add_rows(sass::listing_of_file(command.file), "", command.kernel, rows);
  if (rows.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("no kernel of {} has '{}' in its name",
                                                         command.file.string(), command.kernel));
  return rows;
}

Json to_json(const Row& row) {
  Json json;
  json["name"] = row.name;
  json["architecture"] = row.architecture;
  json["assembler"] = row.assembler.empty() ? Json() : Json(row.assembler);
  json["instructions"] = row.counts.instructions;
  json["instructions_an_element"] = row.cost ? Json(row.cost->an_element) : Json();
  json["instructions_a_code"] = row.cost ? Json(row.cost->a_code) : Json();
  json["registers"] = row.registers >= 0 ? Json(row.registers) : Json();
  json["shared_bytes"] = row.shared_bytes;
  json["calls"] = row.counts.calls;
  json["local_loads"] = row.counts.local_loads;
  json["local_stores"] = row.counts.local_stores;
  json["byte_global"] = row.counts.byte_global;
  json["byte_shared"] = row.counts.byte_shared;
  json["compares"] = row.counts.compares;
  json["selects"] = row.counts.selects;
  json["min_max"] = row.counts.min_max;
  json["fp4_conversions"] = row.counts.fp4_conversions;
  json["fp8_conversions"] = row.counts.fp8_conversions;
  for (std::size_t c = 0; c < sass::class_names.size(); ++c)
    json["classes"][std::string(sass::class_names[c])] = row.counts.by_class[c];
  return json;
}

std::string table_of(const std::vector<Row>& rows, const TextStyle& style) {
  std::vector<Column> columns{{"kernel", Align::left, true}};
  for (const char* title :
       {"instr", "/element", "/code", "regs", "shared", "local", "calls", "bytes glob",
        "bytes shar", "compare", "select", "min/max", "to FP4", "to FP8"})
    columns.push_back({title, Align::right});
  for (const std::string_view name : sass::class_names)
    columns.push_back({std::string(name), Align::right});
  Table table(std::move(columns));
  for (const Row& row : rows) {
    const sass::Counts& c = row.counts;
    std::vector<std::string> cells{row.name, fmt::to_string(c.instructions),
                                   row.cost ? fmt::format("{:.2f}", row.cost->an_element) : "-",
                                   row.cost ? fmt::format("{:.2f}", row.cost->a_code) : "-",
                                   row.registers >= 0 ? fmt::to_string(row.registers) : "-"};
    for (const int value :
         {row.shared_bytes, c.local_loads + c.local_stores, c.calls, c.byte_global, c.byte_shared,
          c.compares, c.selects, c.min_max, c.fp4_conversions, c.fp8_conversions})
      cells.push_back(fmt::to_string(value));
    for (const int value : c.by_class) cells.push_back(fmt::to_string(value));
    table.add_row(std::move(cells));
  }
  return table.text(style);
}

}  // namespace

int run(const SassCommand& command, Console& console) {
  const std::vector<Row> rows = rows_of(command);
  if (console.json) {
    Json document;
    document["file"] = command.file.string();
    for (const Row& row : rows) document["kernels"].push_back(to_json(row));
    console.print_json(document);
    return exit_success;
  }
  console.print(table_of(rows, console.out));
  return exit_success;
}

}  // namespace microscale
