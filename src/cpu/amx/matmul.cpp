// The entries of the AMX backend's matrix products. Tiles take what is exact in BF16: a in BF16 or
// block-scaled, weights whose values are normal numbers there. The rest is AVX-512's, and so are
// very few rows, which would leave tiles empty.
#include <algorithm>

#include "cpu/amx/kernels.hpp"
#include "cpu/avx512/kernels.hpp"
#include "cpu/matmul_rows.hpp"

namespace microscale {
namespace {

const MatmulKernels& other() { return avx512_matmul; }

bool by_other(const MatmulProduct& product) {
  return product.m <= amx::most_vector_rows || !product.weights_in_range ||
         (product.a.dense() && product.a.dtype != DType::bf16);
}

bool asks_for_range(const MatmulProduct& product) {
  return by_other(product) ? other().asks_for_range(product) : product.b_format != Format::nvfp4;
}

bool weights_in_range(const MatmulProduct& product, const MatmulRows& b) {
  return by_other(product) ? other().weights_in_range(product, b)
                           : amx::fits_bf16(b, product.n, product.k);
}

std::int64_t prepared_row_bytes(const MatmulProduct& product) {
  return by_other(product) ? other().prepared_row_bytes(product)
                           : amx::prepared_bytes_of_row(product.k);
}

std::int64_t prepared_rows(const MatmulProduct& product) {
  return by_other(product) ? other().prepared_rows(product) : amx::tile_side;
}

void prepare(const MatmulProduct& product, std::int64_t first, std::int64_t count, void* prepared,
             std::uint8_t* odd) {
  if (by_other(product)) return other().prepare(product, first, count, prepared, odd);
  amx::prepare_tiles(product, first, count, prepared, odd);
}

// Few rows are bound by memory: smaller pieces share them out evenly.
MatmulTileShape tile_shape(const MatmulProduct& product) {
  if (by_other(product)) return other().tile_shape(product);
  return {amx::most_tile_rows, product.m <= 32 ? 64 : amx::most_tile_columns};
}

std::int64_t workspace_bytes(const MatmulProduct& product) {
  if (by_other(product)) return other().workspace_bytes(product);
  return amx::tile_workspace(product);
}

void multiply(const MatmulProduct& product, const MatmulTile& tile) {
  if (by_other(product)) return other().multiply(product, tile);
  amx::multiply_tiles(product, tile);
}

void activate(Activation kind, float* gate, const float* up, std::int64_t count) {
  other().activate(kind, gate, up, count);
}

void store(const float* values, std::int64_t count, DType type, void* output) {
  other().store(values, count, type, output);
}

std::int64_t roundings(std::int64_t k) { return std::max(k + 8, other().roundings(k)); }

}  // namespace

const MatmulKernels amx_matmul{
    .supports = cpu::covers_matmul,
    .asks_for_range = asks_for_range,
    .weights_in_range = weights_in_range,
    .prepared_row_bytes = prepared_row_bytes,
    .prepared_rows = prepared_rows,
    .prepare = prepare,
    .tile_shape = tile_shape,
    .workspace_bytes = workspace_bytes,
    .multiply = multiply,
    .activate = activate,
    .store = store,
    .roundings = roundings,
};

}  // namespace microscale
