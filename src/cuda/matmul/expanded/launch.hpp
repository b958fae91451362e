// Matrix products of weights and very many rows of a, on Hopper: expands the weights once in
// a workspace, to elements with their scales inside, makes a the same, and multiplies. No
// arithmetic here, nothing allocated, nothing waited for.
#pragma once

#include <cstdint>

#include "cuda/matmul/in_registers/launch.hpp"

namespace microscale::cuda {

/// Rows of a matrix, or of an expert if all have equally many, from which on expanding pays: MXFP8,
/// experts' weights, those whose d is quantized, and FP8 products. Writing a weight costs about 2.5
/// bytes of memory traffic, at 4.2 TB/s what a product spends on 600 rows by being a quarter
/// slower; 128 rows of an expert's last tile are idle on average.
inline constexpr std::int64_t dense_least_rows = 1024;

/// The same of products in FP8, whose kernels are twice as fast as the others. Where tiles are few,
/// more rows are needed.
inline constexpr std::int64_t dense_least_rows_fp8 = 256;

/// Whether a call that matmul_wide takes is better off here.
bool dense_serves(const DeviceInfo& device, const WideCall& call);

/// Whether its weights may be plain: such a call is served, and not in FP8.
bool dense_takes_plain(const DeviceInfo& device, const WideCall& call);

/// Whether matmul_dense quantizes d itself, with the bytes of quantize() of the FP32 d: rounding
/// nearest_even with a scale rule that is a function of a block's largest magnitude (of NVFP4
/// `nearest`, of MX all but `search`), no profile of another tool, NVFP4's global scale on the
/// device. Otherwise, and where there are experts, d is made in FP32 and quantized by a launch of
/// its own.
bool dense_quantizes(const WideCall& call, const QuantizedOutput& d);

/// What matmul_dense needs: a and all weights, 2 bytes an element, rows filled up to 8 a matrix (of
/// a) and to 16 (of the weights), k to 64; with fp8 a byte more for each row of the
/// weights, and 256. As wide_workspace_bytes.
std::int64_t dense_workspace_bytes(const WideCall& call);

/// As matmul_wide, whatever the number of rows, within the same bounds; the workspace of
/// dense_workspace_bytes. Three launches, for a plain gate four; with fp8 five. A quantized d takes
/// no more.
void matmul_dense(Device& device, const char* operation, const WideCall& call, Stream stream);

/// With fp8: of 33 terms an instruction drops less than 2^-13 of the largest each, and as much of
/// the result twice; four instructions a sum of 128, which are then added in FP32.
constexpr std::int64_t fp8_roundings(std::int64_t k) {
  return (std::int64_t{4 * 35} << 11) + (k + 127) / 128 + 2;
}

}  // namespace microscale::cuda
