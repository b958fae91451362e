#include "bench_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "console.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

using bench::Result;
using Json = nlohmann::ordered_json;

struct FilledColumn {
  Column column;
  std::function<std::string(const Result&)> cell;
};

std::string three_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string percent(double share) {
  return share > 0 ? fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0) : "";
}

std::string must_text(const Result& row) {
  return row.must_seconds > 0 ? time_text(row.must_seconds) : percent(row.must);
}

std::string limit_text(const Result& row) {
  if (row.share() == 0) return "";
  return percent(row.share()) + (row.limit.empty() ? "" : " " + row.limit);
}

// Titles of what rows have beside and extra, in order of appearance.
std::vector<std::string> titles_in(const std::vector<Result>& rows) {
  std::vector<std::string> titles;
  const auto add = [&](const std::string& title) {
    if (!title.empty() && std::find(titles.begin(), titles.end(), title) == titles.end())
      titles.push_back(title);
  };
  for (const Result& row : rows) {
    for (const bench::Beside& other : row.beside) add(other.title);
    for (const bench::Extra& extra : row.extras) add(extra.title);
  }
  return titles;
}

std::string cell_of(const Result& row, const std::string& title) {
  for (const bench::Beside& other : row.beside)
    if (other.title == title)
      return other.ratio ? fmt::format("{:.2f}", other.seconds / row.seconds)
                         : time_text(other.seconds);
  for (const bench::Extra& extra : row.extras)
    if (extra.title == title) return fmt::format("{:.{}f}", extra.value, extra.decimals);
  return "";
}

std::vector<FilledColumn> columns_of(const BenchTable& table) {
  std::vector<FilledColumn> all;
  const auto add = [&](std::string title, std::function<std::string(const Result&)> cell) {
    const bool filled = std::any_of(table.rows.begin(), table.rows.end(), [&](const Result& row) {
      return row.problem.empty() && !cell(row).empty();
    });
    if (filled) all.push_back({{std::move(title), Align::right}, std::move(cell)});
  };
  all.push_back({{"case", Align::left, true}, [](const Result& row) { return row.name; }});
  add("time", [](const Result& row) { return time_text(row.seconds); });
  if (table.floors)
    add("floor", [](const Result& row) { return time_text(row.limit_seconds); });
  else
    add("rate", rate_text);
  add("of limit", limit_text);
  add("must", must_text);
  add("stretch", [](const Result& row) { return percent(row.stretch); });
  for (const std::string& title : titles_in(table.rows))
    add(title, [title](const Result& row) { return cell_of(row, title); });
  return all;
}

std::string heading(const BenchTable& table, const TextStyle& style) {
  std::string text = table.device;
  if (text != table.backend) text += ", " + table.backend;
  if (table.threads > 0)
    text += fmt::format(", {} thread{}", table.threads, table.threads > 1 ? "s" : "");
  for (std::size_t i = 0; i < table.limits.size(); ++i)
    text += (i == 0 ? ": " : ", ") + table.limits[i].text;
  return paragraph(text, style.width);
}

}  // namespace

BenchTable cpu_table(const Context& context) {
  const bool automatic = context.backend == Backend::automatic;
  const Backend backend = automatic ? available_backends().front() : context.backend;
  return {.device = "cpu", .backend = std::string(to_string(backend))};
}

std::string time_text(double seconds) {
  if (!(seconds > 0)) return "";
  if (seconds < 1e-3) return three_digits(seconds * 1e6) + " us";
  return seconds < 1 ? three_digits(seconds * 1e3) + " ms" : three_digits(seconds) + " s";
}

std::string rate_text(const Result& row) {
  if (!(row.seconds > 0)) return "";
  const double rate = (row.arithmetic ? row.operations : row.bytes) / row.seconds;
  if (!(rate > 0)) return "";
  const char* unit = row.arithmetic ? "FLOP/s" : "B/s";
  if (rate >= 1e12) return fmt::format("{} T{}", three_digits(rate / 1e12), unit);
  return fmt::format("{} G{}", three_digits(rate / 1e9), unit);
}

std::string bench_text(const BenchTable& table, const TextStyle& style) {
  const std::vector<FilledColumn> columns = columns_of(table);
  std::vector<Column> titles;
  for (const FilledColumn& each : columns) titles.push_back(each.column);
  Table grid(titles);
  std::string problems;
  double worst = -1;
  for (const Result& row : table.rows) {
    worst = std::max(worst, row.error);
    if (!row.problem.empty()) {
      problems += paragraph(row.name + ": not measured: " + row.problem, style.width);
      continue;
    }
    std::vector<std::string> cells;
    for (const FilledColumn& each : columns) cells.push_back(each.cell(row));
    grid.add_row(cells);
    if (row.mean && &row != &table.rows.back()) grid.add_rule();
    if (row.wrong())
      problems +=
          paragraph(fmt::format("{}: WRONG: a sampled element is {} bounds from its FP64 sum",
                                row.name, three_digits(row.error)),
                    style.width);
  }
  std::string text = heading(table, style) + grid.text(style) + problems;
  if (worst >= 0 && worst <= 1)
    text += paragraph(fmt::format("Sampled elements agree with FP64 sums; the worst is off by {} "
                                  "of what rounding allows.",
                                  percent(worst)),
                      style.width);
  for (const std::string& note : table.notes) text += paragraph(note, style.width);
  return text;
}

Json bench_json(const BenchTable& table) {
  const auto or_null = [](double value) { return value > 0 ? Json(value) : Json(); };
  Json rows = Json::array();
  for (const Result& row : table.rows) {
    Json json{{"case", row.name}};
    if (row.threads > 0) json["threads"] = row.threads;
    const bool timed = row.seconds > 0;
    json["seconds"] = or_null(row.seconds);
    json["bytes"] = or_null(row.bytes);
    json["operations"] = or_null(row.operations);
    json["bytes_per_second"] = or_null(timed ? row.bytes / row.seconds : 0);
    json["operations_per_second"] = or_null(timed ? row.operations / row.seconds : 0);
    json["limit"] = row.limit.empty() ? Json() : Json(row.limit);
    json["limit_seconds"] = or_null(row.limit_seconds);
    json["share"] = or_null(row.share());
    json["must"] = or_null(row.must);
    json["stretch"] = or_null(row.stretch);
    json["must_seconds"] = or_null(row.must_seconds);
    json["error_of_bound"] = row.error >= 0 ? Json(row.error) : Json();
    for (const bench::Beside& other : row.beside)
      json["beside"].push_back({{"what", other.title}, {"seconds", other.seconds}});
    for (const bench::Extra& extra : row.extras) json[extra.key] = extra.value;
    if (row.mean) json["geometric_mean"] = true;
    if (!row.problem.empty()) json["problem"] = row.problem;
    rows.push_back(json);
  }
  Json limits = Json::object();
  for (const BenchLimit& limit : table.limits) limits[limit.key] = limit.value;
  Json json{{"device", table.device}, {"backend", table.backend}};
  if (table.threads > 0) json["threads"] = table.threads;
  json["limits"] = limits;
  json["cases"] = rows;
  return json;
}

}  // namespace microscale
