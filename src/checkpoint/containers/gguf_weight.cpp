#include "checkpoint/containers/gguf_weight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/containers/containers.hpp"

namespace microscale {
namespace {

constexpr std::int64_t chunk = 8192;  // elements

// BF16 holds every product of an E2M1 code with a scale of 8 bits.
StoredType value_type(const GgufSource& source) {
  if (source.plus_one || source.scale != 1.0f) return StoredType::f32;
  switch (source.type) {
    case GgufType::bf16:
    case GgufType::mxfp4:
    case GgufType::nvfp4:
      return StoredType::bf16;
    default:
      return StoredType::f32;
  }
}

WeightFacts facts_of(const GgufSource& source, const ModelTensor& codes) {
  WeightFacts facts;
  facts.name = source.name;
  facts.shape = source.shape;
  facts.type = value_type(source);
  facts.description = fmt::format("GGUF {}", info(source.type).name);
  facts.parts = {&codes};
  return facts;
}

}  // namespace

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
