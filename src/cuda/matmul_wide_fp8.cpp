#include "cuda/matmul_wide_fp8.hpp"

#include <algorithm>

#include "cuda/launch.hpp"
#include "cuda/wide_geometry.hpp"

namespace microscale::cuda {
namespace {

std::int64_t chunks_of(const WideCall& call) { return (call.k + 127) / 128; }

std::int64_t groups_of(const WideCall& call) {
  return token_tiles::all_groups(call.rows.m, call.rows.matrices, call.rows.offsets != nullptr);
}

std::int64_t row_tiles_of(const WideCall& call) {
  return fragment_tiles::row_tiles(call.n, call.output.gated != 0);
}

unsigned at_most(std::int64_t count, std::int64_t most) {
  return static_cast<unsigned>(count < most ? count : most);
}

// Bytes of the workspace's parts, in their order: a, its factors, the weights' references, a word.
struct Parts {
  std::int64_t tokens, factors, references, all;

  explicit Parts(const WideCall& call)
      : tokens(groups_of(call) * chunks_of(call) * token_tiles::group_bytes),
        factors(groups_of(call) * chunks_of(call) * 32),
        references((call.rows.matrices * row_tiles_of(call) * 16 + 15) / 16 * 16),
        all(tokens + factors + references + 16) {}
};

}  // namespace

bool multiplies_fp8(const WideCall& call) {
  return call.fp8 && call.a.format == Format::mxfp4 && call.b_format == Format::mxfp4;
}

std::int64_t fp8_workspace_bytes(const WideCall& call) { return Parts(call).all; }

const std::uint32_t* multiply_fp8(Device& device, const char* operation, const WideCall& call,
                                  const PrepareTilesArgs& a, const MatmulWideArgs& product,
                                  void* workspace, Stream stream) {
  const Parts parts(call);
  auto* tokens = static_cast<std::uint8_t*>(workspace);
  auto* factors = reinterpret_cast<float*>(tokens + parts.tokens);
  std::uint8_t* references = tokens + parts.tokens + parts.factors;
  auto* misfits = reinterpret_cast<std::uint32_t*>(references + parts.references);
  device.set_bytes(misfits, 0, 4, stream);

  const Fp8WindowArgs windows{.b = call.b,
                              .b_matrix = product.b_matrix,
                              .chunks = token_tiles::chunks(call.k),
                              .matrices = call.rows.matrices,
                              .references = references,
                              .misfits = misfits};
  launch(device, "matmul_fp8_windows", operation,
         {.grid_x = static_cast<unsigned>(row_tiles_of(call)),
          .grid_y = at_most(call.rows.matrices, 32768),
          .grid_z = 1,
          .threads = threads_per_block,
          .column_shift = 0},
         windows, stream);

  PrepareFp8Args prepare{.a = a, .factors = factors, .misfits = misfits};
  prepare.a.tiles = tokens;
  launch(device, "matmul_prepare_fp8", operation,
         {.grid_x = static_cast<unsigned>(ceil_div(call.k, 512)),
          .grid_y = at_most(groups_of(call), 32768),
          .grid_z = 1,
          .threads = threads_per_block,
          .column_shift = 0},
         prepare, stream);

  MatmulFp8Args multiply{
      .product = product, .factors = factors, .references = references, .misfits = misfits};
  multiply.product.tiles = tokens;
  const bool experts = call.rows.offsets != nullptr;
  multiply.product.partial = experts || call.rows.m % fp8_shape.tokens != 0;
  const std::int64_t clusters = std::max(device.info().multiprocessors / 2, 1);
  constexpr WideShape pair{2 * fp8_shape.rows, fp8_shape.tokens};  // of a cluster of two blocks
  const std::int64_t tiles = wide_most_tiles(pair, call.n, call.output.gated != 0, call.rows.m,
                                             call.rows.matrices, experts);
  launch(device, "matmul_wide_fp8", operation,
         {.grid_x = 2 * at_most(tiles, clusters),
          .grid_y = 1,
          .grid_z = 1,
          .threads = wide_threads,
          .column_shift = 0},
         multiply, stream, fp8_shared().bytes);
  return misfits;
}

}  // namespace microscale::cuda
