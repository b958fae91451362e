#include <gtest/gtest.h>

#include <string>

#include "report/html_parts.hpp"
#include "report/markup_check.hpp"

namespace microscale {
namespace {

ModelReport model() {
  ModelReport report;
  for (int i = 0; i < 12; ++i) {
    TensorReport tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.treatment = "nvfp4";
    tensor.shape = {8, 16};
    tensor.bytes_before = 256;
    tensor.bytes_after = 72;
    tensor.error.elements = 128;
    tensor.error.squared_original = 1;
    tensor.error.squared_error = 0.01 * (i + 1);
    report.tensors.push_back(tensor);
  }
  TensorReport copied;
  copied.name = "norm";
  copied.treatment = "copied";
  copied.reason = "rank 1 <scale>";
  report.tensors.push_back(copied);
  return report;
}

std::size_t rows_of(const std::string& html) {
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = html.find("<tr><td", at)) != std::string::npos; ++at) ++rows;
  return rows;
}

TEST(HtmlTables, worst_ten_come_worst_first) {
  const std::string html = worst_tensor_table(model());
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_EQ(rows_of(html), 10u);
  EXPECT_LT(html.find(">t11<"), html.find(">t10<"));
  EXPECT_EQ(html.find(">t1<"), std::string::npos);
}

TEST(HtmlTables, every_tensor_is_in_one_of_the_two_lists) {
  const std::string measured = tensor_table(model()), untouched = untouched_table(model());
  EXPECT_EQ(testing::markup_error(measured), "");
  EXPECT_EQ(testing::markup_error(untouched), "");
  EXPECT_EQ(rows_of(measured), 12u);
  EXPECT_EQ(rows_of(untouched), 1u);
  EXPECT_NE(untouched.find("rank 1 &lt;scale&gt;"), std::string::npos);
}

TEST(HtmlTables, treatments_are_added_up) {
  const std::string html = treatment_table(model());
  EXPECT_EQ(rows_of(html), 2u);
  EXPECT_NE(html.find(">3.1 kB<"), std::string::npos);  // 12 * 256
  EXPECT_NE(html.find(">864 B<"), std::string::npos);
  EXPECT_NE(html.find(">3.6x<"), std::string::npos);
}

TEST(HtmlTables, worst_element_of_a_block_is_marked) {
  ModelReport report = model();
  report.tensors[2].worst_blocks = {{.row = 7,
                                     .block = 3,
                                     .scale_code = 0x6E,
                                     .squared_error = 0.05,
                                     .original = {1, 0.5, 2},
                                     .restored = {1, 0.25, 2.125}}};
  const std::string html = worst_block_tables(report);
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_NE(html.find("row 7, block 3: squared error 0.05, scale code 0x6E"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"n worst\">-0.25</td><td class=\"n\">0.125</td>"),
            std::string::npos);
}

TEST(HtmlTables, a_block_is_written_eight_values_a_line) {
  ModelReport report = model();
  report.tensors[0].worst_blocks = {
      {.original = std::vector<float>(20, 1.0f), .restored = std::vector<float>(20, 0.5f)}};
  const std::string html = worst_block_tables(report);
  EXPECT_EQ(testing::markup_error(html), "");
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = html.find(">original<", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3u);  // 8, 8 and 4
}

TEST(HtmlTables, kept_tensors_are_grouped_by_reason) {
  ModelReport report = model();
  for (const char* name : {"a", "b", "c", "d"}) {
    TensorReport& tensor = report.tensors.emplace_back();
    tensor.name = name;
    tensor.reason = "router";
    tensor.bytes_after = 1000;
  }
  const std::string html = reason_table(report);
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_EQ(rows_of(html), 2u);
  EXPECT_NE(
      html.find(
          "<td class=\"words\">router</td><td class=\"n\" data-v=\"4\">4</td>"
          "<td class=\"n\" data-v=\"4000\">4.0 kB</td><td class=\"code\">a, b, c and 1 more<"),
      std::string::npos)
      << html;
}

TEST(HtmlTables, files_left_out_have_their_reason) {
  ModelReport report;
  report.left_out = {{"original", "the same <model>"}};
  const std::string html = left_out_table(report);
  EXPECT_EQ(testing::markup_error(html), "");
  EXPECT_NE(html.find("<td class=\"words\">the same &lt;model&gt;</td>"), std::string::npos);
}

TEST(HtmlTables, of_nothing_are_empty) {
  const ModelReport none;
  EXPECT_EQ(worst_tensor_table(none) + worst_block_tables(none) + tensor_table(none) +
                untouched_table(none) + treatment_table(none) + reason_table(none) +
                left_out_table(none),
            "");
}

}  // namespace
}  // namespace microscale
