#include "layouts/repack.hpp"

#include <algorithm>
#include <vector>

#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale {

void repack_scale_bytes(const BlockShape& shape, std::span<const std::uint8_t> scales,
                        Layout layout, std::span<std::uint8_t> output) {
  const std::int64_t blocks = shape.blocks_per_line();
  if (layout == Layout::tiled_128x4) std::fill(output.begin(), output.end(), std::uint8_t{0});
  std::vector<std::uint8_t> own(static_cast<std::size_t>(blocks));
  for (std::int64_t line = 0; line < shape.lines(); ++line) {
    const std::int64_t at = row_major::offset(line, 0, blocks);
    const std::uint8_t* row = scales.data() + at;
    if (shape.layout == Layout::tiled_128x4) {
      tiled_128x4::copy_line(scales.data(), line, blocks, own.data());
      row = own.data();
    }
    if (layout == Layout::tiled_128x4)
      tiled_128x4::put_line(row, line, blocks, output.data());
    else
      std::copy_n(row, blocks, output.data() + at);
  }
}

}  // namespace microscale
