// The HTML report: which sections a page has, in which order.
#include "report/html.hpp"

#include <fmt/format.h>

#include "report/html_parts.hpp"
#include "report/svg.hpp"
#include "report/units.hpp"

namespace microscale {
namespace {

std::string card(std::string_view figure, std::string_view what) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escape_markup(figure),
                     escape_markup(what));
}

std::string cards(const ModelReport& report) {
  std::size_t quantized = 0;
  double code_bits = 0, elements = 0;
  for (const TensorReport& tensor : report.tensors) {
    if (tensor.blocks <= 0) continue;
    ++quantized;
    code_bits += 8 * static_cast<double>(tensor.bytes_after);
    elements += static_cast<double>(tensor.error.elements);
  }
  const ErrorSums total = total_error(report);
  std::string out = "<div class=\"cards\">\n";
  if (report.bytes_before > 0) {
    out += card(format_change(report.bytes_before, report.bytes_after),
                fmt::format("{} to {}", format_bytes(report.bytes_before),
                            format_bytes(report.bytes_after)));
  }
  if (quantized > 0) {
    out += card(fmt::format("{} of {}", quantized, report.tensors.size()),
                elements > 0 ? fmt::format("tensors quantized, to {:.2f} bits an element",
                                           code_bits / elements)
                             : std::string("tensors quantized"));
  }
  if (total.elements > 0) {
    out += card(format_percent(total.relative_mse(), 3), "relative mean squared error");
    if (const OutputErrors outputs = output_errors(report); outputs.layers > 0) {
      out += card(format_percent(outputs.mean, 3),
                  fmt::format("error of layers' outputs, their mean; by the weights alone {}",
                              format_percent(outputs.unweighted_mean, 3)));
    }
    out += card(format_decibel(total.sqnr_db()), "signal to quantization noise");
    out += card(fmt::format("{:.5f}", total.cosine()), "cosine with the original");
    out += card(format_number(total.max_error), "largest error of one element");
    out += card(format_percent(total.clipped_share()), "of elements clipped");
    out += card(format_percent(total.flushed_share()), "of elements flushed to zero");
  }
  return out + "</div>\n";
}

/// JSON that no HTML or XML parser mistakes for markup.
std::string embedded_json(const ModelReport& report) {
  const std::string json = to_json(report, JsonDetail::figures, -1);
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string render_html(const ModelReport& report) {
  const std::string title = escape_markup(report.title);
  std::string subtitle = escape_markup(report.format);
  if (!report.options.empty()) {
    subtitle += (subtitle.empty() ? "" : " &#183; ") + escape_markup(report.options);
  }
  std::string out = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n";
  out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n";
  out += fmt::format("<title>{} {}</title>\n", title, escape_markup(report.format));
  out += fmt::format("<style>\n{}\n{}\n</style>\n</head>\n<body>\n<main>\n", svg_style(),
                     page_style());
  out += fmt::format("<header><h1>{}</h1><p class=\"sub\">{}</p></header>\n", title, subtitle);
  out += cards(report);
  out += section("size", "Size", "", size_picture(report));
  if (report.choice) {
    out +=
        section("choice", "Formats within the budget",
                report.choice->budget + ". " + choice_basis(*report.choice), choice_body(report));
  }
  out += section(
      "error-map", "Error by layer and kind",
      "Relative mean squared error in percent; darker, or brighter on a dark page, is worse. "
      "Experts of a layer share a cell.",
      error_map(report));
  out += section("codes", "Codes", "How often each element code and each block scale occurs.",
                 histograms(report));
  out += section("worst-tensors", "Worst tensors", "", worst_tensor_table(report));
  out +=
      section("worst-blocks", "Worst blocks",
              "By squared error; the worst element of each is marked.", worst_block_tables(report));
  out += section("tensors", "All quantized tensors", "", tensor_table(report));
  out += section("kept", "Kept as they are, by reason", "", reason_table(report));
  out += section("untouched", "Left as they are", "", untouched_table(report));
  out += section("left-out", "Files left out",
                 "Of the folder that was converted; everything else was copied or converted.",
                 left_out_table(report));
  if (!report.tool.empty()) out += fmt::format("<footer>{}</footer>\n", escape_markup(report.tool));
  out += "</main>\n";
  out += fmt::format("<script type=\"application/json\" id=\"report-data\">{}</script>\n",
                     embedded_json(report));
  out += fmt::format("<script>{}</script>\n</body>\n</html>\n", page_script());
  return out;
}

}  // namespace microscale
