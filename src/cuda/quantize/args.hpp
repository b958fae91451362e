// What a kernel is given: one plain struct per operation, the same on the host and in a kernel.
// Kernels are found by name (kernel_names.hpp) and launched as geometry.hpp says.
#pragma once

#include <cstdint>

namespace microscale::cuda {

// How thread blocks share a matrix out (geometry.hpp): a thread block goes through row tiles
// blockIdx.y + (blockIdx.z * each + i) * gridDim.y of column tile blockIdx.x.
struct RowTiles {
  std::int32_t column_shift;   // log2 of the threads side by side in a row
  std::int32_t runs;           // a thread's chunks lie in one row, not one below the other
  std::int32_t count;          // row tiles, those of the scales' padding included
  std::int32_t each;           // that a thread block goes through
  std::int32_t whole_rows;     // the first so many row tiles
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
                              // [0, 254] (e8m0_rule.hpp)
  std::int32_t emax;
  std::int32_t zero_byte;       // E8M0 byte of an all-zero block
  std::int32_t nan_propagates;  // NanPolicy, InfPolicy, ZeroCode as 0 / 1
  std::int32_t inf_is_nan;
  std::int32_t zero_is_positive;
  std::uint64_t seed;         // stochastic rounding, with the position of element (0, 0);
  std::uint64_t first_index;  // element (r, c) counts as first_index + r * cols + c
  std::int32_t scale_rule;    // mode general: ScaleRule and Rounding as numbers
  std::int32_t rounding;
  RowTiles tiles;  // the other modes; from geometry.hpp
};

struct ColumnsArgs {
  QuantizeArgs rows;    // input, rule; codes and scales of the rows where those are written too
  std::uint8_t* codes;  // cols x code_stride bytes: those of the transposed matrix
  std::int64_t code_stride;  // bytes
  std::uint8_t* scales;      // row-major cols x (rows / block), or 128x4 tiles, padding included
  std::int32_t tiled;        // scales are in 128x4 tiles
};

/// A producer and the quantizer behind it. quantize.input: gate, or the one input; its type is that
/// of every dense operand here. quantize.global_scale and the rest as for quantize; seed and
/// first_index are not used.
struct FusedArgs {
  QuantizeArgs quantize;
  const void* second;          // up, or the residual; null: no residual
  std::int64_t second_stride;  // elements
  void* sum;                   // input + residual; may be the residual itself
  std::int64_t sum_stride;     // elements
  const void* weight;          // cols elements; null: none
  float epsilon;
  float scale;               // hadamard_scale(order)
  std::int32_t order;        // of the Hadamard matrix
  std::uint32_t negated[4];  // bit i: element i of each of its blocks changes sign first
  std::int32_t row_threads;  // lane_launch, row_launch of fused_geometry.hpp
  std::int32_t column_pieces;
  std::int64_t turns;     // rows that a thread visits,
  std::int64_t row_step;  // and from one to the next
  std::int32_t whole;     // every warp: 1024 elements that exist of each row, and no row is padding
  std::int64_t input_step;   // row_step in bytes, of the input, of the second input, of codes and
  std::int64_t second_step;  // of row-major scales: constants cost a kernel no registers
  std::int64_t code_step;
  std::int64_t scale_step;
  std::int32_t tiled;  // scales go into 128x4 tiles
};

struct DequantizeArgs {
  const std::uint8_t* codes;
  std::int64_t code_stride;  // bytes
  const std::uint8_t* scales;
  const float* global_scale;  // NVFP4
  void* output;               // rows x cols, 16-byte aligned rows
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;    // elements
  std::int32_t tiled;         // scales are in 128x4 tiles
  std::int32_t column_shift;  // from geometry.hpp
};

struct RepackArgs {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::int64_t lines;
  std::int64_t blocks;  // scale bytes of a line
};

struct AbsMaxArgs {
  const void* input;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;  // elements
  std::uint32_t*
      amax_bits;        // largest magnitude as FP32 bits, NaN ignored; zeroed before the launch
  float* global_scale;  // written by global_scale_kernel from amax_bits
};

struct ContainerArgs {
  const std::uint8_t* input;
  std::uint8_t* output;
  std::int64_t code_bytes;  // of the packed side
};

struct GroupedQuantizeArgs {
  QuantizeArgs all;         // the whole input; global_scale: one float per expert
  const void* expert_rows;  // as grouped::ExpertTable has it: offsets or counts,
  std::int64_t experts;
  std::int64_t capacity;       // grouped::no_capacity: offsets
  std::int32_t wide_numbers;   // of 8 bytes each, else of 4
  std::int32_t rows_per_unit;  // from geometry.hpp
  std::int32_t tiles_per_unit;
};

}  // namespace microscale::cuda
