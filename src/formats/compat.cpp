// The profiles as options, and the NVFP4 global number of each tool. docs/formats/compat.md has the
// evidence.
#include "formats/compat.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "formats/compat_elements.hpp"
#include "formats/global_scale.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

constexpr float largest = std::numeric_limits<float>::max();
constexpr float smallest_normal = std::numeric_limits<float>::min();
constexpr float largest_f4_times_e4m3 = 6.0f * 448.0f;

bool has_format(Compat compat, Format format) {
  const bool nvfp4 = format == Format::nvfp4, mxfp4 = format == Format::mxfp4;
  const bool mxfp8 = format == Format::mxfp8_e4m3;
  switch (compat) {
    case Compat::none:
      return true;
    case Compat::ocp:
    case Compat::microxcaling:
      return !nvfp4;
    case Compat::torchao:
      return format != Format::mxint8;
    case Compat::transformer_engine:
      return nvfp4 || mxfp8 || format == Format::mxfp8_e5m2;
    case Compat::llama_cpp:
      return nvfp4 || mxfp4;
    case Compat::flashinfer:
    case Compat::vllm:
    case Compat::compressed_tensors:
    case Compat::modelopt:
      return nvfp4 || mxfp4 || mxfp8;
  }
  return false;
}

// 2688 / amax as Transformer Engine bounds it; FlashInfer and vLLM leave the choice to their
// callers. (Not std::min: g++ 13 -O1 then returns 1 where the quotient overflows.)
float encode_scale(float amax) {
  if (amax == 0) return 1.0f;
  const float scale = largest_f4_times_e4m3 / amax;
  if (scale > largest) return largest;
  return scale == 0 ? 1.0f : scale;
}

// compressed-tensors computes in the weight's type, and a number over a tensor is the number times
// the tensor's reciprocal there: 2688 * (1 / max(amax, smallest normal)), or 1 if that is not
// finite.
float encode_scale_in(DType dtype, float amax) {
  const float smallest = dtype == DType::f16 ? 0x1p-14f : smallest_normal;
  const float reciprocal = round_to(dtype, 1.0f / std::max(amax, smallest));
  const float scale = round_to(dtype, largest_f4_times_e4m3 * reciprocal);
  return scale <= largest ? scale : 1.0f;
}

bool keeps_decode_multiplier(Compat compat) {
  return compat == Compat::torchao || compat == Compat::modelopt;
}

}  // namespace

std::optional<Numerics> tool_numerics(Compat compat, Format format) {
  if (!has_format(compat, format)) return std::nullopt;
  const bool nvfp4 = format == Format::nvfp4;
  Numerics n;
  n.compat = compat;
  if (compat != Compat::none) n.scale_rule = nvfp4 ? ScaleRule::nearest : ScaleRule::floor;
  switch (compat) {
    case Compat::none:
      break;
    case Compat::ocp:
      n.inf = InfPolicy::nan_block;
      break;
    case Compat::torchao:
      break;
    case Compat::transformer_engine:
    case Compat::flashinfer:
      if (!nvfp4) n.scale_rule = ScaleRule::rceil;
      n.nan = NanPolicy::drop;
      break;
    case Compat::vllm:
      if (format == Format::mxfp4) n.scale_rule = ScaleRule::even;
      if (format == Format::mxfp8_e4m3) n.scale_rule = ScaleRule::amax_floor;
      if (format != Format::mxfp8_e4m3) n.nan = NanPolicy::drop;
      break;
    case Compat::compressed_tensors:
      if (!nvfp4) n.scale_rule = ScaleRule::even_1bit;
      break;
    case Compat::modelopt:
      if (!nvfp4) n.scale_rule = ScaleRule::rceil;
      if (format == Format::mxfp4) n.rounding = Rounding::nearest_toward_zero;
      break;
    case Compat::llama_cpp:
      n.rounding = Rounding::nearest_toward_zero;
      n.zero_code = ZeroCode::positive;
      n.nan = NanPolicy::drop;
      break;
    case Compat::microxcaling:
      n.rounding = Rounding::nearest_away;
      n.inf = InfPolicy::nan_block;
      break;
  }
  return n;
}

Numerics numerics_for(Compat compat, Format format) {
  const std::optional<Numerics> numerics = tool_numerics(compat, format);
  if (!numerics)
    throw Error(ErrorCode::unsupported, "compat " + std::string(to_string(compat)) + " has no " +
                                            std::string(info(format).name) +
                                            "; choose another format or another profile");
  return *numerics;
}

bool follows_tool(const Numerics& numerics, Format format) {
  if (numerics.compat == Compat::none || numerics.compat == Compat::ocp) return false;
  std::optional<Numerics> profile = tool_numerics(numerics.compat, format);
  if (!profile) return false;
  const ScaleRule rule = numerics.scale_rule;
  const bool torchao_mode = numerics.compat == Compat::torchao && format != Format::nvfp4 &&
                            (rule == ScaleRule::floor || rule == ScaleRule::ceil ||
                             rule == ScaleRule::even || rule == ScaleRule::rceil);
  if (torchao_mode) profile->scale_rule = rule;
  profile->seed = numerics.seed;
  return numerics == *profile;
}

bool keeps_profile(const Numerics& numerics, Format format) {
  std::optional<Numerics> profile = tool_numerics(numerics.compat, format);
  if (profile) profile->seed = numerics.seed;
  return follows_tool(numerics, format) || numerics == profile;
}

ToolGlobal tool_global(Compat compat, float amax, DType dtype) {
  if (!(amax >= 0))
    throw Error(ErrorCode::invalid_argument,
                "NVFP4 global scale: the largest magnitude is " + std::to_string(amax) +
                    "; it must not be negative nor NaN (0 of a tensor of zeros)");
  switch (compat) {
    case Compat::torchao:
    case Compat::modelopt: {
      const float scale = amax / largest_f4_times_e4m3;
      return {scale, scale > 0 ? std::min(scale, largest) : 1.0f};
    }
    case Compat::transformer_engine:
      return {encode_scale(amax),
              amax > 0 ? std::min(amax, largest) / largest_f4_times_e4m3 : 1.0f};
    case Compat::flashinfer:
    case Compat::vllm:
      return {encode_scale(amax), 1.0f / encode_scale(amax)};
    case Compat::compressed_tensors: {
      const float own = encode_scale_in(dtype, amax);
      return {own, own > 0 ? 1.0f / own : largest};
    }
    case Compat::llama_cpp:
      return {};  // has none
    default:
      break;
  }
  const float decode = global_scale_of(amax);
  return {decode, decode};
}

ToolGlobal tool_global_from_decode(Compat compat, float decode) {
  if (compat == Compat::llama_cpp) return {};
  if (compat == Compat::none || compat == Compat::ocp || keeps_decode_multiplier(compat))
    return {decode, decode};
  return {std::min(1.0f / decode, largest), decode};
}

float nvfp4_global_scale(float amax, Compat compat) {
  return tool_global(compat, amax, DType::f32).decode;
}

std::uint8_t quantize_block_as_tool(const ToolBlocks& call, const float* values,
                                    std::uint8_t* codes) {
  return call.format == Format::nvfp4 ? detail::quantize_nvfp4_block_as_tool(call, values, codes)
                                      : detail::quantize_mx_block_as_tool(call, values, codes);
}

}  // namespace microscale
