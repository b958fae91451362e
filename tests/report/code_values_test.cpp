#include <gtest/gtest.h>

#include <cmath>

#include "report/model_report.hpp"

namespace microscale {
namespace {

TEST(CodeValues, of_nvfp4_are_e2m1_and_e4m3) {
  ModelReport report;
  set_code_values(report, Format::nvfp4);
  ASSERT_EQ(report.element_values.size(), 16u);
  EXPECT_EQ(report.element_values[5], 3);
  EXPECT_EQ(report.element_values[15], -6);
  EXPECT_TRUE(std::signbit(report.element_values[8]));
  ASSERT_GE(report.scale_values.size(), 128u);
  EXPECT_EQ(report.scale_values[0x7E], 448);
  EXPECT_EQ(report.scale_values[1], 0x1p-9);
  EXPECT_TRUE(std::isnan(report.scale_values[0x7F]));
}

TEST(CodeValues, of_mx_formats_are_powers_of_two) {
  ModelReport report;
  for (const FormatInfo& format : all_formats()) {
    set_code_values(report, format.format);
    EXPECT_EQ(report.element_values.size(), format.element == Element::e2m1   ? 16u
                                            : format.element == Element::e2m3 ? 64u
                                            : format.element == Element::e3m2 ? 64u
                                                                              : 256u);
    if (!format.e8m0_scale) continue;
    ASSERT_EQ(report.scale_values.size(), 256u);
    EXPECT_EQ(report.scale_values[0], 0x1p-127);
    EXPECT_EQ(report.scale_values[127], 1);
    EXPECT_EQ(report.scale_values[254], 0x1p127);
    EXPECT_TRUE(std::isnan(report.scale_values[255]));
  }
}

}  // namespace
}  // namespace microscale
