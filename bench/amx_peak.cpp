// The most BF16 tile products there are: four accumulators in turn, all operands in tiles.
#include <cstdint>

#include "core/threads.hpp"
#include "cpu/amx/permission.hpp"
#include "cpu/target_region.hpp"
#include "clock.hpp"
#include "cpu_limits.hpp"

MICROSCALE_AMX_BEGIN

struct alignas(64) PeakConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void peak_loop(std::int64_t products) {
  static const PeakConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (std::int64_t i = 0; i < products; i += 4) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}

MICROSCALE_AMX_END

namespace microscale::bench {

double amx_peak(int threads, bool brief) {
  if (!amx::permitted()) return 0;
  const std::int64_t products = brief ? 1 << 14 : 1 << 21;
  constexpr double operations = 2.0 * 16 * 16 * 32;
  const double seconds = seconds_of(
      [&] { parallel_for(threads, threads, [&](std::int64_t) { amx::peak_loop(products); }); });
  return operations * static_cast<double>(products) * threads / seconds;
}

}  // namespace microscale::bench
