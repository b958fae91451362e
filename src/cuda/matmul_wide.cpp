#include "cuda/matmul_wide.hpp"

#include <string>

#include "cuda/kernels.hpp"
#include "cuda/launch.hpp"
#include "cuda/wide_geometry.hpp"

namespace microscale::cuda {
namespace {

bool has_kernels(Format format) {
  return format == Format::mxfp4 || format == Format::nvfp4 || format == Format::mxfp8_e4m3 ||
         format == Format::mxfp8_e5m2;
}

// NVFP4 elements fit FP16 with their scale, and are decoded faster to it.
bool multiplies_f16(const WideInput& a, Format b_format) {
  if (b_format != Format::nvfp4) return false;
  return a.format ? *a.format == Format::nvfp4 : a.type == DType::f16;
}

int tile_bytes_of(Format format) {
  const FormatInfo& facts = info(format);
  return static_cast<int>(fragment_tiles::tile_bytes(facts.code_bits, facts.block));
}

PrepareTilesArgs prepare_args(const WideCall& call, bool f16) {
  PrepareTilesArgs args{};
  args.a = call.a.data;
  args.a_stride = call.a.stride;
  args.scales = call.a.scales;
  args.rows = call.rows;
  args.k = call.k;
  args.tiled = call.a.format && call.a.layout == Layout::tiled_128x4;
  args.f16 = f16;
  args.tiles = call.workspace;
  return args;
}

// Whether every piece of eight columns of d begins at a multiple of 16 bytes.
bool has_vectors(const ProductOutput& out) {
  const std::int64_t element = size_of(static_cast<DType>(out.d_type));
  return reinterpret_cast<std::uintptr_t>(out.d) % 16 == 0 && out.d_stride * element % 16 == 0 &&
         out.d_matrix * element % 16 == 0;
}

}  // namespace

bool wide_takes(const DeviceInfo& device, const WideInput& a, Format b_format) {
  if (architecture_of(device) != "sm_90a" || !has_kernels(b_format)) return false;
  if (a.format) return has_kernels(*a.format);
  return a.type == DType::bf16 || (a.type == DType::f16 && b_format == Format::nvfp4);
}

std::int64_t wide_workspace_bytes(const ProductRows& rows, std::int64_t k) {
  return token_tiles::bytes(rows.m, rows.matrices, rows.offsets != nullptr, k);
}

void matmul_wide(Device& device, const char* operation, const WideCall& call, Stream stream) {
  const ProductRows& rows = call.rows;
  const bool experts = rows.offsets != nullptr, gated = call.output.gated != 0;
  if (rows.m == 0 || rows.matrices == 0 || call.n == 0) return;
  const bool f16 = multiplies_f16(call.a, call.b_format);
  const std::string_view b_name = info(call.b_format).name;

  const std::int64_t groups = token_tiles::all_groups(rows.m, rows.matrices, experts);
  const std::int64_t chunks = token_tiles::chunks(call.k);
  const std::string kind = call.a.format ? std::string(info(*call.a.format).name) : "dense";
  const Launch prepare{.grid_x = static_cast<unsigned>(ceil_div(chunks, 4)),
                       .grid_y = static_cast<unsigned>(groups < 32768 ? groups : 32768),
                       .grid_z = 1,
                       .threads = threads_per_block,
                       .column_shift = 0};
  launch(device, "matmul_prepare_tiles_" + kind, operation, prepare, prepare_args(call, f16),
         stream);

  const FormatInfo& format = info(call.b_format);
  const int tile_bytes = tile_bytes_of(call.b_format);
  const int multiprocessors = device.info().multiprocessors;
  const WideShape shape =
      wide_shape(call.n, gated, rows.m, rows.matrices, experts, tile_bytes, multiprocessors);
  const std::int64_t tiles =
      wide_most_tiles(shape, call.n, gated, rows.m, rows.matrices, experts);
  MatmulWideArgs args{};
  args.tiles = call.workspace;
  args.b = call.b;
  args.b_matrix =
      fragment_tiles::matrix_bytes(call.n, call.k, gated, format.code_bits, format.block);
  args.n = call.n;
  args.k = call.k;
  args.vectors = has_vectors(call.output);
  args.partial = experts || rows.m % shape.tokens != 0;
  args.rows = rows;
  args.output = call.output;
  const Launch product{
      .grid_x = static_cast<unsigned>(tiles < multiprocessors ? tiles : multiprocessors),
      .grid_y = 1,
      .grid_z = 1,
      .threads = wide_threads,
      .column_shift = 0};
  launch(device,
         "matmul_wide_" + std::string(b_name) + (f16 ? "_f16_" : "_bf16_") +
             std::to_string(shape.rows) + "x" + std::to_string(shape.tokens),
         operation, product, args, stream, wide_shared(shape, tile_bytes).bytes);
}

}  // namespace microscale::cuda
