#include "cuda/matmul_dense.hpp"

#include <algorithm>
#include <string>

#include "cuda/dense_geometry.hpp"
#include "cuda/launch.hpp"
#include "cuda/matmul_wide_fp8.hpp"

namespace microscale::cuda {
namespace {

// Bytes of the workspace's parts, in their order: a, the weights.
struct Parts {
  std::int64_t a, weights;

  explicit Parts(const WideCall& call)
      : a(token_tiles::bytes(call.rows.m, call.rows.matrices, call.rows.offsets != nullptr,
                             call.k)),
        weights(call.rows.matrices * dense_weight_groups(call.n, call.output.gated != 0) *
                token_tiles::chunks(call.k) * token_tiles::group_bytes) {}
  std::int64_t all() const { return (a + weights + 255) / 256 * 256; }
};

void expand(Device& device, const char* operation, const WideCall& call, bool f16,
            const std::uint32_t* only_if, void* expanded, Stream stream) {
  const FormatInfo& format = info(call.b_format);
  ExpandWeightsArgs args{};
  args.b = call.b;
  args.row_tiles = fragment_tiles::row_tiles(call.n, call.output.gated != 0);
  args.chunks = token_tiles::chunks(call.k);
  args.tiles = call.rows.matrices * args.row_tiles * args.chunks;
  args.expanded = expanded;
  args.only_if = only_if;
  const std::int64_t of_block = 8 * (format.code_bits == 8 ? 2 : expand_tiles);
  launch(device, "matmul_expand_" + std::string(format.name) + (f16 ? "_f16" : "_bf16"), operation,
         {.grid_x = static_cast<unsigned>(ceil_div(args.tiles, of_block)),
          .grid_y = 1,
          .grid_z = 1,
          .threads = threads_per_block,
          .column_shift = 0},
         args, stream);
}

// All that kernels of every element type are told, but for a and the weights.
MatmulDenseArgs dense_args(const WideCall& call, DenseShape shape) {
  MatmulDenseArgs args{};
  args.n = call.n;
  args.k = call.k;
  args.vectors = has_vectors(call.output);
  const std::int64_t columns = dense_weight_groups(call.n, call.output.gated != 0) * 8;
  args.partial = call.rows.offsets != nullptr || call.rows.m % shape.cluster().tokens != 0 ||
                 columns % shape.columns != 0;
  args.rows = call.rows;
  args.output = call.output;
  return args;
}

void multiply(Device& device, const char* operation, const std::string& kind, DenseShape shape,
              int shared_bytes, const MatmulDenseArgs& args, Stream stream) {
  const std::int64_t tiles =
      wide_most_tiles(shape.cluster(), args.n, args.output.gated != 0, args.rows.m,
                      args.rows.matrices, args.rows.offsets != nullptr);
  const std::int64_t clusters = std::max(device.info().multiprocessors / dense_blocks, 1);
  launch(device, "matmul_dense_" + kind, operation,
         {.grid_x = static_cast<unsigned>(dense_blocks * std::min(tiles, clusters)),
          .grid_y = 1,
          .grid_z = 1,
          .threads = wide_threads,
          .column_shift = 0},
         args, stream, shared_bytes);
}

}  // namespace

bool dense_serves(const WideCall& call) {
  const ProductRows& rows = call.rows;
  const std::int64_t each = rows.offsets ? ceil_div(rows.m, rows.matrices) : rows.m;
  return each >= dense_least_rows && !multiplies_fp8(call);
}

std::int64_t dense_workspace_bytes(const WideCall& call) {
  if (call.rows.m == 0 || call.rows.matrices == 0 || call.n == 0) return 0;
  return Parts(call).all();
}

void matmul_dense(Device& device, const char* operation, const WideCall& call, Stream stream) {
  if (call.rows.m == 0 || call.rows.matrices == 0 || call.n == 0) return;
  const bool f16 = multiplies_f16(call.a, call.b_format);
  const Parts parts(call);
  auto* const a = static_cast<char*>(call.workspace);
  MatmulDenseArgs args = dense_args(call, dense_16_shape);
  args.a = a;
  args.b = a + parts.a;
  prepare_wide(device, operation, call, prepare_wide_args(call, f16), stream);
  expand(device, operation, call, f16, args.only_if, a + parts.a, stream);
  multiply(device, operation, f16 ? "f16" : "bf16", dense_16_shape,
           dense_shared(dense_16_shape, false).bytes, args, stream);
}

}  // namespace microscale::cuda
