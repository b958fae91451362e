// One element of a dense tensor, read to or written from FP32.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/half.hpp"
#include "microscale/format.hpp"

namespace microscale {

inline float load_dense(const void* data, DType type, std::int64_t index) {
  switch (type) {
    case DType::f16:
      return f16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::bf16:
      return bf16_to_float(static_cast<const std::uint16_t*>(data)[index]);
    case DType::f32:
      break;
  }
  return static_cast<const float*>(data)[index];
}

/// Rounded to nearest even; any NaN becomes the canonical one.
inline void store_dense(float value, void* data, DType type, std::int64_t index) {
  if (!(value == value)) value = canonical_nan();
  switch (type) {
    case DType::f16:
      static_cast<std::uint16_t*>(data)[index] = float_to_f16(value);
      return;
    case DType::bf16:
      static_cast<std::uint16_t*>(data)[index] = float_to_bf16(value);
      return;
    case DType::f32:
      static_cast<float*>(data)[index] = value;
      return;
  }
}

}  // namespace microscale
