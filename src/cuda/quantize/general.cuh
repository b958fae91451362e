// Every scale rule and rounding, one thread a block: the defining function itself, for what the
// other kernels leave out (full and four-over-six scales, ties away, toward zero, stochastic
// rounding).
#pragma once

#include <cstdint>

#include "cuda/block/general_context.cuh"
#include "cuda/block/input_chunk.cuh"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

template <class Codec, int Count, bool E8M0, class Input, bool Tiled>
__device__ void quantize_general(const QuantizeArgs& args) {
  const std::int64_t blocks = args.cols / Count;
  const std::int64_t columns = Tiled ? ceil_div(blocks, 4) * 4 : blocks;
  const std::int64_t lines = Tiled ? ceil_div(args.rows, 128) * 128 : args.rows;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t row = thread / columns, block = thread % columns;
  if (row >= lines) return;
  std::uint8_t* scale =
      args.scales + (Tiled ? tiled_128x4::offset(row, block, blocks) : row * blocks + block);
  if (row >= args.rows || block >= blocks) {
    *scale = 0;
    return;
  }
  float values[Count];
  std::uint8_t codes[Count];
  const char* source = static_cast<const char*>(args.input) +
                       (row * args.row_stride + block * Count) * Input::element_bytes;
  for (int i = 0; i < Count; i += chunk_elements) {
    std::uint32_t w[Input::words];
    Input::load(source + i * Input::element_bytes, w);
    for (int k = 0; k < chunk_elements; ++k) values[i + k] = Input::value(w, k);
  }
  const std::uint64_t first =
      args.first_index + static_cast<std::uint64_t>(row * args.cols + block * Count);
  *scale = quantize_block<Codec, Count, E8M0>(
      values, nullptr, general_context<E8M0>(args),
      [first](int i) { return first + static_cast<std::uint64_t>(i); }, codes);
  constexpr int code_bits = Codec::mantissa_bits == 1 ? 4 : 8;
  std::uint8_t* target = args.codes + row * args.code_stride + block * Count * code_bits / 8;
  for (int i = 0; i < Count; i += 8 / code_bits)
    target[i * code_bits / 8] =
        code_bits == 8 ? codes[i]
                       : static_cast<std::uint8_t>(codes[i] | codes[(i + 1) % Count] << 4);
}

// Every scale rule and rounding along columns, one thread a block: the defining function itself.
// Neighbouring threads take neighbouring columns, so loads are coalesced; stores are not.
template <class Codec, int Count, bool E8M0, class Input>
__device__ void quantize_columns_general(const ColumnsArgs& args) {
  const QuantizeArgs& in = args.rows;
  const std::int64_t blocks = in.rows / Count;
  const std::int64_t lines = args.tiled ? ceil_div(in.cols, 128) * 128 : in.cols;
  const std::int64_t columns = args.tiled ? ceil_div(blocks, 4) * 4 : blocks;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t line = thread % lines, block = thread / lines;
  if (block >= columns) return;
  std::uint8_t* scale =
      args.scales + (args.tiled ? tiled_128x4::offset(line, block, blocks) : line * blocks + block);
  if (line >= in.cols || block >= blocks) {
    *scale = 0;
    return;
  }
  float values[Count];
  std::uint8_t codes[Count];
  const char* source = static_cast<const char*>(in.input) +
                       (block * Count * in.row_stride + line) * Input::element_bytes;
  for (int i = 0; i < Count; ++i) {
    std::uint32_t one[Input::words] = {};
    if constexpr (Input::element_bytes == 2)
      one[0] = *reinterpret_cast<const std::uint16_t*>(source);
    else
      one[0] = *reinterpret_cast<const std::uint32_t*>(source);
    values[i] = Input::value(one, 0);
    source += in.row_stride * Input::element_bytes;
  }
  const auto cols = static_cast<std::uint64_t>(in.cols);
  const std::uint64_t first = in.first_index + static_cast<std::uint64_t>(block * Count) * cols +
                              static_cast<std::uint64_t>(line);
  *scale = quantize_block<Codec, Count, E8M0>(
      values, nullptr, general_context<E8M0>(in),
      [first, cols](int i) { return first + static_cast<std::uint64_t>(i) * cols; }, codes);
  constexpr int code_bits = Codec::mantissa_bits == 1 ? 4 : 8;
  std::uint8_t* target = args.codes + line * args.code_stride + block * Count * code_bits / 8;
  for (int i = 0; i < Count; i += 8 / code_bits)
    target[i * code_bits / 8] =
        code_bits == 8 ? codes[i]
                       : static_cast<std::uint8_t>(codes[i] | codes[(i + 1) % Count] << 4);
}

}  // namespace microscale::cuda
