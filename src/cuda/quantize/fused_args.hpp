// The fused kernels: what they are given, how they share rows out, and how much shared memory they
// take for it; functions of the shape alone, like those of args.hpp.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda {

// fused_<producer>_<format>_<dtype>_<mode>, modes plain and search: lane_launch for silu_mul and
// hadamard, row_launch for the others.
inline constexpr std::array<std::string_view, 4> fused_producers{"silu_mul", "rms_norm",
                                                                 "add_rms_norm", "hadamard"};

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
  std::int32_t row_threads;  // lane_launch, row_launch of this header
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

/// Elements of a row that one thread of a fused kernel takes: whole blocks of every format.
inline constexpr int lane_elements = 32;

struct FusedLaunch {
  Launch launch;
  int row_threads;        // neighbouring threads that share a row, or a piece of it
  int column_pieces;      // pieces of a row
  std::int64_t turns;     // rows that a thread visits,
  std::int64_t row_step;  // and from one to the next: what all visit at once
  bool whole;             // every warp: 1024 elements that exist of each row, and no row is padding
};

/// Groups of 32 elements in a row, the padding of tiled scales included.
constexpr std::int64_t lane_groups(std::int64_t cols, int block, bool tiled) {
  const std::int64_t unit = tiled && 4 * block > lane_elements ? 4 * block : lane_elements;
  return ceil_div(cols, unit) * (unit / lane_elements);
}

constexpr std::int64_t narrow_row_threads(std::int64_t groups) {
  std::int64_t threads = 4;
  while (threads < 32 && threads < groups) threads *= 2;
  return threads;
}

constexpr bool whole_warps(std::int64_t rows, std::int64_t cols, bool tiled) {
  return cols % (32 * lane_elements) == 0 && (!tiled || rows % 128 == 0);
}

/// Blocks of 256 threads of a SiLU or Hadamard kernel that a multiprocessor holds.
MICROSCALE_HD constexpr int lane_blocks(int element_bytes) { return element_bytes == 2 ? 3 : 2; }

/// SiLU and Hadamard: a warp takes 1024 elements of a row, or several rows of a narrow matrix, and
/// goes down its columns; as many warps as run at once, so that addresses and tables are made once.
constexpr FusedLaunch lane_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                  int element_bytes, int multiprocessors) {
  constexpr std::int64_t warps = threads_per_block / 32;
  const std::int64_t groups = lane_groups(cols, block, tiled);
  const std::int64_t row_threads = narrow_row_threads(groups), rows_here = 32 / row_threads;
  const std::int64_t columns = ceil_div(groups, row_threads);
  const std::int64_t lines = tiled ? ceil_div(rows, 128) * 128 : rows;
  const std::int64_t resident = multiprocessors * lane_blocks(element_bytes) * warps / columns;
  std::int64_t slots = ceil_div(lines, rows_here);
  if (slots > resident) slots = resident > 0 ? resident : 1;
  const std::int64_t turns = ceil_div(lines, slots * rows_here);
  slots = ceil_div(lines, turns * rows_here);  // no more than these turns need
  return {{static_cast<unsigned>(ceil_div(slots * columns, warps)), 1, 1,
           static_cast<unsigned>(threads_per_block), 0},
          static_cast<int>(row_threads),
          static_cast<int>(columns),
          turns,
          slots * rows_here,
          whole_warps(rows, cols, tiled)};
}

/// Registers of a thread of an RMSNorm kernel: with 72, four blocks of 224 threads (rows of 7168)
/// fit.
MICROSCALE_HD constexpr int row_registers(int element_bytes, bool residual) {
  return element_bytes == 2 ? (residual ? 80 : 72) : 128;
}

/// Shared memory that a warp of a fused kernel copies 1024 elements of a 16-bit type into.
inline constexpr int lane_stage_bytes = 2048;

/// Whether an RMSNorm kernel keeps weights of 16-bit types as they are: widened to FP32 they save
/// instructions, of which codes of 8 bits leave some to spare.
MICROSCALE_HD constexpr bool packs_weights(int code_bits) { return code_bits == 8; }

/// Dynamic shared memory of a warp of an RMSNorm kernel, of 16-bit types: for the input, the
/// residual and the weights.
MICROSCALE_HD constexpr int row_stage_bytes(int element_bytes, bool residual, int code_bits) {
  if (element_bytes != 2) return 64;
  return (residual ? 2 : 1) * lane_stage_bytes +
         (packs_weights(code_bits) ? lane_stage_bytes : 4096);
}

/// RMSNorm: a thread block holds a row (up to 16384 elements in registers), or several of a narrow
/// matrix, and takes a few of them where there are many: with as many blocks as run at once,
/// waiting at barriers in step, all would load or all compute (measured: a fifth slower with a
/// residual).
constexpr FusedLaunch row_launch(std::int64_t rows, std::int64_t cols, int block, bool tiled,
                                 int code_bits, int element_bytes, bool residual,
                                 int multiprocessors) {
  constexpr std::int64_t most = 512;
  const std::int64_t groups = lane_groups(cols, block, tiled);
  std::int64_t row_threads = narrow_row_threads(groups);
  if (groups > 32) row_threads = groups < most ? ceil_div(groups, 32) * 32 : most;
  const std::int64_t threads = row_threads <= 32 ? 128 : row_threads;
  const std::int64_t rows_here = threads / row_threads;
  const std::int64_t lines = tiled ? ceil_div(rows, 128) * 128 : rows;
  const std::int64_t resident =
      multiprocessors * (65536 / (threads * row_registers(element_bytes, residual)));
  // One block alone on its multiprocessor (long rows with a residual) begins less often: 0.86 to
  // 0.88.
  const std::int64_t most_turns = code_bits == 8 || (residual && row_threads <= 256) ? 4 : 8;
  std::int64_t turns = ceil_div(lines, resident * rows_here);
  if (turns > most_turns) turns = most_turns;
  const std::int64_t blocks = ceil_div(lines, turns * rows_here);
  return {{static_cast<unsigned>(blocks), 1, 1, static_cast<unsigned>(threads), 0},
          static_cast<int>(row_threads),
          static_cast<int>(ceil_div(groups, row_threads)),
          turns,
          blocks * rows_here,
          groups > 32 && groups <= most && whole_warps(rows, cols, tiled)};
}

}  // namespace microscale::cuda
