#include "layouts/repack.hpp"

#include <algorithm>

#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale {
namespace {

std::int64_t scale_offset(Layout layout, std::int64_t line, std::int64_t block, std::int64_t blocks) {
  return layout == Layout::row_major ? row_major::offset(line, block, blocks)
                                     : tiled_128x4::offset(line, block, blocks);
}

}  // namespace

void repack_scale_bytes(const BlockShape& shape, std::span<const std::uint8_t> scales, Layout layout,
                        std::span<std::uint8_t> output) {
  if (layout == Layout::tiled_128x4) std::fill(output.begin(), output.end(), std::uint8_t{0});
  const std::int64_t blocks = shape.blocks_per_line();
  for (std::int64_t line = 0; line < shape.lines(); ++line)
    for (std::int64_t block = 0; block < blocks; ++block)
      output[static_cast<std::size_t>(scale_offset(layout, line, block, blocks))] =
          scales[static_cast<std::size_t>(scale_offset(shape.layout, line, block, blocks))];
}

}  // namespace microscale
