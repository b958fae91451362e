#include "checkpoint/containers/stored_weight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/json.hpp"
#include "formats/half.hpp"
#include "reference/dense.hpp"

namespace microscale {

StoredWeight::StoredWeight(WeightFacts facts) : facts_(std::move(facts)) {
  for (const std::int64_t size : facts_.shape) elements_ *= size;
}

std::uint64_t StoredWeight::bytes() const {
  std::uint64_t sum = 0;
  for (const ModelTensor* part : facts_.parts) sum += part->entry->bytes();
  return sum;
}

Status StoredWeight::read_tile(const MatrixSlice& slice, const Tile& tile,
                               std::span<std::uint8_t> out, std::span<std::uint8_t> scratch) const {
  const std::int64_t size = value_bytes();
  return microscale::read_tile(
      [this, size](std::int64_t element, std::span<std::uint8_t> values) {
        return decode(element, static_cast<std::int64_t>(values.size()) / size, values);
      },
      slice, tile, size, out, scratch);
}

void StoredWeight::will_need(std::int64_t, std::int64_t) const {}

Status StoredWeight::read_blocks(std::int64_t, std::int64_t, std::span<std::uint8_t>,
                                 std::span<std::uint8_t>) const {
  return Failure{ErrorCode::unsupported, fmt::format("{} is {}, which is none of the block formats",
                                                     in_quotes(name()), facts_.description)};
}

std::optional<BlockCoding> StoredWeight::coding_of(const MatrixSlice& slice) const {
  const BlockCoding* coding = blocks();
  if (!coding || slice.col_step != 1) return std::nullopt;
  const std::int64_t block = info(coding->format).block;
  const bool whole =
      slice.cols % block == 0 && slice.first % block == 0 && slice.row_step % block == 0;
  return whole ? std::optional(*coding) : std::nullopt;
}

Status StoredWeight::read_block_tile(const MatrixSlice& slice, const Tile& tile,
                                     std::span<std::uint8_t> codes,
                                     std::span<std::uint8_t> scales) const {
  if (tile.elements() == 0) return success();
  const bool whole_rows = tile.cols == slice.row_step;
  const std::int64_t runs = whole_rows ? 1 : tile.rows;
  const std::size_t run_codes = codes.size() / static_cast<std::size_t>(runs);
  const std::size_t run_scales = scales.size() / static_cast<std::size_t>(runs);
  for (std::int64_t run = 0; run < runs; ++run) {
    const auto at = static_cast<std::size_t>(run);
    Status read = read_blocks(slice.element(tile.row + run, tile.col), tile.elements() / runs,
                              codes.subspan(at * run_codes, run_codes),
                              scales.subspan(at * run_scales, run_scales));
    if (!read) return read;
  }
  return success();
}

void convert_values(std::span<const std::uint8_t> from, int from_bytes, DType to,
                    std::span<std::uint8_t> out) {
  const auto count = static_cast<std::int64_t>(from.size()) / from_bytes;
  if (from_bytes == size_of(to) && to != DType::f16) {
    std::memcpy(out.data(), from.data(), from.size());
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    float value = 0;
    if (from_bytes == 4) {
      std::memcpy(&value, from.data() + i * 4, 4);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, from.data() + i * 2, 2);
      value = bf16_to_float(bits);
    }
    store_dense(value, out.data(), to, i);
  }
}

}  // namespace microscale
