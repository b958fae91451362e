#include "report/html.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "report/markup_check.hpp"

namespace microscale {
namespace {

constexpr const char* hostile = "</script><script>alert(\"1\")</script>&\xff\x1b'";

TensorReport tensor(std::string name, double relative_mse) {
  TensorReport report;
  report.name = std::move(name);
  report.shape = {64, 32};
  report.treatment = "mxfp4";
  report.bytes_before = 4096;
  report.bytes_after = 1088;
  report.blocks = 64;
  report.error.elements = 2048;
  report.error.squared_original = 1;
  report.error.squared_restored = 1;
  report.error.squared_error = relative_mse;
  report.error.dot = 1 - relative_mse / 2;
  report.scale_codes[120] = 64;
  report.element_codes[3] = 2048;
  report.worst_blocks = {
      {.row = 1, .block = 0, .squared_error = 0.5, .original = {1, 2}, .restored = {1, 3}}};
  return report;
}

ModelReport model() {
  ModelReport report;
  report.title = "tiny model";
  report.format = "mxfp4";
  report.options = "scale rule search";
  report.tool = "microscale";
  report.bytes_before = 20000;
  report.bytes_after = 8000;
  set_code_values(report, Format::mxfp4);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer);
    report.tensors.push_back(tensor(prefix + ".self_attn.q_proj.weight", 0.01 + 0.001 * layer));
    report.tensors.push_back(tensor(prefix + ".mlp.experts.0.up_proj.weight", 0.01));
    report.tensors.push_back(tensor(prefix + ".mlp.experts.1.up_proj.weight", 0.03));
  }
  TensorReport copied;
  copied.name = "model.norm.weight";
  copied.treatment = "copied";
  copied.reason = "rank 1";
  copied.bytes_before = copied.bytes_after = 64;
  report.tensors.push_back(copied);
  return report;
}

/// The page without the contents of <style> and the last <script>, which are not markup.
std::string without_raw_text(std::string page) {
  for (const char* tag : {"style", "script"}) {
    const std::size_t start = page.rfind(std::string("<") + tag);
    const std::size_t end = page.find(std::string("</") + tag, start);
    const std::size_t inside = page.find('>', start) + 1;
    page.erase(inside, end - inside);
  }
  return page;
}

nlohmann::json embedded(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"report-data\">";
  const std::size_t start = page.find(open) + open.size();
  return nlohmann::json::parse(page.substr(start, page.find("</script>", start) - start));
}

TEST(Html, is_well_formed_and_the_same_each_time) {
  const std::string page = render_html(model());
  EXPECT_EQ(testing::markup_error(without_raw_text(page)), "");
  EXPECT_EQ(page, render_html(model()));
}

TEST(Html, shows_every_section) {
  const std::string page = render_html(model());
  for (const char* id : {"size", "error-map", "codes", "worst-tensors", "worst-blocks", "tensors",
                         "kept", "untouched"}) {
    EXPECT_NE(page.find("<section id=\"" + std::string(id) + "\">"), std::string::npos) << id;
  }
  for (const char* text :
       {"tiny model", "2.5x", "20.0 kB to 8.0 kB", "9 of 10", "rank 1", ">experts.up_proj<"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  // Two experts of a layer are one cell: (0.01 + 0.03) / 2.
  EXPECT_NE(page.find("experts.up_proj, layer 2: 2.000 % relative MSE, 17.0 dB, 2 tensors"),
            std::string::npos);
}

TEST(Html, shows_what_a_budget_led_to) {
  ModelReport report = model();
  EXPECT_EQ(render_html(report).find("id=\"choice\""), std::string::npos);
  ChoiceReport& choice = report.choice.emplace();
  choice.budget = hostile;
  choice.menu = {"nvfp4", "bf16"};
  choice.rows = {{hostile, 3, 4096, {0.02, 0}, {2304, 8192}, 0},
                 {"model.layers.1.mlp.down_proj", 1, 2048, {INFINITY, 0}, {0, 4096}, 1}};
  choice.curve = {{5.5, 0.02}, {16, 0}};
  const std::string page = render_html(report);
  EXPECT_EQ(testing::markup_error(without_raw_text(page)), "");
  EXPECT_NE(page.find("<section id=\"choice\">"), std::string::npos);
  EXPECT_NE(page.find("bf16: 2.00 % less for 5.9 kB more"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(embedded(page)["choice"]["groups"].size(), 2u);
}

TEST(Html, shows_errors_of_outputs_only_where_they_were_measured) {
  ModelReport report = model();
  EXPECT_EQ(render_html(report).find("output error"), std::string::npos);
  report.tensors[0].output = {0.5, 100};
  report.tensors[0].output_unweighted = {1, 100};
  const std::string page = render_html(report);
  EXPECT_EQ(testing::markup_error(without_raw_text(page)), "");
  EXPECT_NE(page.find(">output error<"), std::string::npos);
  EXPECT_NE(page.find("their mean; by the weights alone 1.000 %"), std::string::npos);
  EXPECT_EQ(embedded(page)["tensors"][0]["output_error"], 0.005);
}

TEST(Html, needs_nothing_from_outside) {
  const std::string page = render_html(model());
  for (const char* reference : {"src=", "href=", "url(", "@import", "fetch(", "https:"}) {
    EXPECT_EQ(page.find(reference), std::string::npos) << reference;
  }
}

TEST(Html, embeds_the_figures) {
  const auto json = embedded(render_html(model()));
  EXPECT_EQ(json["tensors"].size(), 10u);
  EXPECT_EQ(json["tensors"][2]["relative_mse"], 0.03);
}

TEST(Html, disarms_hostile_texts) {
  ModelReport report = model();
  report.title = report.format = report.options = report.tool = hostile;
  report.tensors[0].name = report.tensors[0].treatment = hostile;
  report.tensors.back().name = report.tensors.back().reason = hostile;
  const std::string page = render_html(report);
  EXPECT_EQ(testing::markup_error(without_raw_text(page)), "");
  EXPECT_EQ(page.find("alert(\"1\")"), std::string::npos);
  EXPECT_EQ(page.find("<script>alert"), std::string::npos);
  EXPECT_EQ(embedded(page)["title"], "</script><script>alert(\"1\")</script>&\ufffd\x1b'");
}

TEST(Html, of_empty_or_odd_reports_is_whole) {
  const std::string empty = render_html(ModelReport{});
  EXPECT_EQ(testing::markup_error(without_raw_text(empty)), "");
  EXPECT_EQ(empty.find("<section"), std::string::npos);

  ModelReport odd = model();
  odd.tensors[0].error.squared_error = NAN;
  odd.tensors[1].error.squared_error = 0;
  odd.tensors[2].error.squared_original = 0;  // infinite
  odd.tensors[3].shape = {};
  odd.tensors[4].worst_blocks[0].restored = {1};  // shorter than the original
  odd.element_values.clear();
  odd.scale_values.resize(3);
  EXPECT_EQ(testing::markup_error(without_raw_text(render_html(odd))), "");
}

TEST(Html, lists_only_the_worst_of_very_many) {
  ModelReport report;
  for (int i = 0; i < 4100; ++i) {
    report.tensors.push_back(tensor("t" + std::to_string(i) + "end", 0.01 + 1e-6 * i));
    report.tensors.back().worst_blocks.clear();
  }
  const std::string page = render_html(report);
  EXPECT_NE(page.find("The 4000 worst of 4100 tensors"), std::string::npos);
  EXPECT_NE(page.find(">t4099end<"), std::string::npos);
  EXPECT_EQ(page.find(">t99end<"), std::string::npos);
  EXPECT_EQ(embedded(page)["tensors"].size(), 4100u);
}

}  // namespace
}  // namespace microscale
