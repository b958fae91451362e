#include "report/choice_report.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace microscale {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

ChoiceReport small() {
  ChoiceReport choice;
  choice.budget = "at most 6 bits a weight, of nvfp4, fp8 and bf16";
  choice.menu = {"nvfp4", "fp8", "bf16"};
  choice.weighted_layers = 3;
  choice.rows = {{"a", 3, 800, {0.02, 0.001, 0}, {450, 800, 1600}, 0},
                 {"b", 1, 200, {inf, 0.002, 0}, {0, 200, 400}, 1}};
  choice.curve = {{5.2, 0.022}, {16, 0}};
  return choice;
}

TEST(ChoiceReport, adds_up_what_was_chosen) {
  const ChoicePoint point = chosen_point(small());
  EXPECT_DOUBLE_EQ(point.bits, 8 * 650.0 / 1000);
  EXPECT_DOUBLE_EQ(point.error, 0.022);
  const auto shares = choice_shares(small());
  ASSERT_EQ(shares.size(), 3u);
  EXPECT_EQ(shares[0].layers, 3);
  EXPECT_EQ(shares[1].bytes, 200);
  EXPECT_EQ(shares[2].rows, 0);
}

TEST(ChoiceReport, names_only_formats_that_all_can_have) {
  const auto points = uniform_points(small());
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].name, "fp8");
  EXPECT_DOUBLE_EQ(points[0].point.bits, 8);
  EXPECT_DOUBLE_EQ(points[0].point.error, 0.003);
}

TEST(ChoiceReport, says_what_the_neighbours_would_change) {
  const ChoiceReport choice = small();
  const auto first = choice_neighbours(choice.rows[0]);
  ASSERT_EQ(first.size(), 1u) << "nothing is smaller";
  EXPECT_EQ(in_words(first[0], choice), "fp8: 1.90 % less for 350 B more");
  const auto second = choice_neighbours(choice.rows[1]);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(in_words(second[0], choice), "bf16: 0.20 % less for 200 B more");
  ChoiceRow row = choice.rows[0];
  row.chosen = 1;
  const auto both = choice_neighbours(row);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(in_words(both[0], choice), "nvfp4: 1.90 % more for 350 B less");
}

TEST(ChoiceReport, tells_how_errors_were_measured) {
  ChoiceReport choice = small();
  EXPECT_NE(choice_basis(choice).find("of 1 of 4 layers"), std::string::npos);
  choice.weighted_layers = 4;
  EXPECT_NE(choice_basis(choice).find("outputs"), std::string::npos);
  choice.weighted_layers = 0;
  EXPECT_NE(choice_basis(choice).find("--importance"), std::string::npos);
  choice.by_gradients = true;
  EXPECT_NE(choice_basis(choice).find("1 % is 0.01 nats a token"), std::string::npos);
}

TEST(ChoiceReport, is_json_without_infinities) {
  const auto json = nlohmann::json::parse(to_json(small()));
  EXPECT_EQ(json["groups"][1]["format"], "fp8");
  EXPECT_TRUE(json["groups"][1]["errors"]["nvfp4"].is_null());
  EXPECT_EQ(json["formats"]["nvfp4"]["weights"], 800);
  EXPECT_EQ(json["curve"].size(), 2u);
}

}  // namespace
}  // namespace microscale
