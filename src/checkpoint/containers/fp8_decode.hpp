// FP8 codes under one scale, as FP32 or BF16: by the widest instructions that the processor has.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/stored_type.hpp"

namespace microscale {

/// `count` codes of E4M3 or E5M2, each the product of its value and `factor`, rounded once; NaN
/// codes are canonical NaN times `factor`.
using DecodeFp8ToF32 = void (*)(const std::uint8_t* codes, std::int64_t count, float factor,
                                float* out);
using DecodeFp8ToBf16 = void (*)(const std::uint8_t* codes, std::int64_t count, float factor,
                                 std::uint16_t* out);
struct DecodeFp8 {
  DecodeFp8ToF32 to_f32;
  DecodeFp8ToBf16 to_bf16;  // of the FP32 product, to the nearest
};

/// All that this processor runs, the fastest last, for codes of type f8_e4m3 or f8_e5m2. They give
/// the same bits.
std::vector<DecodeFp8> fp8_decoders(StoredType codes);

}  // namespace microscale
