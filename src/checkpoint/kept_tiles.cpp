#include "checkpoint/kept_tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>

#include "checkpoint/cast_blocks.hpp"
#include "checkpoint/json.hpp"
#include "checkpoint/kept_codes.hpp"
#include "checkpoint/value_hash.hpp"
#include "core/result.hpp"

namespace microscale {
namespace {

std::span<std::uint8_t> first(std::span<std::uint8_t> buffer, std::int64_t count) {
  return buffer.first(static_cast<std::size_t>(count));
}

// A loop that becomes one of vectors, as std::max_element does not.
std::uint8_t largest_of(std::span<const std::uint8_t> bytes) {
  std::uint8_t most = 0;
  for (const std::uint8_t byte : bytes) most = std::max(most, byte);
  return most;
}

}  // namespace

// False where a block is NaN, which is noted. Without `codes` scales alone.
bool KeptTiles::read(const Unit& unit, const Tile& tile, std::span<std::uint8_t> codes,
                     std::span<std::uint8_t> scales) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const BlockCoding& coding = matrix.kept->coding;
  const StoredWeight& weight = *plan_.tensors[matrix.tensor].source->weight;
  take(weight.read_block_tile(matrix.slice, tile, codes, scales));
  const std::int64_t bad = first_nan(coding.format, codes, scales);
  if (bad < 0) return true;
  const std::int64_t at = bad * info(coding.format).block;
  scan_.add_bad({unit.shard, unit.item, tile.row + at / tile.cols, tile.col + at % tile.cols,
                 WeightScan::Bad::nan});
  return false;
}

void KeptTiles::measure(const Unit& unit, const Tile& tile, const TileBuffers& buffers) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const FormatInfo& format = info(matrix.kept->coding.format);
  const auto scales = first(buffers.scales, tile.elements() / format.block);
  if (!read(unit, tile, {}, scales)) return;
  int exponent = INT_MIN;
  const StoredWeight& weight = *plan_.tensors[matrix.tensor].source->weight;
  // The largest scale counts if its block holds a value, and nearly every block does.
  for (int tries = 0; tries < 4 && exponent == INT_MIN; ++tries) {
    const auto most = std::find(scales.begin(), scales.end(), largest_of(scales));
    const std::int64_t at = (most - scales.begin()) * format.block;
    const Tile block{tile.row + at / tile.cols, 1, tile.col + at % tile.cols, format.block};
    std::array<std::uint8_t, 16> codes;
    std::uint8_t scale = 0;
    take(weight.read_block_tile(matrix.slice, block, codes, {&scale, 1}));
    exponent = largest_exponent(codes, {&scale, 1});
    *most = 0;
  }
  if (exponent == INT_MIN) {
    const auto codes = first(buffers.codes, code_bytes(format, tile.elements()));
    if (!read(unit, tile, codes, scales)) return;
    exponent = largest_exponent(codes, scales);
  }
  if (exponent > INT_MIN) scan_.add_amax(matrix.group, amax_for_exponent(exponent));
}

std::optional<KeptTile> KeptTiles::convert(const Unit& unit, const Tile& tile,
                                           const TileBuffers& buffers,
                                           const std::vector<float>& global_scales) {
  const QuantizedMatrix& matrix = matrix_of(unit);
  const KeptBlocks& kept = *matrix.kept;
  const FormatInfo &from = info(kept.coding.format), &to = info(kept.written.format);
  const auto codes = first(buffers.codes, code_bytes(from, tile.elements()));
  const auto read_scales =
      first(kept.cast() ? buffers.input : buffers.scales, tile.elements() / from.block);
  if (!read(unit, tile, codes, read_scales)) return std::nullopt;

  const std::int64_t blocks = tile.elements() / to.block;
  KeptSums sums{.matrices = unit.piece == 0, .blocks = blocks};
  sums.hash_before = hash_of_tile(matrix.slice, tile, kept.coding, codes, read_scales);
  const auto scales = first(buffers.scales, blocks);
  KeptTile result{{kept.written.format, matrix.slice.rows, matrix.slice.cols, tile, codes, scales},
                  kept.stored_global,
                  {}};
  BlockCoding written = kept.written;
  bool same = written == kept.coding;
  if (kept.cast()) {
    const ContainerWriter& writer = writer_of(options_.container);
    const float multiplier = global_scales[matrix.group];
    result.stored_global = writer.global_scale(multiplier);
    written = coding_of_stored(result.stored_global, writer.stores_divisors());
    CastBlocks cast = cast_to_nvfp4(codes, read_scales, multiplier, scales);
    if (cast.searched > 0 && options_.keep_codes->exact) refuse(matrix, cast.searched);
    sums.cast = cast.blocks;
    sums.searched = cast.searched;
    result.error = cast.error;
    // What was not searched has its values, unless products of scales are below FP32's normal ones.
    same = cast.searched == 0 && multiplier >= 0x1p-110f;
  }
  sums.hash_expected =
      same ? sums.hash_before : hash_of_tile(matrix.slice, tile, written, codes, scales);
  hashes_.set(unit, written, sums.hash_expected);
  std::lock_guard lock(mutex_);
  sums_[matrix.tensor].add(sums);
  return result;
}

KeptSums KeptTiles::sums(std::size_t tensor) const {
  std::lock_guard lock(mutex_);
  return sums_[tensor];
}

void KeptTiles::refuse(const QuantizedMatrix& matrix, std::int64_t blocks) const {
  const bool fused = plan_.groups[matrix.group].size() > 1;
  throw Error(
      ErrorCode::bad_input,
      fmt::format("convert: {} blocks of {} have scales too small for NVFP4 beside those of {}; "
                  "--exact rules out to search other codes for them",
                  blocks, in_quotes(matrix.slice.module),
                  fused ? "the layers that it is fused with" : "its other blocks"));
}

}  // namespace microscale
