// Products of two block-scaled operands on consumer Blackwell (compute capability 12.x), by matrix
// instructions that take codes and scales as they are. docs/matmul_blackwell.md has the design.
#pragma once

#include <cstdint>
#include <string>

#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"
#include "microscale/tensor.hpp"

namespace microscale::cuda {

/// One operand in device memory, 16-byte aligned: codes of all rows, and scales. Those of a's
/// matrices follow each other as ProductRows says (in tiles: each padded by itself, as
/// grouped_quantize_into writes them); those of b follow at shape.code_bytes() and
/// shape.scale_bytes() of one.
struct BlockScaledOperand {
  Format format = Format::nvfp4;
  Layout layout = Layout::row_major;
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
};

struct BlockScaledProduct {
  BlockScaledOperand a;
  BlockScaledOperand b;       // gated: the gate
  BlockScaledOperand up;      // gated: of b's format and shape, in a layout of its own
  std::int64_t n = 0, k = 0;  // k: a multiple of both blocks
  ProductRows rows{};
  ProductOutput output{};  // gated says whether up takes part
};

/// Whether there is a kernel for these formats: NVFP4 x NVFP4, MXFP4 x MXFP4, MXFP8 x MXFP8 (any
/// of E4M3 and E5M2), MXFP8 E4M3 x MXFP4.
bool block_scaled_pair_offered(Format a, Format b);

/// "matmul_block_scaled_nvfp4_nvfp4", or "matmul_block_scaled_split_nvfp4_nvfp4", which shares K
/// out where tiles are few.
std::string block_scaled_kernel(Format a, Format b, bool split = false);

/// One launch, no workspace, nothing waited for; nothing where d is empty. Operands are the
/// caller's to check. Throws Error{unsupported}, naming `operation`, where the device has no such
/// kernel or the product has more tiles than a grid.
void block_scaled_product(Device& device, const BlockScaledProduct& product, const char* operation,
                          Stream stream);

}  // namespace microscale::cuda
