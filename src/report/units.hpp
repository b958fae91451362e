// Numbers as people read them. Decimal units (1 kB = 1000 B); NaN is "-"; no locale anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace microscale {

std::string format_bytes(std::uint64_t bytes);  ///< "0 B", "999 B", "1.0 kB", "90.9 MB", "1.2 GB"
std::string format_rate(double bytes_per_second);  ///< "1.2 GB/s"
std::string format_duration(double seconds);       ///< "35 ms", "4.2 s", "2 min 05 s", "1 h 02 min"
std::string format_clock(double seconds);       ///< "0:35", "12:05", "1:02:05"; "-:--" if unknown
std::string format_count(std::uint64_t count);  ///< "1,234,567"
/// "0.66 %" of 0.0066 with two decimals; "0 %" only for zero, "< 0.01 %" for what would round to
/// it.
std::string format_percent(double share, int decimals = 2);
std::string format_decibel(double decibel);  ///< "21.8 dB", "inf dB"
/// Three significant digits by default, exponent only where plain digits would be long: "0.0123",
/// "1.2e-07".
std::string format_number(double value, int digits = 3);
std::string format_ratio(std::uint64_t before, std::uint64_t after);  ///< "3.9x"; "-" if after is 0
/// "3.9x smaller", "1.2x larger", "as large".
std::string format_change(std::uint64_t before, std::uint64_t after);
std::string format_shape(const std::vector<std::int64_t>& shape);  ///< "4096 x 11008"; "scalar"

}  // namespace microscale
