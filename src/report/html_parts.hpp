// What the page of html.hpp is put together from; each function gives one finished piece of markup.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/model_report.hpp"

namespace microscale {

std::string_view page_style();   ///< CSS of everything but the pictures
std::string_view page_script();  ///< sorting and filtering; the page is complete without it

/// A table in a container that scrolls sideways by itself.
class HtmlTable {
 public:
  enum class Use { read, sort };
  HtmlTable(std::string_view caption, Use use);

  void column(std::string_view title, bool number, std::string_view tooltip = {});
  void begin_row();
  /// Text is escaped. `code` cells are set in a fixed-width font.
  void text(std::string_view text, bool code = false);
  /// A sentence, which may be broken between words. Escaped.
  void words(std::string_view text);
  /// `shown` with the number it is sorted by.
  void number(std::string_view shown, double key);
  std::string done();

 private:
  std::string head_, body_;
  bool row_open_ = false;
};

/// <section> with a heading, an explanation (may be empty) and its content; nothing if that is
/// empty.
std::string section(std::string_view id, std::string_view title, std::string_view explanation,
                    const std::string& content);

// Pictures; empty where the report has nothing to show.
std::string size_picture(const ModelReport& report);
std::string error_map(const ModelReport& report);
std::string histograms(const ModelReport& report);

/// Which layers got which format within a budget, and why: shares, the curve of error against bits,
/// and all of them.
std::string choice_body(const ModelReport& report);

// Tables; likewise.
std::string treatment_table(const ModelReport& report);
std::string worst_tensor_table(const ModelReport& report);
std::string worst_block_tables(const ModelReport& report);
std::string tensor_table(const ModelReport& report);
std::string untouched_table(const ModelReport& report);
/// The same tensors by reason: how many, how large, and some of their names.
std::string reason_table(const ModelReport& report);
std::string left_out_table(const ModelReport& report);

}  // namespace microscale
