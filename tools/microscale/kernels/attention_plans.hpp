// Which plan a choice of calls of attention gets on a GPU: what `microscale bench attention --plan`
// prints, docs/attention.md shows and tests/tools/attention_plans_test.cpp compares.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace microscale {

/// The plans of every described GPU (cuda/device/facts.hpp), which need not be here. Those of equal
/// facts have one table.
std::string attention_plans_text();
nlohmann::ordered_json attention_plans_json();

}  // namespace microscale
