// What the commands that write models say of a plan: as a table, as JSON, in sentences.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "microscale/checkpoint.hpp"
#include "report/table.hpp"

namespace microscale {

class Console;

bool fits_on_disk(const ConversionPlan& plan);

/// Files of the input that the output goes without: [{"file": ..., "reason": ...}].
nlohmann::ordered_json left_out_json(const ConversionPlan& plan);
/// The same as text, a line each.
std::string left_out_text(const ConversionPlan& plan, bool utf8);
/// Files that are copied as they are, a line each.
std::string copied_text(const ConversionPlan& plan, bool utf8);

/// What --resume finds where there is nothing to go on with; empty: there is, or nobody asked.
std::string fresh_start(const std::filesystem::path& output, bool resume);

void print_notices(const ConversionPlan& plan, Console& console);

/// What will be written and what is free.
std::string disk_sentence(const ConversionPlan& plan);

/// Adds sizes, files, notices and what becomes of each tensor.
void add_plan(const ConversionPlan& plan, nlohmann::ordered_json& document);

/// A row for each tensor, and the sums. `keeps_codes`: nothing is quantized.
Table plan_table(const ConversionPlan& plan, bool keeps_codes = false);

}  // namespace microscale
