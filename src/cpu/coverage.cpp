#include "cpu/coverage.hpp"

#include "formats/compat.hpp"

namespace microscale::cpu {
bool covers(const QuantizeLines& call) {
  const Numerics& n = call.numerics;
  const bool positive_global = call.global_scale > 0 && call.global_scale < 0x1.fffffep127f;
  return (n.rounding == Rounding::nearest_even || n.rounding == Rounding::stochastic) &&
         n.zero_code == ZeroCode::keep_sign && !follows_tool(n, call.format) &&
         (call.format != Format::nvfp4 || positive_global);
}

bool covers(const DequantizeLines&) { return true; }

}  // namespace microscale::cpu
