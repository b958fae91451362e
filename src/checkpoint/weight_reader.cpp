#include "checkpoint/weight_reader.hpp"

#include <array>
#include <cstring>

#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/tile.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

// Bytes [begin, begin + length) of a tensor's data.
Status read_range(const QuantizedFolder& folder, const ModelTensor& tensor, std::int64_t begin,
                  std::int64_t length, std::vector<std::uint8_t>& out) {
  out.resize(static_cast<std::size_t>(length));
  const ModelShard& shard = folder.model.shards[tensor.shard];
  return shard.file.read_at(tensor.entry->begin + static_cast<std::uint64_t>(begin), out);
}

// One tile of a slice, behind what is in `out` already.
Status read_part(const QuantizedFolder& folder, const Piece& piece, const Tile& tile,
                 std::vector<std::uint8_t>& out) {
  const StoredWeight* weight = piece.tensor->weight;
  const std::int64_t size =
      weight ? weight->value_bytes() : bits_per_element(piece.tensor->stored->entry->type) / 8;
  const std::size_t at = out.size();
  out.resize(at + static_cast<std::size_t>(tile.elements() * size));
  std::vector<std::uint8_t> scratch;
  if (piece.tensor->slice->col_step != 1) scratch.resize(tile_scratch_bytes);
  if (weight) {
    return weight->read_tile(*piece.tensor->slice, tile, std::span(out).subspan(at), scratch);
  }
  const ModelTensor& stored = *piece.tensor->stored;
  return read_tile(folder.model.shards[stored.shard].file, stored.entry->begin,
                   *piece.tensor->slice, tile, size, std::span(out).subspan(at), scratch);
}

// A piece of one expert's matrix: the end of a row, whole rows, the beginning of a row.
Status read_slice(const QuantizedFolder& folder, const Piece& piece,
                  std::vector<std::uint8_t>& out) {
  const std::int64_t cols = piece.tensor->slice->cols, end = piece.first + piece.count;
  out.clear();
  for (std::int64_t at = piece.first; at < end;) {
    Tile tile{at / cols, 1, at % cols, std::min(cols - at % cols, end - at)};
    if (tile.cols == cols) tile.rows = (end - at) / cols;
    if (Status read = read_part(folder, piece, tile, out); !read) return read;
    at += tile.elements();
  }
  return success();
}

// Of the bytes that read_piece_bytes gives of a tensor without blocks.
StoredType value_type_of(const LogicalTensor& tensor) {
  return tensor.weight ? tensor.weight->facts().type : tensor.stored->entry->type;
}

template <class Bits, class Decode>
void decode_all(const std::vector<std::uint8_t>& bytes, std::vector<float>& values, Decode decode) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof(Bits), sizeof(Bits));
    values[i] = decode(bits);
  }
}

}  // namespace

void decode_dense(StoredType type, const std::vector<std::uint8_t>& bytes,
                  std::vector<float>& values) {
  switch (type) {
    case StoredType::f32:
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return;
    case StoredType::f16:
      decode_all<std::uint16_t>(bytes, values, f16_to_float);
      return;
    case StoredType::bf16:
      decode_all<std::uint16_t>(bytes, values, bf16_to_float);
      return;
    case StoredType::f64:
      decode_all<double>(bytes, values, [](double value) { return static_cast<float>(value); });
      return;
    case StoredType::f8_e4m3:
      decode_all<std::uint8_t>(bytes, values, E4M3::decode);
      return;
    default:
      decode_all<std::uint8_t>(bytes, values, E5M2::decode);
      return;
  }
}

bool has_values(const LogicalTensor& tensor) {
  if (tensor.coded()) return true;
  switch (tensor.stored->entry->type) {
    case StoredType::f32:
    case StoredType::f16:
    case StoredType::bf16:
    case StoredType::f64:
    case StoredType::f8_e4m3:
    case StoredType::f8_e5m2:
      return true;
    default:
      return false;
  }
}

Status read_piece_bytes(const QuantizedFolder& folder, const Piece& piece, PieceData& data) {
  data.scales.clear();
  if (const QuantizedModule* module = piece.tensor->module) {
    const FormatInfo& format = info(module->format);
    Status codes = read_range(folder, *module->codes, code_bytes(format, piece.first),
                              code_bytes(format, piece.count), data.codes);
    if (!codes) return codes;
    return read_range(folder, *module->scales, piece.first / format.block,
                      piece.count / format.block, data.scales);
  }
  if (const auto coding = piece.tensor->blocks()) {
    const FormatInfo& format = info(coding->format);
    data.codes.resize(static_cast<std::size_t>(code_bytes(format, piece.count)));
    data.scales.resize(static_cast<std::size_t>(piece.count / format.block));
    return piece.tensor->weight->read_blocks(piece.first, piece.count, data.codes, data.scales);
  }
  if (piece.tensor->slice) return read_slice(folder, piece, data.codes);
  if (const StoredWeight* weight = piece.tensor->weight) {
    data.codes.resize(static_cast<std::size_t>(piece.count * weight->value_bytes()));
    return weight->decode(piece.first, piece.count, data.codes);
  }
  const int bits = bits_per_element(piece.tensor->stored->entry->type);
  return read_range(folder, *piece.tensor->stored,
                    piece.first / 8 * bits + piece.first % 8 * bits / 8,
                    (piece.count * bits + 7) / 8, data.codes);
}

Status read_piece(const QuantizedFolder& folder, const Piece& piece, PieceData& data) {
  if (Status read = read_piece_bytes(folder, piece, data); !read) return read;
  data.values.resize(static_cast<std::size_t>(piece.count));
  if (const auto coding = piece.tensor->blocks()) {
    decode_blocks(*coding, data.codes, data.scales, DType::f32, data.values.data());
  } else {
    decode_dense(value_type_of(*piece.tensor), data.codes, data.values);
  }
  return success();
}

Status read_piece_as(const QuantizedFolder& folder, const Piece& piece, DType dtype,
                     PieceData& data, std::vector<std::uint8_t>& out) {
  if (Status read = read_piece_bytes(folder, piece, data); !read) return read;
  out.resize(static_cast<std::size_t>(piece.count * size_of(dtype)));
  if (const auto coding = piece.tensor->blocks()) {
    decode_blocks(*coding, data.codes, data.scales, dtype, out.data());
  } else {
    convert_values(data.codes, piece.tensor->weight->value_bytes(), dtype, out);
  }
  return success();
}

std::vector<Piece> pieces_of(const LogicalTensor& tensor, std::int64_t elements) {
  std::vector<Piece> pieces;
  const std::int64_t count = tensor.elements();
  if (tensor.weight && tensor.weight->facts().transposed && !tensor.slice) elements *= 16;
  for (std::int64_t first = 0; first < count; first += elements) {
    pieces.push_back({&tensor, first, std::min(elements, count - first)});
  }
  return pieces;
}

void count_codes(const PieceData& data, Format format, CodeHistogram& scale_codes,
                 CodeHistogram& element_codes) {
  for (const std::uint8_t scale : data.scales) ++scale_codes[scale];
  if (info(format).code_bits == 8) {
    for (const std::uint8_t code : data.codes) ++element_codes[code];
    return;
  }
  CodeHistogram pairs{};  // of the two codes in a byte
  for (const std::uint8_t byte : data.codes) ++pairs[byte];
  for (std::size_t byte = 0; byte < pairs.size(); ++byte) {
    element_codes[byte & 15] += pairs[byte];
    element_codes[byte >> 4] += pairs[byte];
  }
}

}  // namespace microscale
