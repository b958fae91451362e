// The most BF16 tile products there are: four accumulators in turn, all operands in tiles. They are
// not zero: a processor short of power runs zeros at full speed and others at less than half of it.
#include <cstdint>
#include <iterator>

#include "core/threads.hpp"
#include "cpu/amx/permission.hpp"
#include "cpu/target_region.hpp"
#include "formats/random.hpp"
#include "clock.hpp"
#include "cpu_limits.hpp"

MICROSCALE_AMX_BEGIN

struct alignas(64) PeakConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// `data`: four tiles.
void peak_loop(std::int64_t products, const std::uint8_t* data) {
  static const PeakConfig config;
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_loadd(4, data, 64);
  _tile_loadd(5, data + 1024, 64);
  _tile_loadd(6, data + 2048, 64);
  _tile_loadd(7, data + 3072, 64);
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
  alignas(64) std::uint16_t data[4 * 512];  // BF16 of both signs, up to 2
  for (std::uint32_t i = 0; i < std::size(data); ++i)
    data[i] = static_cast<std::uint16_t>((mix32(i) & 0x807F) | ((119 + mix32(i) % 9) << 7));
  const std::int64_t products = brief ? 1 << 14 : 1 << 21;
  constexpr double operations = 2.0 * 16 * 16 * 32;
  const double seconds = seconds_of([&] {
    parallel_for(threads, threads, [&](std::int64_t) {
      amx::peak_loop(products, reinterpret_cast<const std::uint8_t*>(data));
    });
  });
  return operations * static_cast<double>(products) * threads / seconds;
}

}  // namespace microscale::bench
