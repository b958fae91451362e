// Products of many rows of a on Hopper whose kernels decode weights in registers: packed ones, and
// NVFP4 by NVFP4 as they are. Prepares a in the workspace unless it is read as it is, then
// multiplies. No arithmetic here, nothing allocated, nothing waited for.
//
// Sums are FP32 in the order of k, 16 elements an instruction, which aligns its products and the
// sum so far to the largest of them and truncates; of up to 16 rows, 64 elements in turn go to one
// of two such sums, which are added. Where whole tiles of d would leave multiprocessors idle, up to
// most_ranges sums of ranges of k are added: to the last range's the others', in their order.
// An element of d is within (11 k / 16 + 8) * 2^-24 * (sum of |a_i b_i|) of the exact sum before
// the epilogue, k filled up to 64 (docs/matmul_hopper.md). The order depends on shapes, formats,
// how many rows each expert has, and the device's number of multiprocessors alone.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/device/entry.hpp"
#include "cuda/matmul/in_registers/tiling.hpp"
#include "cuda/matmul/product.hpp"

namespace microscale::cuda::in_registers {

/// Rows of a matrix, or of an expert if all have equally many, from which on these kernels serve.
inline constexpr std::int64_t least_rows = 9;

/// Whether there are kernels for these formats on this device: sm_90a; b MXFP4, NVFP4 or MXFP8; a
/// BF16 or one of these formats, or FP16 where b is NVFP4 (FP16 cannot hold a weight of MX with its
/// scale, nor BF16 an element of FP16).
bool takes(const DeviceInfo& device, const Product& product);

/// Whether kernels read these weights as they are, not packed: NVFP4 by rows of NVFP4, k a multiple
/// of 64, codes at multiples of 16 bytes and scales at multiples of 4.
bool takes_unpacked(const Product& product);

/// Whether 16-bit elements are FP16, else BF16: NVFP4 elements fit FP16 with their scale, so NVFP4
/// weights may be multiplied by rows of FP16; and by rows of NVFP4, unless the kernel decodes
/// packed weights, whose order is that of BF16.
bool multiplies_f16(const Product& product, bool decodes_packed);

struct Plan {
  Tiling cut;
  bool reads_rows = false;           // of a as they are: 16-byte pieces
  bool f16 = false;                  // elements of a and decoded weights, else BF16
  std::int64_t token_bytes = 0;      // of a in the workspace
  std::int64_t workspace_bytes = 0;  // those, then sums of ranges of k and flags
};

/// Of a product that is taken and has elements of d.
Plan plan_of(const DeviceInfo& device, const Product& product);
Entry<Args> kernel_of(const Plan& plan, const Product& product);
std::string describe(const Plan& plan);

/// One launch where a is read as it is, else two. `workspace`: of the plan, at a multiple of 256.
void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream);

}  // namespace microscale::cuda::in_registers
