#include "ladder.hpp"

#include <string_view>

namespace levels {
namespace {

unsigned blocks(std::int64_t rows, int of) { return static_cast<unsigned>((rows + of - 1) / of); }

}  // namespace

int shared_bytes(const GemvLevel& level, std::int64_t k) {
  if (std::string_view(level.entry) != "gemv_8_matrix_unit") return 0;
  return static_cast<int>((k + 127) / 128 * 256 + 64);
}

void run_level(const GemvLevel& level, const GemvShape& shape,
               const std::function<void(const GemvLaunch&)>& launch) {
  const auto l = static_cast<unsigned>(shape.l);
  launch({level.entry, blocks(shape.m, level.rows), l, static_cast<unsigned>(level.parts),
          level.threads, shared_bytes(level, shape.k)});
  if (level.second) launch({level.second, blocks(shape.m, 256), l, 1, 256, 0});
}

}  // namespace levels
