#include "cuda/matmul/expanded/plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "cuda/matmul/product.hpp"
#include "cuda/quantize/choose.hpp"
#include "formats/integers.hpp"

namespace microscale::cuda::expanded {
namespace {

std::int64_t row_tiles_of(const Product& product) {
  return fragment_tiles::row_tiles(product.n, product.gated());
}

// Groups of eight rows of a matrix of weights. Unpacked rows are not filled up to tiles of 16.
std::int64_t weight_groups_of(const Product& product) {
  if (!product.b.packed && !product.gated()) return token_tiles::groups(product.n);
  return padded_weight_groups(product.n, product.gated());
}

Launch line_of_blocks(std::int64_t blocks, unsigned threads) {
  return {.grid_x = static_cast<unsigned>(blocks),
          .grid_y = 1,
          .grid_z = 1,
          .threads = threads,
          .column_shift = 0};
}

// Rows of weights are rows like those of a.
void expand_unpacked(Device& device, const Product& product, const ProductOperand& b, int step,
                     int first, bool f16, void* expanded, Stream stream) {
  PrepareTilesArgs args{};
  args.a = b.data;
  args.a_stride = b.stride;
  args.scales = b.scales;
  args.rows = {product.n, product.rows.matrices, nullptr, 0};
  args.k = product.k;
  args.tiled = b.layout == Layout::tiled_128x4;
  args.f16 = f16;
  args.tiles = expanded;
  args.group_step = step;
  args.group_first = first;
  prepare_tiles(device, product.operation, product.b.format, args, stream);
}

void expand(Device& device, const Product& product, bool f16, const std::uint32_t* only_if,
            void* expanded, Stream stream) {
  if (!product.b.packed) {
    const bool gated = product.gated();
    expand_unpacked(device, product, product.b, gated ? 2 : 1, 0, f16, expanded, stream);
    if (gated) expand_unpacked(device, product, product.up, 2, 1, f16, expanded, stream);
    return;
  }
  const FormatInfo& format = info(product.weights());
  ExpandWeightsArgs args{};
  args.b = product.b.data;
  args.row_tiles = row_tiles_of(product);
  args.chunks = token_tiles::chunks(product.k);
  args.tiles = product.rows.matrices * args.row_tiles * args.chunks;
  args.expanded = expanded;
  args.only_if = only_if;
  const std::int64_t of_block = 8 * (format.code_bits == 8 ? 2 : expand_tiles),
                     most = only_if != nullptr ? blocks_that_rarely_work : 1 << 30;
  launch(device, kernels::matmul_expand(format.name, f16 ? "f16" : "bf16"), product.operation,
         line_of_blocks(std::min(ceil_div(args.tiles, of_block), most), threads_per_block), args,
         stream);
}

// All that kernels of every element type are told, but for a and the weights.
ProductArgs product_args(const Product& product, TileShape shape) {
  ProductArgs args{};
  args.n = product.n;
  args.k = product.k;
  args.vectors = has_vectors(product.output);
  args.weight_groups = weight_groups_of(product);
  args.partial = product.grouped || product.rows.m % shape.cluster().tokens != 0 ||
                 args.weight_groups * 8 % shape.columns != 0;
  args.rows = product.rows;
  args.output = product.output;
  return args;
}

// Four blocks' scales leave together where rows of them begin at words and no two tiles of d share
// a word.
bool has_scale_words(const Product& product, TileShape shape) {
  const QuantizedOutput& d = *product.quantized;
  const std::int64_t word = 4 * info(d.format).block;
  const std::int64_t columns = product.gated() ? shape.columns / 2 : shape.columns;
  return columns % word == 0 &&
         (d.layout == Layout::tiled_128x4 ||
          (product.n % word == 0 && reinterpret_cast<std::uintptr_t>(d.scales.data()) % 4 == 0));
}

BlockShape shape_of_d(const Product& product) {
  return {product.rows.m, product.n, product.quantized->format, BlockAxis::cols,
          product.quantized->layout};
}

ProductBlocks blocks_of(const Product& product, TileShape shape) {
  const QuantizedOutput& d = *product.quantized;
  const BlockShape one = shape_of_d(product);
  ProductBlocks blocks{};
  blocks.quantize.rows = one.rows;
  blocks.quantize.cols = one.cols;
  blocks.quantize.codes = d.codes.data();
  blocks.quantize.code_stride = one.code_bytes_per_line();
  blocks.quantize.scales = d.scales.data();
  blocks.quantize.global_scale =
      info(d.format).e8m0_scale ? nullptr : d.global_scale.device_pointer();
  blocks.quantize.tiles.scale_words = has_scale_words(product, shape);
  set_numerics(blocks.quantize, d.format, d.numerics);
  blocks.codes_matrix = one.code_bytes();
  blocks.scales_matrix = one.scale_bytes();
  blocks.tiled = d.layout == Layout::tiled_128x4;
  return blocks;
}

// The padding of tiled scales that do not leave as words.
void clear_padding(Device& device, const Plan& plan, const Product& product, Stream stream) {
  if (!plan.quantized || product.quantized->layout != Layout::tiled_128x4) return;
  const BlockShape one = shape_of_d(product);
  const bool padded = one.scale_bytes() != one.rows * one.blocks_per_line();
  const bool words =
      has_scale_words(product, shape_16) && (!plan.fp8 || has_scale_words(product, shape_8));
  if (padded && !words)
    device.set_bytes(product.quantized->scales.data(), 0, product.rows.matrices * one.scale_bytes(),
                     stream);
}

std::int64_t blocks_for(const DeviceInfo& device, const Product& product, TileShape shape) {
  const std::int64_t tiles =
      in_registers::most_tiles_of(shape.cluster(), product.n, product.gated(), product.rows.m,
                                  product.rows.matrices, product.grouped);
  const std::int64_t clusters = std::max(device.multiprocessors / cluster_blocks, 1);
  return cluster_blocks * std::min(tiles, clusters);
}

void multiply(Device& device, const Plan& plan, const Product& product, const char* elements,
              const ProductArgs& args, Stream stream) {
  const bool fp8 = args.factors != nullptr;
  const TileShape shape = fp8 ? shape_8 : shape_16;
  const Launch grid = line_of_blocks(fp8 ? plan.blocks8 : plan.blocks, in_registers::block_threads);
  const int shared_bytes = shared_layout(shape, fp8).bytes;
  if (!plan.quantized)
    return launch(device, kernels::matmul_expanded(elements), product.operation, grid, args, stream,
                  shared_bytes);
  launch(device,
         kernels::matmul_expanded_quantized(elements, "to", info(product.quantized->format).name),
         product.operation, grid, QuantizedArgs{args, blocks_of(product, shape)}, stream,
         shared_bytes);
}

// Says in `misfit` where the device is told whether anything has been multiplied.
void multiply_fp8(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
                  const Fp8Misfit& misfit, Stream stream) {
  std::uint8_t* const weights = workspace + plan.a8_bytes;
  auto* const factors = reinterpret_cast<float*>(weights + plan.weights8_bytes);
  std::uint8_t* const references = workspace + plan.element_bytes;

  const ProductRows& of_a = product.rows;
  const std::int64_t groups = token_tiles::all_groups(of_a.m, of_a.matrices, product.grouped),
                     at_once = std::min<std::int64_t>(groups, 32768),
                     row_tiles = row_tiles_of(product);
  const auto parts_of_k = [&](int elements) {
    return static_cast<std::uint32_t>(ceil_div(product.k, elements));
  };
  const std::uint32_t weight_parts = parts_of_k(fp8_pairs * 1024),
                      row_parts = parts_of_k(fp8_pieces * 512);
  const ReadyFp8Args ready{
      .weights = {.b = product.b.data,
                  .row_tiles = row_tiles,
                  .chunks = token_tiles::chunks(product.k),
                  .expanded = weights,
                  .references = references,
                  .parts = weight_parts,
                  .by_parts = divisor(weight_parts)},
      .rows = {.a = prepare_tiles_args(product, false, workspace),
               .factors = factors,
               .parts = row_parts,
               .by_parts = divisor(row_parts),
               .groups_at_once = static_cast<std::uint32_t>(at_once)},
      .misfit = misfit,
      .expanding = static_cast<std::uint32_t>(weight_parts * row_tiles * of_a.matrices),
      .preparing = static_cast<std::uint32_t>(row_parts * at_once)};
  launch(device, kernels::matmul_ready("fp8"), product.operation,
         line_of_blocks(std::int64_t{ready.expanding} + ready.preparing, threads_per_block), ready,
         stream);

  ProductArgs args = product_args(product, shape_8);
  args.a = workspace;
  args.b = weights;
  args.misfit = misfit;
  args.factors = factors;
  args.references = references;
  multiply(device, plan, product, "fp8", args, stream);
}

}  // namespace

bool multiplies_fp8(const Product& product) {
  return product.fast_accumulation && product.a.format == Format::mxfp4 &&
         product.weights() == Format::mxfp4;
}

bool quantizes(const Product& product) {
  if (product.quantized == nullptr) return false;
  const QuantizedOutput& d = *product.quantized;
  const bool e8m0 = info(d.format).e8m0_scale,
             own = d.numerics.compat == Compat::none || d.numerics.compat == Compat::ocp;
  return has_kernels(d.format) && own && !product.grouped &&
         kernel_mode(d.format, d.numerics) == KernelMode::plain &&
         (e8m0 || d.global_scale.device_pointer() != nullptr);
}

bool may_serve(const Product& product, bool quantized) {
  const bool fp8 = multiplies_fp8(product), unpacked = !product.b.packed;
  if (product.rows_each() < (fp8 ? least_rows_fp8 : least_rows)) return false;
  if (unpacked && fp8) return false;
  // Weights of four bits are decoded where they are multiplied, whatever m is, by tiles of 128 x
  // 256.
  return info(product.weights()).code_bits != 4 || product.grouped || fp8 || quantized ||
         (unpacked && !in_registers::takes_unpacked(product));
}

std::int64_t cycles_of(const DeviceInfo& device, const Product& product) {
  const bool fp8 = multiplies_fp8(product);
  return predicted_cycles(fp8 ? shape_8 : shape_16, fp8 ? 128 : 64, product.n, product.k,
                          product.gated(), product.rows.m, product.rows.matrices, product.grouped,
                          device.multiprocessors);
}

Plan plan_of(const DeviceInfo& device, const Product& product, bool quantized) {
  Plan plan;
  plan.f16 = in_registers::multiplies_f16(product, false);
  plan.fp8 = multiplies_fp8(product);
  plan.quantized = quantized;
  plan.blocks = blocks_for(device, product, shape_16);
  const std::int64_t groups = token_tiles::all_groups(product.rows.m, product.rows.matrices,
                                                      product.grouped),
                     weight_groups = product.rows.matrices * weight_groups_of(product),
                     chunks = token_tiles::chunks(product.k), chunks8 = (chunks + 1) / 2;
  plan.a_bytes = groups * chunks * token_tiles::group_bytes;
  std::int64_t elements = plan.a_bytes + weight_groups * chunks * token_tiles::group_bytes;
  if (plan.fp8) {
    plan.blocks8 = blocks_for(device, product, shape_8);
    plan.a8_bytes = groups * chunks8 * token_tiles::group_bytes;
    plan.weights8_bytes = weight_groups * chunks8 * token_tiles::group_bytes;
    elements = std::max(elements, plan.a8_bytes + plan.weights8_bytes + groups * chunks8 * 32);
    plan.reference_bytes = padded(weight_groups * 8);
    plan.workspace_bytes = plan.reference_bytes + 256;
  }
  plan.element_bytes = padded(elements);
  plan.workspace_bytes += plan.element_bytes;
  return plan;
}

std::string describe(const Plan& plan) {
  const TileShape shape = plan.fp8 ? shape_8 : shape_16;
  return fmt::format("expanded {} {}x{}, {} blocks in pairs{}",
                     plan.fp8   ? "fp8"
                     : plan.f16 ? "f16"
                                : "bf16",
                     shape.columns, shape.rows, plan.fp8 ? plan.blocks8 : plan.blocks,
                     plan.quantized ? ", quantizes d" : "");
}

void run(Device& device, const Plan& plan, const Product& product, std::uint8_t* workspace,
         Stream stream) {
  clear_padding(device, plan, product, stream);
  ProductArgs args = product_args(product, shape_16);
  std::uint8_t* const weights = workspace + plan.a_bytes;
  args.a = workspace;
  args.b = weights;
  PrepareTilesArgs rows = prepare_tiles_args(product, plan.f16, workspace);
  if (plan.fp8) {
    std::uint8_t* const words = workspace + plan.element_bytes + plan.reference_bytes;
    args.misfit = {.word = reinterpret_cast<std::uint64_t*>(words),
                   .ticket = next_ticket(),
                   .verdict = reinterpret_cast<std::uint32_t*>(words + 8)};
    args.only_if = rows.only_if = args.misfit.verdict;
    multiply_fp8(device, plan, product, workspace, args.misfit, stream);
  }
  prepare_tiles(device, product.operation, product.a.format, rows, stream);
  expand(device, product, plan.f16, args.only_if, weights, stream);
  multiply(device, plan, product, plan.f16 ? "f16" : "bf16", args, stream);
}

}  // namespace microscale::cuda::expanded
