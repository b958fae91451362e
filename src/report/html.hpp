// The report as one HTML page that needs nothing else: no network, no fonts, no scripts to be read.
#pragma once

#include <string>

#include "report/model_report.hpp"

namespace microscale {

/// A page with pictures (sizes, error per layer and kind, histograms) and tables (worst tensors and
/// blocks, every tensor), for desktop and phone, light and dark, printable; the figures also as
/// JSON inside it. ASCII only, the same bytes for the same report. Beyond 4000 tensors the long
/// table lists the worst.
std::string render_html(const ModelReport& report);

}  // namespace microscale
