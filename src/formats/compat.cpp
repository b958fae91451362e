// The numeric options under which other tools' bytes are had; docs/formats/compat.md has the evidence.
#include <algorithm>
#include <limits>
#include <string>

#include "microscale/error.hpp"
#include "microscale/numerics.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

[[noreturn]] void no_such_format(Compat compat, Format format) {
  throw Error(ErrorCode::unsupported, "compat " + std::string(to_string(compat)) + " has no " +
                                          std::string(info(format).name) +
                                          "; choose another format or another profile");
}

}  // namespace

Numerics numerics_for(Compat compat, Format format) {
  Numerics n;
  n.compat = compat;
  const bool nvfp4 = format == Format::nvfp4;
  switch (compat) {
    case Compat::none: return n;
    case Compat::ocp:
      if (nvfp4) no_such_format(compat, format);
      n.scale_rule = ScaleRule::floor;
      n.inf = InfPolicy::nan_block;
      return n;
    case Compat::torchao:
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
      n.inf = InfPolicy::nan_block;
      return n;
    case Compat::transformer_engine:
      if (format == Format::mxfp4) no_such_format(compat, format);
      [[fallthrough]];
    case Compat::flashinfer:
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
      n.nan = NanPolicy::drop;
      return n;
    case Compat::vllm:
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::even;
      n.nan = NanPolicy::drop;
      return n;
    case Compat::compressed_tensors:
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::even_1bit;
      return n;
    case Compat::modelopt:
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::rceil;
      if (format == Format::mxfp4) n.rounding = Rounding::nearest_toward_zero;
      return n;
    case Compat::llama_cpp:
      if (!nvfp4 && format != Format::mxfp4) no_such_format(compat, format);
      n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
      n.rounding = Rounding::nearest_toward_zero;
      n.zero_code = ZeroCode::positive;
      n.nan = NanPolicy::drop;
      return n;
    case Compat::microxcaling:
      if (nvfp4) no_such_format(compat, format);
      n.scale_rule = ScaleRule::floor;
      n.rounding = Rounding::nearest_away;
      n.inf = InfPolicy::nan_block;
      return n;
  }
  return n;
}

float nvfp4_global_scale(float amax, Compat compat) {
  if (compat == Compat::none) return nvfp4_global_scale(amax);
  if (compat == Compat::llama_cpp) return 1.0f;  // has none
  if (!(amax > 0)) return 1.0f;
  const float largest = std::numeric_limits<float>::max();
  return std::min(amax, largest) / 2688.0f;
}

}  // namespace microscale
