#include "report/units.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace microscale {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(Units, bytes_carry_into_the_next_unit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.0 kB");
  EXPECT_EQ(format_bytes(90'868'376), "90.9 MB");
  EXPECT_EQ(format_bytes(999'949), "999.9 kB");
  EXPECT_EQ(format_bytes(999'950), "1.0 MB");
  EXPECT_EQ(format_bytes(1'200'000'000), "1.2 GB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "18.4 EB");
}

TEST(Units, rates_need_a_number) {
  EXPECT_EQ(format_rate(1.24e9), "1.2 GB/s");
  EXPECT_EQ(format_rate(999.6), "1.0 kB/s");
  EXPECT_EQ(format_rate(0), "0 B/s");
  EXPECT_EQ(format_rate(nan), "-");
  EXPECT_EQ(format_rate(-1), "-");
}

TEST(Units, durations_change_unit_without_60_seconds) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(35e-6), "35 us");
  EXPECT_EQ(format_duration(0.0351), "35 ms");
  EXPECT_EQ(format_duration(0.9996), "1.0 s");
  EXPECT_EQ(format_duration(59.94), "59.9 s");
  EXPECT_EQ(format_duration(59.96), "1 min 00 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 00 min");
  EXPECT_EQ(format_duration(90000), "1 d 01 h");
  EXPECT_EQ(format_duration(inf), "-");
}

TEST(Units, clock_reads_like_a_clock) {
  EXPECT_EQ(format_clock(0), "0:00");
  EXPECT_EQ(format_clock(35.4), "0:35");
  EXPECT_EQ(format_clock(725), "12:05");
  EXPECT_EQ(format_clock(3725), "1:02:05");
  EXPECT_EQ(format_clock(nan), "-:--");
  EXPECT_EQ(format_clock(inf), "-:--");
}

TEST(Units, counts_are_grouped_by_thousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(100000), "100,000");
}

TEST(Units, percent_tells_zero_from_nearly_zero) {
  EXPECT_EQ(format_percent(0), "0 %");
  EXPECT_EQ(format_percent(0.006594), "0.66 %");
  EXPECT_EQ(format_percent(0.006594, 4), "0.6594 %");
  EXPECT_EQ(format_percent(0.00004), "< 0.01 %");
  EXPECT_EQ(format_percent(0.00006), "0.01 %");
  EXPECT_EQ(format_percent(1), "100.00 %");
  EXPECT_EQ(format_percent(0.003, 0), "< 1 %");
  EXPECT_EQ(format_percent(inf), "inf %");
  EXPECT_EQ(format_percent(nan), "-");
}

TEST(Units, decibel_may_be_infinite) {
  EXPECT_EQ(format_decibel(21.808), "21.8 dB");
  EXPECT_EQ(format_decibel(-0.31), "-0.3 dB");
  EXPECT_EQ(format_decibel(inf), "inf dB");
  EXPECT_EQ(format_decibel(nan), "-");
}

TEST(Units, numbers_keep_three_digits_and_no_idle_zeros) {
  EXPECT_EQ(format_number(0), "0");
  EXPECT_EQ(format_number(-0.5), "-0.5");
  EXPECT_EQ(format_number(0.012345), "0.0123");
  EXPECT_EQ(format_number(9.999), "10");
  EXPECT_EQ(format_number(100), "100");
  EXPECT_EQ(format_number(123456), "123456");
  EXPECT_EQ(format_number(1e6), "1e+06");
  EXPECT_EQ(format_number(1.25e-7), "1.25e-07");
  EXPECT_EQ(format_number(1.0 / 3, 6), "0.333333");
  EXPECT_EQ(format_number(-inf), "-inf");
}

TEST(Units, ratio_and_shape) {
  EXPECT_EQ(format_ratio(910, 240), "3.8x");
  EXPECT_EQ(format_ratio(1, 0), "-");
  EXPECT_EQ(format_change(910, 240), "3.8x smaller");
  EXPECT_EQ(format_change(100, 120), "1.2x larger");
  EXPECT_EQ(format_change(5, 5), "as large");
  EXPECT_EQ(format_shape({4096, 11008}), "4096 x 11008");
  EXPECT_EQ(format_shape({}), "scalar");
}

}  // namespace
}  // namespace microscale
