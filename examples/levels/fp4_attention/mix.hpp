// What a kernel's instructions are for, by the article's classes.
//
// A matrix instruction, a load or store and a shuffle say so themselves; a conversion between FP32
// and FP16 belongs to the staging that needs it. The others go by the file that they were compiled
// from: the quantizer's, the softmax's, or else.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "microscale/emulator.hpp"
#include "sass/listing.hpp"

namespace levels {

enum class Part : std::uint8_t { quantization, movement, softmax, matrix, other };
inline constexpr std::array<std::string_view, 5> part_names{"quantization", "data movement",
                                                            "softmax and V", "MMA", "other"};
using Mix = std::array<std::uint64_t, part_names.size()>;

/// Of assembled code ("LDS.64") or PTX ("ld"), and a file's path, if known.
Part part_of(std::string_view opcode, std::string_view file);

Mix assembled(const microscale::sass::Function& kernel);
/// By warps, of PTX; of a launch with statistics.
Mix executed(const microscale::emulator::LaunchReport& report);

}  // namespace levels
