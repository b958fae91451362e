// The entries of the AMX backend's matrix products. It takes what is exact in BF16: a in BF16 or
// block-scaled; FP16 and FP32 are AVX-512's.
#include "cpu/amx/kernels.hpp"
#include "cpu/matmul_rows.hpp"

namespace microscale {
namespace {

constexpr std::int64_t tile_rows = 512, tile_cols = 256;

// Rows that fill a quarter of a tile at most are better off in vectors.
bool by_vectors(const MatmulProduct& product) {
  return product.m <= amx::most_vector_rows && info(product.b_format).code_bits == 4;
}

bool supports(const MatmulProduct& product) {
  return cpu::covers_matmul(product) && (!product.a.dense() || product.a.dtype == DType::bf16);
}

bool accepts_weights(const MatmulProduct& product, const MatmulRows& b) {
  return by_vectors(product) || amx::fits_bf16(b, product.n, product.k);
}

void prepare(const MatmulProduct& product, std::int64_t first, std::int64_t count, void* prepared,
             std::uint8_t* odd) {
  (by_vectors(product) ? amx::prepare_vectors : amx::prepare_tiles)(product, first, count, prepared,
                                                                    odd);
}

void multiply(const MatmulProduct& product, const MatmulTile& tile) {
  (by_vectors(product) ? amx::multiply_vectors : amx::multiply_tiles)(product, tile);
}

std::int64_t workspace_bytes(const MatmulProduct& product) {
  return by_vectors(product) ? amx::vector_workspace(product) : amx::tile_workspace(product);
}

// Few rows are bound by memory: smaller pieces share them out evenly.
MatmulTileShape tile_shape(const MatmulProduct& product) {
  return {tile_rows, product.m <= 32 ? 64 : tile_cols};
}

}  // namespace

const MatmulKernels amx_matmul{
    .supports = supports,
    .accepts_weights = accepts_weights,
    .prepared_row_bytes = [](const MatmulProduct& product) { return amx::padded(product.k) * 2; },
    .prepared_rows = 16,
    .prepare = prepare,
    .tile_shape = tile_shape,
    .workspace_bytes = workspace_bytes,
    .multiply = multiply,
    .store = amx::store_rounded,
    .roundings = [](std::int64_t k) { return k + 8; },
};

}  // namespace microscale
