#include "report/model_report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace microscale {
namespace {

TensorReport tensor(std::string name, double squared_error, std::uint64_t elements = 32) {
  TensorReport report;
  report.name = std::move(name);
  report.shape = {2, 16};
  report.treatment = "nvfp4";
  report.bytes_before = 64;
  report.bytes_after = 18;
  report.blocks = 2;
  report.global_scale = 0.25f;
  report.error.squared_error = squared_error;
  report.error.squared_original = 100;
  report.error.squared_restored = 100;
  report.error.dot = 100 - squared_error / 2;
  report.error.elements = elements;
  report.scale_codes[126] = 2;
  report.element_codes[0] = 30;
  report.element_codes[15] = 2;
  return report;
}

ModelReport model() {
  ModelReport report;
  report.title = "tiny";
  report.format = "nvfp4";
  report.bytes_before = 200;
  report.bytes_after = 100;
  report.tensors = {tensor("model.layers.0.mlp.up_proj.weight", 1), tensor("b", 3), tensor("c", 0),
                    tensor("d", 3)};
  report.tensors[2].error.squared_original = 0;
  TensorReport copied;
  copied.name = "norm";
  copied.treatment = "copied";
  copied.reason = "rank 1";
  report.tensors.push_back(copied);
  return report;
}

TEST(ModelReport, totals_run_over_all_tensors) {
  const ModelReport report = model();
  EXPECT_EQ(total_error(report).elements, 128u);
  EXPECT_EQ(total_error(report).squared_error, 7);
  EXPECT_EQ(total_scale_codes(report)[126], 8u);
  EXPECT_EQ(total_element_codes(report)[15], 8u);
}

TEST(ModelReport, worst_tensors_come_first_and_ties_keep_their_order) {
  ModelReport report = model();
  auto worst = worst_tensors(report, 3);
  ASSERT_EQ(worst.size(), 3u);
  EXPECT_EQ(worst[0]->name, "b");
  EXPECT_EQ(worst[1]->name, "d");
  EXPECT_EQ(worst[2]->name, "model.layers.0.mlp.up_proj.weight");
  report.tensors[2].error.squared_error = NAN;
  EXPECT_EQ(worst_tensors(report, 9).front()->name, "c");
  EXPECT_EQ(worst_tensors(report, 9).size(), 4u);  // the copied one has no error
}

TEST(ModelReport, worst_blocks_are_ranked_across_tensors) {
  ModelReport report = model();
  report.tensors[0].worst_blocks = {{.row = 1, .squared_error = 5}, {.row = 2, .squared_error = 1}};
  report.tensors[3].worst_blocks = {{.row = 3, .squared_error = 3}};
  const auto worst = worst_blocks(report, 2);
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_EQ(worst[0].block->row, 1);
  EXPECT_EQ(worst[1].block->row, 3);
  EXPECT_EQ(worst[1].tensor->name, "d");
}

TEST(ModelReport, json_reads_back) {
  ModelReport report = model();
  report.tensors[0].worst_blocks = {
      {.row = 1, .block = 4, .original = {0.1f, -0.0f}, .restored = {0, 0}}};
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(json["title"], "tiny");
  EXPECT_EQ(json["bytes_after"], 100);
  EXPECT_EQ(json["total"]["relative_mse"].get<double>(), 7.0 / 300);
  const auto& first = json["tensors"][0];
  EXPECT_EQ(first["layer"], 0);
  EXPECT_EQ(first["kind"], "up_proj");
  EXPECT_EQ(first["sqnr_db"].get<double>(), 20);
  EXPECT_EQ(first["global_scale"], 0.25);
  EXPECT_EQ(first["element_codes"], nlohmann::json::parse("[[0,30],[15,2]]"));
  EXPECT_EQ(first["worst_blocks"][0]["block"], 4);
  EXPECT_EQ(first["worst_blocks"][0]["original"][0].get<float>(), 0.1f);
  // No error at all: 0, and an SQNR that JSON has no number for.
  EXPECT_EQ(json["tensors"][2]["relative_mse"], 0);
  EXPECT_TRUE(json["tensors"][2]["sqnr_db"].is_null());
  EXPECT_TRUE(json["tensors"][1]["layer"].is_null());
  EXPECT_EQ(json["tensors"][4]["reason"], "rank 1");
  EXPECT_FALSE(json["tensors"][4].contains("relative_mse"));
}

TEST(ModelReport, json_is_the_same_bytes_and_ascii_whatever_the_names) {
  ModelReport report = model();
  report.tensors[0].name = "caf\u00e9 \xff <script>\"\\";
  const std::string json = to_json(report);
  EXPECT_EQ(json, to_json(report));
  for (const char c : json) ASSERT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7F));
  EXPECT_EQ(nlohmann::json::parse(json)["tensors"][0]["name"], "caf\u00e9 \ufffd <script>\"\\");
}

TEST(ModelReport, json_of_figures_leaves_out_the_long_parts) {
  const auto json = nlohmann::json::parse(to_json(model(), JsonDetail::figures, -1));
  EXPECT_FALSE(json["tensors"][0].contains("scale_codes"));
  EXPECT_TRUE(json["total"].contains("scale_codes"));
  EXPECT_EQ(to_json(model(), JsonDetail::figures, -1).find('\n'), std::string::npos);
}

TEST(ModelReport, empty_report_is_valid_json) {
  ModelReport some;
  some.left_out = {{"original", "the same model"}};
  EXPECT_EQ(nlohmann::json::parse(to_json(some))["left_out"][0]["file"], "original");
  const auto json = nlohmann::json::parse(to_json(ModelReport{}));
  EXPECT_EQ(json["total"]["elements"], 0);
  EXPECT_TRUE(json["tensors"].empty());
}

}  // namespace
}  // namespace microscale
