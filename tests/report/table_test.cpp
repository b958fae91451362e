#include "report/table.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "microscale/error.hpp"

namespace microscale {
namespace {

Table cost_table() {
  Table table({{"tensor", Align::left, true},
               {"rel. MSE", Align::right},
               {"SQNR", Align::right},
               {"cosine", Align::right}});
  table.add_row({"encoder.layer.0.attention.self.query.weight", "0.66 %", "21.8 dB", "0.99670"});
  table.add_row({"encoder.layer.11.output.dense.weight", "12.34 %", "9.1 dB", "0.93000"});
  table.add_rule();
  table.add_row({"all", "1.00 %", "20.0 dB"});
  return table;
}

TEST(Table, takes_its_natural_width_where_there_is_room) {
  const std::string want =
      "tensor                                       rel. MSE     SQNR   cosine\n"
      "-----------------------------------------------------------------------\n"
      "encoder.layer.0.attention.self.query.weight    0.66 %  21.8 dB  0.99670\n"
      "encoder.layer.11.output.dense.weight          12.34 %   9.1 dB  0.93000\n"
      "-----------------------------------------------------------------------\n"
      "all                                            1.00 %  20.0 dB\n";
  EXPECT_EQ(cost_table().text({.width = 0}), want);
  EXPECT_EQ(cost_table().text({.width = 71}), want);
  EXPECT_EQ(cost_table().text({.width = 120}), want);
}

TEST(Table, shortens_names_in_the_middle_at_60_columns) {
  EXPECT_EQ(cost_table().text({.width = 60}),
            "tensor                            rel. MSE     SQNR   cosine\n"
            "------------------------------------------------------------\n"
            "...0.attention.self.query.weight    0.66 %  21.8 dB  0.99670\n"
            "...layer.11.output.dense.weight    12.34 %   9.1 dB  0.93000\n"
            "------------------------------------------------------------\n"
            "all                                 1.00 %  20.0 dB\n");
}

TEST(Table, becomes_paragraphs_at_40_columns) {
  EXPECT_EQ(cost_table().text({.width = 40}),
            "...layer.0.attention.self.query.weight\n"
            "  rel. MSE 0.66 %   SQNR 21.8 dB\n"
            "  cosine 0.99670\n"
            "encoder.layer.11.output.dense.weight\n"
            "  rel. MSE 12.34 %   SQNR 9.1 dB\n"
            "  cosine 0.93000\n"
            "----------------------------------------\n"
            "all\n"
            "  rel. MSE 1.00 %   SQNR 20.0 dB\n");
}

TEST(Table, breaks_long_texts_between_words_in_paragraphs) {
  Table table({{"tensor", Align::left}, {"reason", Align::left}});
  table.add_row({"lm_head.weight", "on the default list of tensors that stay as they are"});
  EXPECT_EQ(table.text({.width = 30}),
            "lm_head.weight\n"
            "  reason on the default list\n"
            "  of tensors that stay as they\n"
            "  are\n");
}

TEST(Table, no_line_is_wider_than_the_terminal) {
  for (int width = 12; width < 90; ++width) {
    std::istringstream lines(cost_table().text({.width = width}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(display_width(line), width) << line;
      EXPECT_FALSE(line.ends_with(' ')) << line;
    }
  }
}

TEST(Table, aligns_wide_characters_and_disarms_hostile_ones) {
  Table table({{"name", Align::left}, {"n", Align::right}});
  table.add_row({"\u6a21\u578b", "1"});
  table.add_row({"a\x1b[31mb\n", "22"});
  EXPECT_EQ(table.text({.width = 0, .utf8 = true, .boxes = true}),
            "name       n\n"
            "\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\u2500\n"
            "\u6a21\u578b       1\n"
            "a?[31mb?  22\n");
  EXPECT_EQ(table.text({}),
            "name       n\n"
            "------------\n"
            "??         1\n"
            "a?[31mb?  22\n");
}

TEST(Table, uses_escapes_only_when_asked_for_colour) {
  EXPECT_EQ(cost_table().text({.width = 80}).find('\x1b'), std::string::npos);
  const std::string coloured = cost_table().text({.width = 80, .colour = true});
  EXPECT_EQ(coloured.find("\x1b[1mtensor"), 0u);
}

TEST(Table, without_rows_is_empty_and_too_many_cells_are_refused) {
  Table table({{"a"}, {"b"}});
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.text({.width = 80}), "");
  EXPECT_THROW(table.add_row({"1", "2", "3"}), Error);
}

}  // namespace
}  // namespace microscale
