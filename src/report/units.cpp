// Numbers as text.
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace microscale {
namespace {

/// `text` without zeros that end its fraction: "0.500" is "0.5", "1.00e-07" is "1e-07".
std::string strip_zeros(std::string text) {
  const std::size_t exponent = std::min(text.find('e'), text.size());
  if (text.find('.') >= exponent) return text;
  std::size_t end = exponent;
  while (text[end - 1] == '0') --end;
  if (text[end - 1] == '.') --end;
  return text.erase(end, exponent - end);
}

std::string decimal_bytes(double bytes) {
  constexpr std::array units = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  // 999.95 and more would print as 1000.0.
  while (bytes >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < units.size()) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) { return decimal_bytes(static_cast<double>(bytes)); }

std::string format_rate(double bytes_per_second) {
  if (!std::isfinite(bytes_per_second) || bytes_per_second < 0) return "-";
  return decimal_bytes(bytes_per_second) + "/s";
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 0.5e-6) return "0 s";
  if (seconds < 0.9995e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const long long total = std::llround(std::min(seconds, 1e15));
  if (total < 3600) return fmt::format("{} min {:02} s", total / 60, total % 60);
  if (total < 86400) return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
  return fmt::format("{} d {:02} h", total / 86400, total / 3600 % 24);
}

std::string format_clock(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-:--";
  const long long total = std::llround(std::min(seconds, 1e15));
  if (total < 3600) return fmt::format("{}:{:02}", total / 60, total % 60);
  return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
}

std::string format_count(std::uint64_t count) {
  std::string text = fmt::format("{}", count);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string format_percent(double share, int decimals) {
  if (std::isnan(share)) return "-";
  if (std::isinf(share)) return share > 0 ? "inf %" : "-inf %";
  if (share == 0) return "0 %";
  const double percent = share * 100;
  const double unit = std::pow(10, -decimals);
  if (percent > 0 && percent < unit / 2) return fmt::format("< {:.{}f} %", unit, decimals);
  return fmt::format("{:.{}f} %", percent, decimals);
}

std::string format_decibel(double decibel) {
  if (std::isnan(decibel)) return "-";
  if (std::isinf(decibel)) return decibel > 0 ? "inf dB" : "-inf dB";
  return fmt::format("{:.1f} dB", decibel);
}

std::string format_number(double value, int digits) {
  if (std::isnan(value)) return "-";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == 0) return "0";
  const double size = std::fabs(value);
  if (size < 1e-4 || size >= 1e6) return strip_zeros(fmt::format("{:.{}e}", value, digits - 1));
  const int magnitude = static_cast<int>(std::floor(std::log10(size)));
  return strip_zeros(fmt::format("{:.{}f}", value, std::max(0, digits - 1 - magnitude)));
}

std::string format_ratio(std::uint64_t before, std::uint64_t after) {
  if (after == 0) return "-";
  return fmt::format("{:.1f}x", static_cast<double>(before) / static_cast<double>(after));
}

std::string format_change(std::uint64_t before, std::uint64_t after) {
  if (before == after) return "as large";
  return after > before ? format_ratio(after, before) + " larger"
                        : format_ratio(before, after) + " smaller";
}

std::string format_shape(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, " x "));
}

}  // namespace microscale
