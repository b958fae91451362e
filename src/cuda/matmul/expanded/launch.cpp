#include "cuda/matmul/expanded/launch.hpp"

#include <algorithm>
#include <string>

#include "cuda/device/call_ticket.hpp"
#include "cuda/matmul/expanded/plan.hpp"
#include "cuda/quantize/kernel_choice.hpp"
#include "cuda/device/launch.hpp"

namespace microscale::cuda {
namespace {

std::int64_t padded(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

std::int64_t row_tiles_of(const WideCall& call) {
  return fragment_tiles::row_tiles(call.n, call.output.gated != 0);
}

// Groups of eight rows of a matrix of weights. Plain rows are not filled up to tiles of 16.
std::int64_t weight_groups_of(const WideCall& call) {
  const bool gated = call.output.gated != 0;
  if (call.b_is_plain && !gated) return token_tiles::groups(call.n);
  return dense_weight_groups(call.n, gated);
}

bool multiplies_fp8(const WideCall& call) {
  return call.fp8 && call.a.format == Format::mxfp4 && call.b_format == Format::mxfp4;
}

// Bytes of the workspace's parts, in their order: rows of a, the weights, with FP8 the factors of
// a; what is 16 bits an element comes to the same place; then, with FP8, the weights' references
// and the words of Fp8Misfit.
struct Parts {
  std::int64_t a, weights;  // of 16 bits
  std::int64_t a8 = 0, weights8 = 0, factors = 0;
  std::int64_t references = 0, words = 0;

  explicit Parts(const WideCall& call) {
    const bool experts = call.rows.expert_rows != nullptr;
    const std::int64_t groups = token_tiles::all_groups(call.rows.m, call.rows.matrices, experts);
    const std::int64_t weight_groups = call.rows.matrices * weight_groups_of(call);
    const std::int64_t chunks = token_tiles::chunks(call.k), chunks8 = (chunks + 1) / 2;
    a = groups * chunks * token_tiles::group_bytes;
    weights = weight_groups * chunks * token_tiles::group_bytes;
    if (!multiplies_fp8(call)) return;
    a8 = groups * chunks8 * token_tiles::group_bytes;
    weights8 = weight_groups * chunks8 * token_tiles::group_bytes;
    factors = groups * chunks8 * 32;
    references = padded(weight_groups * 8);
    words = 256;
  }
  std::int64_t elements() const { return padded(std::max(a + weights, a8 + weights8 + factors)); }
  std::int64_t all() const { return elements() + references + words; }
};

// Rows of weights are rows like those of a.
void expand_plain(Device& device, const char* operation, const WideCall& call,
                  const PlainWeights& plain, int step, int first, bool f16, void* expanded,
                  Stream stream) {
  PrepareTilesArgs args{};
  args.a = plain.codes;
  args.a_stride = call.k * info(call.b_format).code_bits / 8;
  args.scales = plain.scales;
  args.rows = {call.n, call.rows.matrices, nullptr, 0};
  args.k = call.k;
  args.tiled = plain.layout == Layout::tiled_128x4;
  args.f16 = f16;
  args.tiles = expanded;
  args.group_step = step;
  args.group_first = first;
  prepare_wide(device, operation, call.b_format, args, stream);
}

void expand(Device& device, const char* operation, const WideCall& call, bool f16,
            const std::uint32_t* only_if, void* expanded, Stream stream) {
  if (call.b_is_plain) {
    const bool gated = call.output.gated != 0;
    expand_plain(device, operation, call, call.plain, gated ? 2 : 1, 0, f16, expanded, stream);
    if (gated) expand_plain(device, operation, call, call.plain_up, 2, 1, f16, expanded, stream);
    return;
  }
  const FormatInfo& format = info(call.b_format);
  ExpandWeightsArgs args{};
  args.b = call.b;
  args.row_tiles = row_tiles_of(call);
  args.chunks = token_tiles::chunks(call.k);
  args.tiles = call.rows.matrices * args.row_tiles * args.chunks;
  args.expanded = expanded;
  args.only_if = only_if;
  const std::int64_t of_block = 8 * (format.code_bits == 8 ? 2 : expand_tiles),
                     most = only_if != nullptr ? blocks_that_rarely_work : 1 << 30;
  launch(device, "matmul_expand_" + std::string(format.name) + (f16 ? "_f16" : "_bf16"), operation,
         {.grid_x = static_cast<unsigned>(std::min(ceil_div(args.tiles, of_block), most)),
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
  args.weight_groups = weight_groups_of(call);
  args.partial = call.rows.expert_rows != nullptr || call.rows.m % shape.cluster().tokens != 0 ||
                 args.weight_groups * 8 % shape.columns != 0;
  args.rows = call.rows;
  args.output = call.output;
  return args;
}

// Four blocks' scales leave together where rows of them begin at words and no two tiles of d share
// a word.
bool has_scale_words(const WideCall& call, DenseShape shape) {
  const QuantizedOutput& d = *call.quantized;
  const std::int64_t word = 4 * info(d.format).block;
  const std::int64_t columns = call.output.gated ? shape.columns / 2 : shape.columns;
  return columns % word == 0 &&
         (d.layout == Layout::tiled_128x4 ||
          (call.n % word == 0 && reinterpret_cast<std::uintptr_t>(d.scales.data()) % 4 == 0));
}

BlockShape shape_of_d(const WideCall& call) {
  return {call.rows.m, call.n, call.quantized->format, BlockAxis::cols, call.quantized->layout};
}

ProductBlocks blocks_of(const WideCall& call, DenseShape shape) {
  const QuantizedOutput& d = *call.quantized;
  const BlockShape one = shape_of_d(call);
  ProductBlocks blocks{};
  blocks.quantize.rows = one.rows;
  blocks.quantize.cols = one.cols;
  blocks.quantize.codes = d.codes.data();
  blocks.quantize.code_stride = one.code_bytes_per_line();
  blocks.quantize.scales = d.scales.data();
  blocks.quantize.global_scale = info(d.format).e8m0_scale ? nullptr : d.device_global_scale;
  blocks.quantize.tiles.scale_words = has_scale_words(call, shape);
  set_numerics(blocks.quantize, d.format, d.numerics);
  blocks.codes_matrix = one.code_bytes();
  blocks.scales_matrix = one.scale_bytes();
  blocks.tiled = d.layout == Layout::tiled_128x4;
  return blocks;
}

// The padding of tiled scales that do not leave as words.
void clear_padding(Device& device, const WideCall& call, Stream stream) {
  if (call.quantized == nullptr || call.quantized->layout != Layout::tiled_128x4) return;
  const BlockShape one = shape_of_d(call);
  const bool padded = one.scale_bytes() != one.rows * one.blocks_per_line();
  const bool words = has_scale_words(call, dense_16_shape) &&
                     (!multiplies_fp8(call) || has_scale_words(call, dense_8_shape));
  if (padded && !words)
    device.set_bytes(call.quantized->scales.data(), 0, call.rows.matrices * one.scale_bytes(),
                     stream);
}

void multiply(Device& device, const char* operation, const WideCall& call, const std::string& kind,
              DenseShape shape, int shared_bytes, const MatmulDenseArgs& args, Stream stream) {
  const std::int64_t tiles =
      wide_most_tiles(shape.cluster(), args.n, args.output.gated != 0, args.rows.m,
                      args.rows.matrices, args.rows.expert_rows != nullptr);
  const std::int64_t clusters = std::max(device.info().multiprocessors / dense_blocks, 1);
  const Launch grid{.grid_x = static_cast<unsigned>(dense_blocks * std::min(tiles, clusters)),
                    .grid_y = 1,
                    .grid_z = 1,
                    .threads = wide_threads,
                    .column_shift = 0};
  const std::string kernel = "matmul_dense_" + kind;
  if (call.quantized == nullptr)
    return launch(device, kernel, operation, grid, args, stream, shared_bytes);
  launch(device, kernel + "_to_" + std::string(info(call.quantized->format).name), operation, grid,
         MatmulDenseBlocksArgs{args, blocks_of(call, shape)}, stream, shared_bytes);
}

// Says in `misfit` where the device is told whether anything has been multiplied.
void multiply_fp8(Device& device, const char* operation, const WideCall& call, const Parts& parts,
                  const Fp8Misfit& misfit, Stream stream) {
  auto* const a = static_cast<std::uint8_t*>(call.workspace);
  std::uint8_t* const weights = a + parts.a8;
  auto* const factors = reinterpret_cast<float*>(weights + parts.weights8);
  std::uint8_t* const references = a + parts.elements();

  const std::int64_t groups = token_tiles::all_groups(call.rows.m, call.rows.matrices,
                                                      call.rows.expert_rows != nullptr),
                     at_once = std::min<std::int64_t>(groups, 32768),
                     row_tiles = row_tiles_of(call);
  const auto parts_of_k = [&](int elements) {
    return static_cast<std::uint32_t>(ceil_div(call.k, elements));
  };
  const std::uint32_t weight_parts = parts_of_k(fp8_pairs * 1024),
                      row_parts = parts_of_k(fp8_pieces * 512);
  const ReadyFp8Args ready{
      .weights = {.b = call.b,
                  .row_tiles = row_tiles,
                  .chunks = token_tiles::chunks(call.k),
                  .expanded = weights,
                  .references = references,
                  .parts = weight_parts,
                  .by_parts = divisor(weight_parts)},
      .rows = {.a = prepare_wide_args(call, false),
               .factors = factors,
               .parts = row_parts,
               .by_parts = divisor(row_parts),
               .groups_at_once = static_cast<std::uint32_t>(at_once)},
      .misfit = misfit,
      .expanding = static_cast<std::uint32_t>(weight_parts * row_tiles * call.rows.matrices),
      .preparing = static_cast<std::uint32_t>(row_parts * at_once)};
  launch(device, "matmul_ready_fp8", operation,
         {.grid_x = ready.expanding + ready.preparing,
          .grid_y = 1,
          .grid_z = 1,
          .threads = threads_per_block,
          .column_shift = 0},
         ready, stream);

  MatmulDenseArgs args = dense_args(call, dense_8_shape);
  args.a = a;
  args.b = weights;
  args.misfit = misfit;
  args.factors = factors;
  args.references = references;
  multiply(device, operation, call, "fp8", dense_8_shape, dense_shared(dense_8_shape, true).bytes,
           args, stream);
}

}  // namespace

bool dense_serves(const DeviceInfo& device, const WideCall& call) {
  const ProductRows& rows = call.rows;
  if (rows.m == 0 || rows.matrices == 0 || call.n == 0) return false;
  const bool experts = rows.expert_rows != nullptr, fp8 = multiplies_fp8(call);
  const std::int64_t each = experts ? ceil_div(rows.m, rows.matrices) : rows.m;
  if (each < (fp8 ? dense_least_rows_fp8 : dense_least_rows)) return false;
  // Weights of four bits are decoded where they are multiplied, whatever m is, by tiles of 128 x
  // 256.
  const bool decoded = info(call.b_format).code_bits == 4 && !experts && !fp8 &&
                       call.quantized == nullptr && (!call.b_is_plain || wide_takes_plain(call));
  if (decoded) return false;
  const std::int64_t cycles =
      dense_cycles(fp8 ? dense_8_shape : dense_16_shape, fp8 ? 128 : 64, call.n, call.k,
                   call.output.gated != 0, rows.m, rows.matrices, experts, device.multiprocessors);
  // In products so long, decoding and products do not overlap at all, as measured.
  return 6 * cycles < 7 * wide_cycles_of(device, call);
}

bool dense_takes_plain(const DeviceInfo& device, const WideCall& call) {
  return dense_serves(device, call) && !multiplies_fp8(call);
}

bool dense_quantizes(const WideCall& call, const QuantizedOutput& d) {
  const bool e8m0 = info(d.format).e8m0_scale,
             kernels = d.format == Format::mxfp4 || d.format == Format::nvfp4 ||
                       d.format == Format::mxfp8_e4m3 || d.format == Format::mxfp8_e5m2,
             own = d.numerics.compat == Compat::none || d.numerics.compat == Compat::ocp;
  return kernels && own && call.rows.expert_rows == nullptr &&
         kernel_mode(d.format, d.numerics) == KernelMode::plain &&
         (e8m0 || d.device_global_scale != nullptr);
}

std::int64_t dense_workspace_bytes(const WideCall& call) {
  if (call.rows.m == 0 || call.rows.matrices == 0 || call.n == 0) return 0;
  return Parts(call).all();
}

void matmul_dense(Device& device, const char* operation, const WideCall& call, Stream stream) {
  if (call.rows.m == 0 || call.rows.matrices == 0 || call.n == 0) return;
  const bool f16 = multiplies_f16(call.a, call.b_format, false);
  const Parts parts(call);
  auto* const a = static_cast<char*>(call.workspace);
  clear_padding(device, call, stream);
  MatmulDenseArgs args = dense_args(call, dense_16_shape);
  args.a = a;
  args.b = a + parts.a;
  PrepareTilesArgs rows = prepare_wide_args(call, f16);
  if (multiplies_fp8(call)) {
    char* const words = a + parts.elements() + parts.references;
    args.misfit = {.word = reinterpret_cast<std::uint64_t*>(words),
                   .ticket = next_ticket(),
                   .verdict = reinterpret_cast<std::uint32_t*>(words + 8)};
    args.only_if = rows.only_if = args.misfit.verdict;
    multiply_fp8(device, operation, call, parts, args.misfit, stream);
  }
  prepare_wide(device, operation, call.a.format, rows, stream);
  expand(device, operation, call, f16, args.only_if, a + parts.a, stream);
  multiply(device, operation, call, f16 ? "f16" : "bf16", dense_16_shape,
           dense_shared(dense_16_shape, false).bytes, args, stream);
}

}  // namespace microscale::cuda
