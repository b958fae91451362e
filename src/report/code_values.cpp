// What the codes of a format stand for, for the axes of its histograms.
#include <limits>

#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "report/model_report.hpp"

namespace microscale {
namespace {

constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

template <class Codec>
std::vector<double> values_of(Codec) {
  std::vector<double> values;
  for (int code = 0; code < Codec::code_count; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    values.push_back(Codec::is_nan(byte) ? no_number : static_cast<double>(Codec::decode(byte)));
  }
  return values;
}

}  // namespace

void set_code_values(ModelReport& report, Format format) {
  const FormatInfo& about = info(format);
  report.element_values = with_codec(about.element, [](auto codec) { return values_of(codec); });
  if (!about.e8m0_scale) {
    report.scale_values = values_of(UE4M3{});
    return;
  }
  report.scale_values.clear();
  for (int byte = 0; byte < 255; ++byte) {
    report.scale_values.push_back(
        static_cast<double>(decode_e8m0(static_cast<std::uint8_t>(byte))));
  }
  report.scale_values.push_back(no_number);  // byte 255
}

}  // namespace microscale
