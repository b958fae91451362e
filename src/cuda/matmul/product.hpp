// A checked matrix product as its kernels are chosen and launched from it: where operands lie,
// the shape, and what becomes of the sums. All memory is the device's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/device/device.hpp"
#include "cuda/matmul/args.hpp"
#include "microscale/tensor.hpp"
#include "seam/matmul_call.hpp"

namespace microscale::cuda {

/// One side of a product, of all its matrices one after the other.
struct ProductOperand {
  std::optional<Format> format{};  ///< none: dense, of `type`
  DType type = DType::bf16;
  const std::uint8_t* data = nullptr;  ///< elements; codes; or packed tiles, a gate's and up's
  std::int64_t stride = 0;             ///< bytes from row to row; codes: a row's bytes
  const std::uint8_t* scales = nullptr;
  Layout layout = Layout::row_major;  ///< of the scales; tiles of each matrix by itself
  bool packed = false;                ///< weights in layouts/fragment_tiles.hpp, scales among them
};

struct Product {
  const char* operation = "matmul";  ///< as errors name it
  ProductOperand a, b{.format = Format::mxfp4};
  ProductOperand up{};   ///< of a gated product whose weights are not packed, of b's format
  std::int64_t n = 0;    ///< columns of d
  std::int64_t k = 0;    ///< a multiple of both blocks
  bool grouped = false;  ///< rows are experts', as rows.expert_rows says
  ProductRows rows{};
  ProductOutput output{};                      ///< where d is quantized: of its sums, in FP32
  const QuantizedOutput* quantized = nullptr;  ///< d as blocks; null: dense, in output.d
  bool constant_weights = false;               ///< as in MatmulOptions, as the next
  bool fast_accumulation = false;

  bool gated() const { return output.gated != 0; }
  Format weights() const { return *b.format; }
  /// Rows of a and d of all matrices.
  std::int64_t all_rows() const { return grouped ? rows.m : rows.m * rows.matrices; }
  /// Rows of a matrix; of an expert if all have equally many, rounded up.
  std::int64_t rows_each() const {
    return grouped && rows.matrices > 0 ? (rows.m + rows.matrices - 1) / rows.matrices : rows.m;
  }
  bool empty() const { return rows.m == 0 || rows.matrices == 0 || n == 0; }
};

/// The product of a call, its output without the memory of sums: output.d is null where d is
/// quantized. The result points into what `call` refers to.
Product product_of(const MatmulCall& call);

/// Whether the GPU multiplies this format at all.
bool has_kernels(Format format);

/// Bytes of the scales of one matrix of `rows` rows.
std::int64_t scale_bytes(const ProductOperand& blocks, std::int64_t rows, std::int64_t k);

/// Bytes of a tile of packed weights, 16 rows x 64 columns.
int packed_tile_bytes(Format format);

/// Whether every piece of eight columns of d begins at a multiple of 16 bytes.
bool has_vectors(const ProductOutput& out);

/// What backend cuda refuses of a product that check_matmul has passed: formats, types and shapes.
/// Throws Error.
void check_product(const MatmulCall& call);

/// What pointers can break: each buffer there, aligned, on this device, and apart from what is
/// written; a workspace of `workspace_bytes`. Throws Error.
void check_memory(Device& device, const MatmulCall& call, const Product& product,
                  std::span<std::uint8_t> workspace, std::int64_t workspace_bytes);

// Launches what makes rows of an operand ready for the kernels of many rows: elements of 16 bits
// with their scales inside, in tiles (layouts/token_tiles.hpp).

/// Blocks of a kernel that most likely finds nothing to do (PrepareTilesArgs::only_if).
inline constexpr std::int64_t blocks_that_rarely_work = 256;

/// a of `product`, to `tiles`.
PrepareTilesArgs prepare_tiles_args(const Product& product, bool f16, void* tiles);

/// `format`: of the rows; none: dense.
void prepare_tiles(Device& device, const char* operation, const std::optional<Format>& format,
                   const PrepareTilesArgs& args, Stream stream);

}  // namespace microscale::cuda
