#include "checkpoint/containers/gguf_weight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/containers/containers.hpp"
#include "checkpoint/containers/gguf_unpack.hpp"
#include "checkpoint/json.hpp"

namespace microscale {
namespace {

constexpr std::int64_t chunk = 8192;  // elements

WeightFacts facts_of(const GgufSource& source, const ModelTensor& codes) {
  WeightFacts facts;
  facts.name = source.name;
  facts.shape = source.shape;
  facts.type = gguf_value_type(source);
  facts.description = fmt::format("GGUF {}", info(source.type).name);
  facts.parts = {&codes};
  facts.exact = info(source.type).block == 1;
  return facts;
}

}  // namespace

// BF16 holds every product of an E2M1 code with a scale of 8 bits.
StoredType gguf_value_type(const GgufSource& source) {
  if (source.plus_one || source.scale != 1.0f || !source.scales.empty()) return StoredType::f32;
  switch (source.type) {
    case GgufType::f16:
      return source.as_stored() ? StoredType::f16 : StoredType::f32;
    case GgufType::bf16:
    case GgufType::mxfp4:
    case GgufType::nvfp4:
      return StoredType::bf16;
    default:
      return StoredType::f32;
  }
}

GgufWeight::GgufWeight(GgufSource source, const ModelTensor& codes, const InputFile& file)
    : StoredWeight(facts_of(source, codes)), source_(std::move(source)), file_(&file) {}

Status GgufWeight::decode(std::int64_t first, std::int64_t count,
                          std::span<std::uint8_t> out) const {
  const std::int64_t size = value_bytes();
  std::array<float, chunk> values;
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t part = std::min(chunk, count - done);
    const auto some = std::span(values).first(static_cast<std::size_t>(part));
    if (Status read = read_gguf_values(*file_, source_, first + done, some); !read) return read;
    convert_values(
        {reinterpret_cast<const std::uint8_t*>(some.data()), some.size_bytes()}, 4,
        size == 2 ? DType::bf16 : DType::f32,
        out.subspan(static_cast<std::size_t>(done * size), static_cast<std::size_t>(part * size)));
    done += part;
  }
  return success();
}

void GgufWeight::will_need(std::int64_t first, std::int64_t count) const {
  const GgufTypeInfo& type = info(source_.type);
  const std::int64_t begin = first / type.block,
                     end = (first + count + type.block - 1) / type.block;
  file_->will_need(source_.begin + static_cast<std::uint64_t>(begin * type.bytes),
                   static_cast<std::uint64_t>((end - begin) * type.bytes));
}

std::optional<BlockCoding> GgufWeight::coding_of(const MatrixSlice& slice) const {
  const auto format = format_of_gguf(source_.type);
  const bool rows = slice.col_step == 1 && slice.first == 0 && slice.row_step == slice.cols &&
                    source_.shape.size() == 2 && slice.cols == source_.shape[1];
  if (!format || !rows || source_.plus_one) return std::nullopt;
  if (source_.scale != 1.0f && *format != Format::nvfp4) return std::nullopt;
  return BlockCoding{.format = *format, .multiplier = source_.scale};
}

Status GgufWeight::read_block_tile(const MatrixSlice& slice, const Tile& tile,
                                   std::span<std::uint8_t> codes,
                                   std::span<std::uint8_t> scales) const {
  if (scales.empty()) return success();
  const GgufTypeInfo& type = info(source_.type);
  constexpr std::int64_t most = 64 * 512;  // elements
  std::array<std::uint8_t, most / 32 * 18> raw;
  std::array<std::uint8_t, most / 2> unwanted;  // codes lie between the scales
  const std::int64_t block = tile.elements() / static_cast<std::int64_t>(scales.size());
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t begin = stored_row(source_, tile.row + row) * slice.cols + tile.col;
    for (std::int64_t done = 0; done < tile.cols; done += most) {
      const std::int64_t count = std::min(most, tile.cols - done);
      const auto blocks =
          std::span(raw).first(static_cast<std::size_t>(count / type.block * type.bytes));
      Status read = file_->read_at(
          source_.begin + static_cast<std::uint64_t>((begin + done) / type.block * type.bytes),
          blocks);
      if (!read) return read;
      const auto code_count = static_cast<std::size_t>(count / 2);
      const std::int64_t at = row * tile.cols + done;
      const auto some_codes = codes.empty()
                                  ? std::span(unwanted).first(code_count)
                                  : codes.subspan(static_cast<std::size_t>(at / 2), code_count);
      const bool known =
          unpack_gguf_blocks(source_.type, blocks, some_codes,
                             scales.subspan(static_cast<std::size_t>(at / block),
                                            static_cast<std::size_t>(count / block)));
      if (known) continue;
      return Failure{
          ErrorCode::bad_input,
          fmt::format("{} has a block with the scale 0xFF, which only llama.cpp takes for a "
                      "number; make the file again",
                      in_quotes(name()))};
    }
  }
  return success();
}

void find_gguf_weights(ContainerScan& scan) {
  for (const GgufSource& source : scan.model().gguf_sources) {
    const ModelTensor* tensor = scan.find(source.name);
    if (!tensor) continue;
    if (!info(source.type).has_decoder) {
      scan.report("unknown-format", *tensor,
                  fmt::format("is of GGUF's type {}, whose values are not decoded here; get the "
                              "file in another one (Q4_K, Q8_0, ...), or the full-precision model",
                              info(source.type).name),
                  {tensor});
      continue;
    }
    scan.add(std::make_unique<GgufWeight>(source, *tensor, scan.file_of(*tensor)));
  }
}

}  // namespace microscale
