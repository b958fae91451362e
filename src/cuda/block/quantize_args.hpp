// What a quantizer of rows is given: a plain struct, the same on the host and in a kernel;
// quantize, append_kv and products whose result is quantized have one.
#pragma once

#include <bit>
#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "microscale/numerics.hpp"

namespace microscale::cuda {

// A thread owns `rows_per_thread` chunks of neighbouring elements: one below the other, or in one
// row, `run_apart` from chunk to chunk.
inline constexpr int chunk_elements = 8;
inline constexpr int rows_per_thread = 4;
inline constexpr int run_shift = 5;                    // column_shift where a warp takes a run
inline constexpr int run_apart = 32 * chunk_elements;  // elements from a lane's chunk to its next
inline constexpr int run_elements = 4 * run_apart;     // of a warp

// How thread blocks share a matrix out (quantize/args.hpp): a thread block goes through slabs
// blockIdx.y + (blockIdx.z * each + i) * gridDim.y of column tile blockIdx.x.
struct Slabs {
  std::int32_t column_shift;   // log2 of the threads side by side in a row
  std::int32_t runs;           // a thread's chunks lie in one row, not one below the other
  std::int32_t count;          // slabs, those of the scales' padding included
  std::int32_t each;           // that a thread block goes through
  std::int32_t whole_rows;     // the first so many slabs
  std::int32_t whole_columns;  // ... and column tiles lie inside the matrix
  std::int32_t scale_words;    // scale bytes leave four at a time
};

struct QuantizeArgs {
  const void* input;  // rows x cols elements, device memory, 16-byte aligned rows
  std::int64_t rows;
  std::int64_t cols;          // a multiple of the block
  std::int64_t row_stride;    // elements
  std::uint8_t* codes;        // rows x code_stride bytes
  std::int64_t code_stride;   // bytes
  std::uint8_t* scales;       // row-major rows x (cols / block), or 128x4 tiles, padding included
  const float* global_scale;  // NVFP4: decode multiplier, one float in device memory
  std::int32_t scale_addend;  // E8M0 rule: byte = ((bits(amax) + addend) >> 23) - emax, clamped to
                              // [0, 254] (E8m0Rule)
  std::int32_t emax;
  std::int32_t zero_byte;       // E8M0 byte of an all-zero block
  std::int32_t nan_propagates;  // NanPolicy, InfPolicy, ZeroCode as 0 / 1
  std::int32_t inf_is_nan;
  std::int32_t zero_is_positive;
  std::uint64_t seed;         // stochastic rounding, with the position of element (0, 0);
  std::uint64_t first_index;  // element (r, c) counts as first_index + r * cols + c
  std::int32_t scale_rule;    // mode general: ScaleRule and Rounding as numbers
  std::int32_t rounding;
  Slabs tiles;  // the other modes; from quantize/args.hpp
};

// Every E8M0 scale rule as three numbers, so that one kernel serves them all: an addition that
// carries into the exponent where the rule rounds up, the exponent of the element's largest value,
// and the byte of zero.
struct E8m0Rule {
  std::int32_t addend;     // in units of the last bit of an FP32
  std::int32_t emax;       // 0 for the rules that subtract none
  std::int32_t zero_byte;  // of an all-zero block
};

/// `rule` for an element type; `search` is its lower candidate, as in e8m0_from_amax. Codec::emax >
/// 0.
template <class Codec>
constexpr E8m0Rule e8m0_rule(ScaleRule rule) {
  constexpr std::int32_t largest_fraction =
      static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(Codec::max_value) & 0x7FFFFFu);
  switch (rule) {
    case ScaleRule::ceil:
      return {0x7FFFFF, Codec::emax, 0};
    case ScaleRule::rceil:
      return {0x7FFFFF - largest_fraction, Codec::emax, 0};
    case ScaleRule::even:
      return {1 << (22 - Codec::mantissa_bits), Codec::emax, 0};
    case ScaleRule::even_down:
      return {(1 << (22 - Codec::mantissa_bits)) - 1, Codec::emax, 0};
    case ScaleRule::even_1bit:
      return {1 << 21, Codec::emax, 0};
    case ScaleRule::amax_ceil:
      return {0x7FFFFF, 0, 127};
    case ScaleRule::amax_floor:
      return {0, 0, 0};
    default:
      return {0, Codec::emax, 0};  // floor, search
  }
}

}  // namespace microscale::cuda
