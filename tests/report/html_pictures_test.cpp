#include <gtest/gtest.h>

#include <string>

#include "report/html_parts.hpp"
#include "report/markup_check.hpp"

namespace microscale {
namespace {

TensorReport tensor(std::string name, double relative_mse) {
  TensorReport report;
  report.name = std::move(name);
  report.treatment = "mxfp4";
  report.error.elements = 32;
  report.error.squared_original = 1;
  report.error.squared_error = relative_mse;
  return report;
}

bool contains(const std::string& text, const char* piece) {
  return text.find(piece) != std::string::npos;
}

TEST(HtmlPictures, map_has_a_row_for_each_kind_in_working_order) {
  ModelReport report;
  report.tensors = {tensor("layers.0.mlp.down_proj.weight", 0.01), tensor("lm_head.weight", 0.02),
                    tensor("layers.1.self_attn.q_proj.weight", 0.01),
                    tensor("layers.1.odd.weight", 0.01)};
  const std::string map = error_map(report);
  EXPECT_EQ(testing::markup_error(map), "");
  EXPECT_LT(map.find(">q_proj<"), map.find(">down_proj<"));
  EXPECT_LT(map.find(">down_proj<"), map.find(">other<"));
  EXPECT_EQ(map.find(">other<"), map.rfind(">other<"));  // in a layer or not: one row
  EXPECT_TRUE(contains(map, "other, no layer: 2.000 %"));
  EXPECT_TRUE(contains(map, "other, layer 1: 1.000 %"));
}

TEST(HtmlPictures, map_names_stacks_only_where_there_are_several) {
  ModelReport report;
  report.tensors = {tensor("encoder.layers.0.fc1.weight", 0.01)};
  EXPECT_TRUE(contains(error_map(report), ">up_proj<"));
  report.tensors.push_back(tensor("decoder.layers.0.fc1.weight", 0.01));
  EXPECT_TRUE(contains(error_map(report), ">encoder up_proj<"));
  EXPECT_TRUE(contains(error_map(report), ">decoder up_proj<"));
}

TEST(HtmlPictures, map_of_nothing_measured_is_empty) {
  ModelReport report;
  report.tensors.resize(2);
  EXPECT_EQ(error_map(report), "");
  EXPECT_EQ(histograms(report), "");
  EXPECT_EQ(size_picture(report), "");
}

TEST(HtmlPictures, histogram_orders_codes_by_value_and_says_their_bits) {
  ModelReport report;
  set_code_values(report, Format::nvfp4);
  report.tensors = {tensor("a", 0.01)};
  report.tensors[0].element_codes[15] = 1;  // -6
  report.tensors[0].element_codes[7] = 3;   // 6
  report.tensors[0].scale_codes[0x7E] = 5;
  const std::string html = histograms(report);
  EXPECT_EQ(testing::markup_error(html), "");
  const std::size_t least = html.find("-6 (code 0x0F): 1, 25.00 % of 4");
  const std::size_t most = html.find(">6 (code 0x07): 3, 75.00 % of 4");
  ASSERT_NE(least, std::string::npos);
  ASSERT_NE(most, std::string::npos);
  EXPECT_LT(least, html.find(">-0 (code 0x08)"));
  EXPECT_LT(html.find(">-0 (code 0x08)"), html.find(">0 (code 0x00)"));
  EXPECT_LT(html.find(">0 (code 0x00)"), most);
  EXPECT_TRUE(contains(html, ">448 (code 0x7E): 5, 100.00 % of 5"));
  EXPECT_FALSE(contains(html, "(code 0x7D)"));  // scales: only the range in use
}

TEST(HtmlPictures, power_of_two_scales_are_written_as_powers) {
  ModelReport report;
  set_code_values(report, Format::mxfp4);
  report.tensors = {tensor("a", 0.01)};
  report.tensors[0].scale_codes[120] = report.tensors[0].scale_codes[122] = 1;
  const std::string html = histograms(report);
  EXPECT_TRUE(contains(html, ">2^-7 (code 0x78)"));
  EXPECT_TRUE(contains(html, ">2^-6 (code 0x79): 0"));
}

TEST(HtmlPictures, sizes_tell_weights_scales_and_the_rest_apart) {
  ModelReport report;
  report.tensors = {tensor("a", 0.01), tensor("b", 0)};
  report.tensors[0].bytes_before = 64'000;
  report.tensors[0].bytes_after = 17'000;
  report.tensors[0].blocks = 1'000;
  report.tensors[1].bytes_before = report.tensors[1].bytes_after = 500;
  const std::string html = size_picture(report);
  EXPECT_EQ(testing::markup_error(html), "");
  for (const char* text :
       {"weights 16.0 kB", "scales 1.0 kB", "left as they are 500 B", "64.5 kB", "17.5 kB"}) {
    EXPECT_TRUE(contains(html, text)) << text;
  }
}

}  // namespace
}  // namespace microscale
