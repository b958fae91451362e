// Other tools' arithmetic, where it differs from ours by more than named options: the order of
// operations, the type of each intermediate, and what becomes of zeros, NaN and infinity.
// docs/formats/compat.md describes each profile; tests/golden holds what the tools themselves
// computed.
#pragma once

#include <cstdint>
#include <optional>

#include "microscale/format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// The profile's options, or nothing where the tool has no such format.
std::optional<Numerics> tool_numerics(Compat compat, Format format);

/// Whether `numerics` is a tool's own profile for `format`, so that blocks are to be made by
/// quantize_block_as_tool. It no longer is once a scale rule the tool lacks, a rounding or a policy
/// was chosen over it; the options then mean what they say. Never so for Compat::none and
/// Compat::ocp.
bool follows_tool(const Numerics& numerics, Format format);

/// Whether no option was set over those of the profile `numerics.compat`, which is one.
bool keeps_profile(const Numerics& numerics, Format format);

/// NVFP4's number for the whole tensor. Tools keep and compute with different ones: a divisor of
/// the values' scale (encode, 2688 / amax) or a multiplier (decode, amax / 2688).
struct ToolGlobal {
  float own = 1.0f;  ///< the tool's number, bit for bit
  float decode =
      1.0f;  ///< multiplier: value = code * scale * decode, within a last bit of the tool's
};

/// Of a tensor of type `dtype` with largest magnitude `amax`. compressed-tensors computes it in
/// that type. Throws Error{invalid_argument} for an amax that is negative or NaN.
ToolGlobal tool_global(Compat compat, float amax, DType dtype);

/// The tool's number for a given decode multiplier.
ToolGlobal tool_global_from_decode(Compat compat, float decode);

/// What is the same for all blocks of a call.
struct ToolBlocks {
  Numerics numerics;
  Format format = Format::mxfp4;
  DType dtype = DType::f32;  ///< of the input
  float own_global = 1.0f;   ///< NVFP4: ToolGlobal::own
};

/// Encodes one block of info(format).block values as the tool does, one code per byte. Returns the
/// scale byte. follows_tool(numerics, format) must hold.
std::uint8_t quantize_block_as_tool(const ToolBlocks& call, const float* values,
                                    std::uint8_t* codes);

namespace detail {
std::uint8_t quantize_mx_block_as_tool(const ToolBlocks& call, const float* values,
                                       std::uint8_t* codes);
std::uint8_t quantize_nvfp4_block_as_tool(const ToolBlocks& call, const float* values,
                                          std::uint8_t* codes);
}  // namespace detail

}  // namespace microscale
