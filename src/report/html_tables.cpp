// The tables of the HTML report.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/html_parts.hpp"
#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr std::size_t worst_tensors_shown = 10;
constexpr std::size_t worst_blocks_shown = 6;
constexpr std::size_t most_rows = 4000;

// Only where statistics of inputs were given.
bool has_outputs(const ModelReport& report) { return output_errors(report).layers > 0; }

void output_columns(HtmlTable& table) {
  table.column("output error", true,
               "of the layer's output as a share of it, under the mean squares of its inputs");
  table.column("by weights", true, "the same, had scales been searched by the weights alone");
}

void output_cells(HtmlTable& table, const TensorReport& tensor) {
  const double none = std::nan("");
  const double output = tensor.has_output() ? tensor.output.share() : none;
  const double unweighted = tensor.has_output() ? tensor.output_unweighted.share() : none;
  table.number(tensor.has_output() ? format_percent(output, 3) : "-", output);
  table.number(tensor.has_output() ? format_percent(unweighted, 3) : "-", unweighted);
}

void error_columns(HtmlTable& table) {
  table.column("rel. MSE", true, "squared error over squared original");
  table.column("SQNR", true, "signal to quantization noise ratio");
  table.column("cosine", true, "of the angle between original and restored");
  table.column("max error", true, "largest difference of one element");
  table.column("clipped", true, "elements beyond what the block's largest code stands for");
  table.column("to zero", true, "elements that are not zero but restored as zero");
}

void error_cells(HtmlTable& table, const ErrorSums& error) {
  table.number(format_percent(error.relative_mse(), 3), error.relative_mse());
  table.number(format_decibel(error.sqnr_db()), error.sqnr_db());
  table.number(fmt::format("{:.5f}", error.cosine()), error.cosine());
  table.number(format_number(error.max_error), error.max_error);
  table.number(format_percent(error.clipped_share()), error.clipped_share());
  table.number(format_percent(error.flushed_share()), error.flushed_share());
}

double elements_of(const TensorReport& tensor) {
  double elements = 1;
  for (const std::int64_t n : tensor.shape) elements *= static_cast<double>(n);
  return elements;
}

constexpr std::size_t values_in_line = 8;
constexpr std::size_t names_of_reason = 3;

// Values [begin, end) of one line of a block.
std::string value_row(const char* title, const std::vector<float>& values, std::size_t begin,
                      std::size_t end, std::size_t marked) {
  std::string row = fmt::format("<tr><th scope=\"row\">{}</th>", title);
  for (std::size_t i = begin; i < end; ++i) {
    row += fmt::format("<td class=\"n{}\">{}</td>", i == marked ? " worst" : "",
                       format_number(static_cast<double>(values[i])));
  }
  return row + "</tr>\n";
}

std::string block_table(const WorstBlockOf& worst) {
  const WorstBlock& block = *worst.block;
  const std::size_t count = std::min(block.original.size(), block.restored.size());
  std::vector<float> error(count);
  std::size_t marked = 0;
  for (std::size_t i = 0; i < count; ++i) {
    error[i] = block.restored[i] - block.original[i];
    if (std::fabs(error[i]) > std::fabs(error[marked])) marked = i;
  }
  std::string out = fmt::format(
      "<div class=\"block\"><p><code>{}</code> row {}, block {}: squared error {}, scale code "
      "0x{:02X}</p>\n<div class=\"lines\">\n",
      escape_markup(worst.tensor->name), block.row, block.block, format_number(block.squared_error),
      block.scale_code);
  // Several short tables, which stand side by side where there is room.
  for (std::size_t begin = 0; begin < count; begin += values_in_line) {
    const std::size_t end = std::min(begin + values_in_line, count);
    out += "<div class=\"scroll\"><table><tbody>\n" +
           value_row("original", block.original, begin, end, count) +
           value_row("restored", block.restored, begin, end, count) +
           value_row("error", error, begin, end, marked) + "</tbody></table></div>\n";
  }
  return out + "</div></div>\n";
}

}  // namespace

std::string treatment_table(const ModelReport& report) {
  struct Group {
    std::uint64_t tensors = 0, before = 0, after = 0;
  };
  std::map<std::string, Group> groups;
  for (const TensorReport& tensor : report.tensors) {
    Group& group = groups[tensor.treatment];
    ++group.tensors;
    group.before += tensor.bytes_before;
    group.after += tensor.bytes_after;
  }
  if (groups.empty()) return {};
  HtmlTable table("Tensors by treatment", HtmlTable::Use::read);
  table.column("treatment", false);
  for (const char* title : {"tensors", "before", "after", "ratio"}) table.column(title, true);
  for (const auto& [treatment, group] : groups) {
    table.begin_row();
    table.text(treatment);
    table.number(format_count(group.tensors), static_cast<double>(group.tensors));
    table.number(format_bytes(group.before), static_cast<double>(group.before));
    table.number(format_bytes(group.after), static_cast<double>(group.after));
    table.number(format_ratio(group.before, group.after), 0);
  }
  return table.done();
}

std::string worst_tensor_table(const ModelReport& report) {
  const auto worst = worst_tensors(report, worst_tensors_shown);
  if (worst.empty()) return {};
  HtmlTable table("Worst tensors", HtmlTable::Use::read);
  table.column("tensor", false);
  error_columns(table);
  const bool outputs = has_outputs(report);
  if (outputs) output_columns(table);
  table.column("shape", true);
  for (const TensorReport* tensor : worst) {
    table.begin_row();
    table.text(tensor->name, true);
    error_cells(table, tensor->error);
    if (outputs) output_cells(table, *tensor);
    table.number(format_shape(tensor->shape), elements_of(*tensor));
  }
  return table.done();
}

std::string worst_block_tables(const ModelReport& report) {
  std::string out;
  for (const WorstBlockOf& worst : worst_blocks(report, worst_blocks_shown))
    out += block_table(worst);
  return out;
}

std::string tensor_table(const ModelReport& report) {
  std::vector<const TensorReport*> shown;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.measured()) shown.push_back(&tensor);
  }
  if (shown.empty()) return {};
  std::string note;
  if (shown.size() > most_rows) {
    note = fmt::format(
        "<p class=\"note\">The {} worst of {} tensors; the JSON report has them all.</p>\n",
        most_rows, shown.size());
    shown = worst_tensors(report, most_rows);
  }
  HtmlTable table("All measured tensors", HtmlTable::Use::sort);
  table.column("tensor", false);
  error_columns(table);
  const bool outputs = has_outputs(report);
  if (outputs) output_columns(table);
  table.column("format", false);
  table.column("before", true);
  table.column("after", true);
  table.column("shape", true);
  for (const TensorReport* tensor : shown) {
    table.begin_row();
    table.text(tensor->name, true);
    error_cells(table, tensor->error);
    if (outputs) output_cells(table, *tensor);
    table.text(tensor->treatment);
    table.number(format_bytes(tensor->bytes_before), static_cast<double>(tensor->bytes_before));
    table.number(format_bytes(tensor->bytes_after), static_cast<double>(tensor->bytes_after));
    table.number(format_shape(tensor->shape), elements_of(*tensor));
  }
  return note + table.done();
}

std::string untouched_table(const ModelReport& report) {
  HtmlTable table("Tensors left as they are", HtmlTable::Use::sort);
  table.column("tensor", false);
  table.column("reason", false);
  table.column("size", true);
  table.column("shape", true);
  std::size_t rows = 0;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.measured() || ++rows > most_rows) continue;
    table.begin_row();
    table.text(tensor.name, true);
    table.words(tensor.reason);
    table.number(format_bytes(tensor.bytes_after), static_cast<double>(tensor.bytes_after));
    table.number(format_shape(tensor.shape), elements_of(tensor));
  }
  if (rows == 0) return {};
  const std::string note =
      rows <= most_rows
          ? ""
          : fmt::format("<p class=\"note\">The first {} of {}; the JSON report has them all.</p>\n",
                        most_rows, rows);
  return note + table.done();
}

std::string reason_table(const ModelReport& report) {
  struct Group {
    std::vector<const TensorReport*> tensors;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Group> groups;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.measured() || tensor.reason.empty()) continue;
    Group& group = groups[tensor.reason];
    group.tensors.push_back(&tensor);
    group.bytes += tensor.bytes_after;
  }
  if (groups.empty()) return {};
  HtmlTable table("Tensors kept, by reason", HtmlTable::Use::read);
  table.column("reason", false);
  table.column("tensors", true);
  table.column("size", true);
  table.column("of these", false);
  for (const auto& [reason, group] : groups) {
    table.begin_row();
    table.words(reason);
    table.number(format_count(group.tensors.size()), static_cast<double>(group.tensors.size()));
    table.number(format_bytes(group.bytes), static_cast<double>(group.bytes));
    std::string names;
    for (std::size_t i = 0; i < std::min(group.tensors.size(), names_of_reason); ++i) {
      names += (i ? ", " : "") + group.tensors[i]->name;
    }
    if (group.tensors.size() > names_of_reason) {
      names += fmt::format(" and {} more", group.tensors.size() - names_of_reason);
    }
    table.text(names, true);
  }
  return table.done();
}

std::string left_out_table(const ModelReport& report) {
  if (report.left_out.empty()) return {};
  HtmlTable table("Files left out", HtmlTable::Use::read);
  table.column("file", false);
  table.column("reason", false);
  for (const LeftOutReport& file : report.left_out) {
    table.begin_row();
    table.text(file.name, true);
    table.words(file.reason);
  }
  return table.done();
}

}  // namespace microscale
