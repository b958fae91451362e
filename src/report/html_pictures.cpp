// The pictures of the HTML report: from its figures to the data of svg.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "report/html_parts.hpp"
#include "report/svg.hpp"
#include "report/tensor_kind.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int no_layer = std::numeric_limits<int>::max();  // sorts behind all layers

/// Tensors that share a cell of the map: those of all experts of a layer, say.
struct Cell {
  ErrorSums error;
  int tensors = 0;
};

struct RowKey {
  int order;
  std::string name;
  auto operator<=>(const RowKey&) const = default;
};

std::string plural(int count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string scroll(const std::string& picture) {
  return "<div class=\"scroll\">" + picture + "</div>";
}

std::map<RowKey, std::map<int, Cell>> cells_of(const ModelReport& report) {
  std::vector<std::pair<TensorPlace, const TensorReport*>> measured;
  std::set<std::string> stacks;
  for (const TensorReport& tensor : report.tensors) {
    if (!tensor.measured()) continue;
    measured.emplace_back(tensor_kind(tensor.name), &tensor);
    if (measured.back().first.layer >= 0) stacks.insert(measured.back().first.stack);
  }
  std::map<RowKey, std::map<int, Cell>> rows;
  for (const auto& [kind, tensor] : measured) {
    // The stack is named only where there are several.
    const bool named = stacks.size() > 1 && !kind.stack.empty();
    const int stack_order =
        1000 * static_cast<int>(std::distance(stacks.begin(), stacks.find(kind.stack)));
    const bool other = kind.kind == "other";
    RowKey key{other ? std::numeric_limits<int>::max() : stack_order + kind_order(kind.kind),
               named && !other ? kind.stack + " " + kind.kind : kind.kind};
    Cell& cell = rows[key][kind.layer < 0 ? no_layer : kind.layer];
    cell.error.merge(tensor->error);
    ++cell.tensors;
  }
  return rows;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

/// A code's value on an axis; `powers`: where all are powers of two they are written as such.
std::string value_label(double value, bool powers) {
  if (powers) return fmt::format("2^{}", std::ilogb(value));
  return std::signbit(value) && value == 0 ? "-0" : format_number(value);
}

std::string histogram(const CodeHistogram& counts, const std::vector<double>& values,
                      bool whole_range, Scale scale, const char* what) {
  double total = 0;
  for (const std::uint64_t count : counts) total += static_cast<double>(count);
  if (total == 0) return {};

  struct Code {
    int code;
    double value;
  };
  std::vector<Code> codes;
  const std::size_t known = values.empty() ? counts.size() : std::min(values.size(), counts.size());
  for (std::size_t code = 0; code < counts.size(); ++code) {
    const double value = code < values.size() ? values[code] : nan;
    const bool shown = code < known && (values.empty() || std::isfinite(value));
    if (shown || counts[code] > 0) codes.push_back({static_cast<int>(code), value});
  }
  if (!values.empty()) {
    std::sort(codes.begin(), codes.end(), [](const Code& a, const Code& b) {
      if (std::isnan(a.value) != std::isnan(b.value)) return std::isnan(b.value);  // NaN comes last
      if (!std::isnan(a.value) && a.value != b.value) return a.value < b.value;
      const bool a_negative = std::signbit(a.value), b_negative = std::signbit(b.value);
      return a_negative != b_negative ? a_negative : a.code < b.code;
    });
  }
  if (!whole_range) {  // only from the first code that occurs to the last
    const auto used = [&](const Code& c) { return counts[static_cast<std::size_t>(c.code)] > 0; };
    codes.erase(codes.begin(), std::find_if(codes.begin(), codes.end(), used));
    codes.erase(std::find_if(codes.rbegin(), codes.rend(), used).base(), codes.end());
  }

  const bool powers = std::all_of(codes.begin(), codes.end(), [](const Code& c) {
    return std::isnan(c.value) || is_power_of_two(c.value);
  });
  BarChart chart;
  chart.label = fmt::format("Histogram of {} codes", what);
  chart.x_title = fmt::format("{} of the {} code", values.empty() ? "number" : "value", what);
  chart.y_title =
      fmt::format("% of {}s{}", what, scale == Scale::logarithmic ? ", logarithmic" : "");
  chart.scale = scale;
  for (const Code& c : codes) {
    const std::uint64_t count = counts[static_cast<std::size_t>(c.code)];
    const double share = static_cast<double>(count) / total;
    const std::string label = std::isnan(c.value)
                                  ? (values.empty() ? fmt::format("{}", c.code) : "NaN")
                                  : value_label(c.value, powers);
    chart.bars.push_back(
        {label, share * 100,
         fmt::format("{} (code 0x{:02X}): {}, {} of {}", label, c.code, format_count(count),
                     format_percent(share), format_count(static_cast<std::uint64_t>(total)))});
  }
  return render(chart);
}

}  // namespace

std::string size_picture(const ModelReport& report) {
  std::uint64_t quantized_before = 0, quantized_after = 0, scales = 0;
  std::uint64_t copied_before = 0, copied_after = 0;
  for (const TensorReport& tensor : report.tensors) {
    const bool quantized = tensor.blocks > 0;
    (quantized ? quantized_before : copied_before) += tensor.bytes_before;
    (quantized ? quantized_after : copied_after) += tensor.bytes_after;
    scales += static_cast<std::uint64_t>(std::max<std::int64_t>(tensor.blocks, 0));  // a byte each
  }
  if (quantized_before + copied_before == 0) return {};
  scales = std::min(scales, quantized_after);
  const auto part = [](const char* label, std::uint64_t before, std::uint64_t after) {
    return SizePart{label, static_cast<double>(before), static_cast<double>(after),
                    format_bytes(before), format_bytes(after)};
  };
  SizeBars bars;
  bars.label = "Size of the tensors before and after";
  if (quantized_before > 0) {
    bars.parts.push_back(part("weights", quantized_before, quantized_after - scales));
    bars.parts.push_back(part("scales", 0, scales));
  }
  if (copied_before + copied_after > 0) {
    bars.parts.push_back(part("left as they are", copied_before, copied_after));
  }
  bars.before_text = format_bytes(quantized_before + copied_before);
  bars.after_text = format_bytes(quantized_after + copied_after);
  return "<div class=\"pair\"><div>" + render(bars) + "</div><div>" + treatment_table(report) +
         "</div></div>";
}

std::string error_map(const ModelReport& report) {
  const auto rows = cells_of(report);
  if (rows.empty()) return {};
  std::set<int> layers;
  double low = HUGE_VAL, high = 0;
  bool zero = false;
  for (const auto& [key, cells] : rows) {
    for (const auto& [layer, cell] : cells) {
      layers.insert(layer);
      const double value = cell.error.relative_mse();
      zero = zero || value == 0;
      if (!std::isfinite(value) || value == 0) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  HeatMap map;
  map.label = "Relative mean squared error by layer and kind of tensor";
  map.column_title = "layer";
  for (const int layer : layers)
    map.columns.push_back(layer == no_layer ? "none" : std::to_string(layer));
  for (const auto& [key, cells] : rows) {
    map.rows.push_back(key.name);
    for (const int layer : layers) {
      const auto found = cells.find(layer);
      if (found == cells.end()) {
        map.values.push_back(nan);
        map.texts.emplace_back();
        map.tooltips.emplace_back();
        continue;
      }
      const ErrorSums& error = found->second.error;
      map.values.push_back(error.relative_mse());
      map.texts.push_back(format_number(error.relative_mse() * 100));
      map.tooltips.push_back(
          fmt::format("{}{}: {} relative MSE, {}, {}", key.name,
                      layer == no_layer ? ", no layer" : fmt::format(", layer {}", layer),
                      format_percent(error.relative_mse(), 3), format_decibel(error.sqnr_db()),
                      plural(found->second.tensors, "tensor")));
    }
  }
  if (high == 0) low = 0;  // nothing but exact tensors
  map.scale = low > 0 && (zero || high / low > 8) ? Scale::logarithmic : Scale::linear;
  map.legend_title = "relative MSE";
  map.legend_low = format_number(low * 100) + " %";
  map.legend_high = format_number(high * 100) + " %";
  return scroll(render(map));
}

std::string histograms(const ModelReport& report) {
  const std::string elements =
      histogram(total_element_codes(report), report.element_values, true, Scale::linear, "element");
  const std::string scales =
      histogram(total_scale_codes(report), report.scale_values, false, Scale::logarithmic, "scale");
  if (elements.empty() && scales.empty()) return {};
  return "<div class=\"pair\"><div>" + elements + "</div><div>" + scales + "</div></div>";
}

}  // namespace microscale
