// Which way a product of many rows is cut into tiles of d, and these among blocks: the one that
// takes the fewest cycles, as predicted.
#include "cuda/matmul/in_registers/plan.hpp"

#include <fmt/format.h>

#include "cuda/device/kernels.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::in_registers {
namespace {

// Whether the product's kernel reads a as it is.
bool reads_rows(const ProductOperand& a) {
  return !a.format && reinterpret_cast<std::uintptr_t>(a.data) % 16 == 0 && a.stride % 16 == 0 &&
         a.stride < std::int64_t{1} << 40;
}

/// Experts of unpacked weights, whose last tiles are smaller (TileShape::token_step), all tiles
/// taken whole: a block's share, and part of the smallest tile, since the largest are dealt out
/// first; or rounds of the largest. Some have an eighth more rows than others, some an eighth
/// fewer.
std::int64_t experts_cycles(TileShape shape, const TileCosts& costs, std::int64_t columns,
                            std::int64_t rows, std::int64_t experts, std::int64_t chunks,
                            int tile_bytes, int multiprocessors) {
  const auto tile = [&](std::int64_t own) {
    return stage_cycles(shape, shape.multiplied_tokens(own), tile_bytes, true) * chunks +
           costs.tile;
  };
  const auto column = [&](std::int64_t own) {
    const std::int64_t last = own % shape.tokens;
    return own / shape.tokens * tile(shape.tokens) + (last > 0 ? tile(last) : 0);
  };
  const auto rounds = [&](std::int64_t tiles) {
    return (columns * experts * tiles + multiprocessors - 1) / multiprocessors;
  };
  const std::int64_t three = column(rows - rows / 8) + column(rows) + column(rows + rows / 8 + 1),
                     share = columns * experts * three / 3 / multiprocessors + tile(1) / 4,
                     whole = rounds(rows / shape.tokens) * tile(shape.tokens),
                     all = rounds(tiles_down_of(shape, rows)) *
                           tile(rows % shape.tokens > 0 ? rows % shape.tokens : shape.tokens);
  return share > whole && share > all ? share : whole > all ? whole : all;
}

}  // namespace

CutChoice best_cut(const TileCosts& costs, std::int64_t tiles, std::int64_t chunks,
                   int multiprocessors) {
  CutChoice best{{}, -1};
  for (int way = 0; way < cut_ways; ++way) {
    const CutChoice choice =
        cut_choice(costs, static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(chunks),
                   static_cast<std::uint32_t>(multiprocessors), way);
    if (choice.cycles >= 0 && (best.cycles < 0 || choice.cycles < best.cycles)) best = choice;
  }
  return best;
}

std::int64_t most_tiles_of(TileShape shape, std::int64_t n, bool gated, std::int64_t rows,
                           std::int64_t matrices, bool experts) {
  return column_tiles_of(shape, n, gated) *
         (experts ? rows / shape.tokens + matrices : matrices * tiles_down_of(shape, rows));
}

Tiling tiling_of(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                 std::int64_t matrices, bool experts, int tile_bytes, bool unpacked,
                 int multiprocessors) {
  Tiling best{};
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  for (const TileShape shape : tile_shapes) {
    const bool sized = unpacked && shape.token_sizes() > 1 && own > shape.token_step();
    if (experts && shape.tokens == 256 && !sized) continue;
    const TileCosts costs = tile_costs(shape, tile_bytes, unpacked, !experts);
    const std::int64_t columns = column_tiles_of(shape, n, gated), chunks = token_tiles::chunks(k),
                       equal = columns * tiles_down_of(shape, own) * matrices,
                       halves = columns * (rows / shape.tokens + matrices / 2);
    const CutChoice choice = best_cut(costs, equal, chunks, multiprocessors);
    Tiling plan{.shape = shape,
                .cut = choice.cut,
                .cut_by_kernel = false,
                .most_tiles = most_tiles_of(shape, n, gated, rows, matrices, experts),
                .blocks = 0,
                .cycles = choice.cycles};
    if (experts) {
      const CutChoice other =
          best_cut(costs, halves > equal ? halves : equal, chunks, multiprocessors);
      plan.cycles = (choice.cycles + other.cycles) / 2;
      plan.cut_by_kernel =
          shape.tokens < 256 && plan.most_tiles <= 4 * multiprocessors && chunks >= least_share;
      plan.cut = {};
      if (sized) {
        const std::int64_t whole = experts_cycles(shape, costs, columns, own, matrices, chunks,
                                                  tile_bytes, multiprocessors);
        if (whole < plan.cycles || !plan.cut_by_kernel) plan.cycles = whole;
      }
    }
    if (best.most_tiles > 0 && plan.cycles >= best.cycles) continue;
    const std::int64_t whole = plan.most_tiles - plan.cut.tiles;
    plan.blocks = plan.cut_by_kernel || whole > multiprocessors ? multiprocessors : whole;
    if (plan.cut.blocks > plan.blocks) plan.blocks = plan.cut.blocks;
    best = plan;
  }
  return best;
}

bool takes(const DeviceInfo& device, const Product& product) {
  if (architecture_of(device) != "sm_90a" || !has_kernels(product.weights())) return false;
  const ProductOperand& a = product.a;
  if (a.format) return has_kernels(*a.format);
  return a.type == DType::bf16 || (a.type == DType::f16 && product.weights() == Format::nvfp4);
}

bool takes_unpacked(const Product& product) {
  const auto aligned = [](const ProductOperand& b) {
    return reinterpret_cast<std::uintptr_t>(b.data) % 16 == 0 &&
           reinterpret_cast<std::uintptr_t>(b.scales) % 4 == 0;
  };
  return product.a.format == Format::nvfp4 && product.weights() == Format::nvfp4 &&
         product.k % 64 == 0 && aligned(product.b) && (!product.gated() || aligned(product.up));
}

bool multiplies_f16(const Product& product, bool decodes_packed) {
  if (product.weights() != Format::nvfp4) return false;
  const ProductOperand& a = product.a;
  return a.format ? *a.format == Format::nvfp4 && !decodes_packed : a.type == DType::f16;
}

Plan plan_of(const DeviceInfo& device, const Product& product) {
  const ProductRows& rows = product.rows;
  Plan plan;
  plan.cut =
      tiling_of(product.n, product.k, product.gated(), rows.m, rows.matrices, product.grouped,
                packed_tile_bytes(product.weights()), !product.b.packed, device.multiprocessors);
  plan.reads_rows = reads_rows(product.a);
  plan.f16 = multiplies_f16(product, product.b.packed);
  if (!plan.reads_rows)
    plan.token_bytes = token_tiles::bytes(rows.m, rows.matrices, product.grouped, product.k);
  plan.workspace_bytes =
      (plan.token_bytes + plan.cut.sums_bytes() + plan.cut.flag_bytes() + 255) / 256 * 256;
  return plan;
}

std::string describe(const Plan& plan) {
  const Tiling& cut = plan.cut;
  std::string text =
      fmt::format("in_registers {}x{}, {} blocks", cut.shape.rows, cut.shape.tokens, cut.blocks);
  if (cut.cut_by_kernel) text += ", tiles cut on the device";
  if (cut.cut.tiles > 0)
    text += fmt::format(", {} tiles in {} parts{}", cut.cut.tiles, cut.cut.blocks,
                        cut.cut.paired ? ", in pairs" : "");
  return text;
}

}  // namespace microscale::cuda::in_registers
