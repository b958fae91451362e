// Axes of pictures: their ends, and where their lines are.
#pragma once

#include <vector>

namespace microscale {

struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks = {};
};

/// From 0 to a round number, in 2 to 5 steps of 1, 2 or 5 times a power of ten.
Axis linear_axis(double most);

/// Between round numbers around both ends, in 3 to 8 steps of such a size.
Axis linear_axis(double least, double most);

/// In powers of ten, from the one at or below the smallest positive value (so that its bar shows,
/// one lower if it is the power itself) to the one above the largest; low, high and ticks are
/// logarithms.
Axis logarithmic_axis(double least, double most);

}  // namespace microscale
