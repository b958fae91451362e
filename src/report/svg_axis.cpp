#include "report/svg_axis.hpp"

#include <algorithm>
#include <cmath>

namespace microscale {

Axis linear_axis(double most) {
  Axis axis;
  if (!(most > 0)) return {0, 1, {0, 1}};
  double step = std::pow(10, std::floor(std::log10(most)));
  while (most / step < 2) step /= 2;
  if (most / step > 5) step *= 2;
  axis.high = step * std::ceil(most / step - 1e-9);
  for (int i = 0; step * i <= axis.high * 1.0001; ++i) axis.ticks.push_back(step * i);
  return axis;
}

Axis linear_axis(double least, double most) {
  if (!(most > least)) return {least - 0.5, least + 0.5, {least}};
  double step = std::pow(10, std::floor(std::log10(most - least)));
  while ((most - least) / step < 3) step /= 2;
  Axis axis;
  axis.low = step * std::floor(least / step + 1e-9);
  axis.high = step * std::ceil(most / step - 1e-9);
  for (int i = 0; axis.low + step * i <= axis.high + step * 1e-4; ++i)
    axis.ticks.push_back(axis.low + step * i);
  return axis;
}

Axis logarithmic_axis(double least, double most) {
  Axis axis;
  axis.low = std::ceil(std::log10(least) - 1e-9) - 1;
  axis.high = std::max(std::ceil(std::log10(most) - 1e-9), axis.low + 1);
  const int step = std::max(1, static_cast<int>(axis.high - axis.low) / 4);
  for (int i = static_cast<int>(axis.low); i <= static_cast<int>(axis.high); i += step) {
    axis.ticks.push_back(i);
  }
  return axis;
}

}  // namespace microscale
