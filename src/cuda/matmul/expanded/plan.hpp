// Products of very many rows of a on Hopper: expands the weights once in the workspace, to elements
// with their scales inside, makes a the same, and multiplies. No arithmetic here, nothing
// allocated, nothing waited for.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/matmul/expanded/args.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::expanded {

/// Rows of a matrix, or of an expert if all have equally many, from which on expanding pays: MXFP8,
/// experts' weights, those whose d is quantized, and FP8 products. Writing a weight costs about 2.5
/// bytes of memory traffic, at 4.2 TB/s what a product spends on 600 rows by being a quarter
/// slower; 128 rows of an expert's last tile are idle on average.
inline constexpr std::int64_t least_rows = 1024;

/// The same of products in FP8, whose kernels are twice as fast as the others. Where tiles are few,
/// more rows are needed.
inline constexpr std::int64_t least_rows_fp8 = 256;

/// Whether MXFP4 by MXFP4 is wanted on FP8's tensor cores (MatmulOptions::fast_accumulation), at
/// twice the rate: products are exact as ever, sums of 128 elements keep 13 bits behind their
/// leading one before FP32 takes them. Operands whose scales FP8 has no room for
/// (cuda/matmul/fp8_window.cuh) are found on the device, and computed without.
bool multiplies_fp8(const Product& product);

/// Whether these kernels quantize d themselves, with the bytes of quantize() of the FP32 d:
/// rounding nearest_even with a scale rule that is a function of a block's largest magnitude (of
/// NVFP4 `nearest`, of MX all but `search`), no profile of another tool, NVFP4's global scale on
/// the device. Otherwise, and where there are experts, d is made in FP32 and quantized by a launch
/// of its own.
bool quantizes(const Product& product);

/// Whether a product that in_registers::takes may be better off here; then `cycles` of both tell.
/// `quantized`: this kernel quantizes d.
bool may_serve(const Product& product, bool quantized);
std::int64_t cycles_of(const DeviceInfo& device, const Product& product);

/// What lies where in the workspace: rows of a, the weights, with FP8 the factors of a; what is 16
/// bits an element comes to the same place; then, with FP8, the weights' references and the words
/// of Fp8Misfit.
struct Plan {
  bool f16 = false;          // elements of 16 bits are FP16, else BF16
  bool fp8 = false;          // multiplied in FP8 where scales fit, else in BF16
  bool quantized = false;    // d is quantized by these kernels
  std::int64_t a_bytes = 0;  // of 16 bits an element
  std::int64_t a8_bytes = 0, weights8_bytes = 0;  // of 8
  std::int64_t element_bytes = 0;                 // of a and the weights, of either size
  std::int64_t reference_bytes = 0;
  std::int64_t workspace_bytes = 0;
  std::int64_t blocks = 0, blocks8 = 0;  // that are launched
};

/// Of a product that in_registers::takes and has elements of d; `quantized` where it `quantizes`.
Plan plan_of(const DeviceInfo& device, const Product& product, bool quantized);
std::string describe(const Plan& plan);

/// Three launches, for an unpacked gate four; with FP8 five. A quantized d takes no more. The same
/// bound as in_registers has; `workspace`: of the plan, at a multiple of 256.
void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::expanded
