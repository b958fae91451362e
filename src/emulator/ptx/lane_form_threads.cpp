// What the lanes of a warp are in %tid, by the shape of their block.
#include <algorithm>

#include "emulator/ptx/lane_form.hpp"

namespace microscale::emulator::ptx {

// Threads are numbered x first, then y, then z, and 32 in turn are a warp.
std::optional<LaneForm> LaneSymbols::thread_index(char axis) const {
  const auto of_warp = [](const LaneForm::Lanes& lanes, std::int64_t by_warp) {
    LaneForm made(lanes);
    if (by_warp) made.add({"%warp"}, LaneForm::all(by_warp));
    return made;
  };
  LaneForm::Lanes lanes = LaneForm::own_number();
  const std::int64_t x = block_.x, y = std::max<std::int64_t>(1, block_.y),
                     z = std::max<std::int64_t>(1, block_.z), whole = 32;
  if (x == 0 || x % whole == 0)
    return axis == 'x' ? std::optional(of_warp(lanes, 32)) : std::nullopt;
  if (x * y * z <= whole) {  // the only warp
    for (std::int64_t& each : lanes)
      each = axis == 'x' ? each % x : axis == 'y' ? each / x % y : each / x / y;
    return of_warp(lanes, 0);
  }
  if (whole % x != 0) return LaneForm("?%tid");
  const std::int64_t rows = whole / x;  // of a warp
  if (axis == 'x') {
    for (std::int64_t& each : lanes) each %= x;
    return of_warp(lanes, 0);
  }
  if (y % rows == 0 || z == 1) {
    if (axis == 'z') return std::nullopt;
    for (std::int64_t& each : lanes) each /= x;
    return of_warp(lanes, rows);
  }
  if (rows % y != 0) return LaneForm("?%tid");
  for (std::int64_t& each : lanes) each = axis == 'y' ? each / x % y : each / x / y;
  return of_warp(lanes, axis == 'y' ? 0 : rows / y);
}

}  // namespace microscale::emulator::ptx
