// What quantize prints of a budget.
#pragma once

#include <string>

#include "report/choice_report.hpp"
#include "report/table.hpp"

namespace microscale {

/// All layers, what each format would cost them, and which they get.
Table choice_table(const ChoiceReport& choice);

/// How many layers got which format, the size and the error, beside those of one format for all.
std::string choice_text(const ChoiceReport& choice, const TextStyle& style);

}  // namespace microscale
