// read_gguf_values: blocks of a file decoded where they are wanted, with little memory and none
// allocated.
#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/containers/gguf_blocks.hpp"
#include "checkpoint/containers/gguf_plan.hpp"

namespace microscale {
namespace {

constexpr std::int64_t chunk_elements = 8192;            // whole blocks of every type
constexpr std::size_t chunk_bytes = 4 * chunk_elements;  // of F32, which has the most

// Elements [first, first + out.size()) as they lie in the file.
Status read_in_order(const InputFile& file, const GgufSource& source, std::int64_t first,
                     std::span<float> out) {
  const GgufTypeInfo& type = info(source.type);
  std::array<std::uint8_t, chunk_bytes> blocks;
  std::array<float, chunk_elements> values;
  while (!out.empty()) {
    const std::int64_t skipped = first % type.block;
    const auto count =
        std::min<std::int64_t>(static_cast<std::int64_t>(out.size()), chunk_elements - skipped);
    const std::int64_t number = (skipped + count + type.block - 1) / type.block;
    const auto raw = std::span(blocks).first(static_cast<std::size_t>(number * type.bytes));
    const auto at = static_cast<std::uint64_t>(first / type.block * type.bytes);
    if (Status read = file.read_at(source.begin + at, raw); !read) return read;
    const auto length = static_cast<std::size_t>(count);
    if (skipped == 0 && count % type.block == 0) {
      decode_gguf_blocks(source.type, raw, out.first(length));
    } else {
      decode_gguf_blocks(source.type, raw,
                         std::span(values).first(static_cast<std::size_t>(number * type.block)));
      std::memcpy(out.data(), values.data() + skipped, length * sizeof(float));
    }
    out = out.subspan(length);
    first += count;
  }
  return success();
}

}  // namespace

// Of each head, rows 0, 1, 2, ... of the first half and of the second lie in turn.
std::int64_t stored_row(const GgufSource& source, std::int64_t row) {
  if (source.head_rows == 0) return row;
  const std::int64_t head_rows = source.head_rows, half = head_rows / 2;
  const std::int64_t head = row / head_rows, inside = row % head_rows;
  return head * head_rows + inside % half * 2 + inside / half;
}

Status read_gguf_values(const InputFile& file, const GgufSource& source, std::int64_t first,
                        std::span<float> out) {
  Status read = success();
  if (source.head_rows == 0) {
    read = read_in_order(file, source, first, out);
  } else {
    const std::int64_t cols = source.shape.size() > 1 ? source.shape.back() : 1;
    for (std::size_t done = 0; done < out.size() && read;) {
      const std::int64_t at = first + static_cast<std::int64_t>(done), col = at % cols;
      const auto length = std::min(out.size() - done, static_cast<std::size_t>(cols - col));
      const std::int64_t row = stored_row(source, at / cols);
      read = read_in_order(file, source, row * cols + col, out.subspan(done, length));
      done += length;
    }
  }
  if (source.plus_one) {
    for (float& value : out) value -= 1.0f;
  }
  if (source.scale != 1.0f) {
    for (float& value : out) value *= source.scale;
  }
  if (!source.scales.empty()) {
    const std::int64_t matrix = source.shape[1] * source.shape[2];
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t element = first + static_cast<std::int64_t>(i);
      out[i] *= source.scales[static_cast<std::size_t>(element / matrix)];
    }
  }
  return read;
}

}  // namespace microscale
