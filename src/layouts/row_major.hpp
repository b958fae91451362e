// Scales in rows: offset = line * blocks_per_line + block. What is on disk.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::row_major {

MICROSCALE_HD constexpr std::int64_t offset(std::int64_t line, std::int64_t block,
                                            std::int64_t blocks_per_line) {
  return line * blocks_per_line + block;
}

MICROSCALE_HD constexpr std::int64_t bytes(std::int64_t lines, std::int64_t blocks_per_line) {
  return lines * blocks_per_line;
}

}  // namespace microscale::row_major
