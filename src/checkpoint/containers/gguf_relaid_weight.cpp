#include "checkpoint/containers/gguf_relaid_weight.hpp"

#include <algorithm>
#include <array>

#include "checkpoint/classifier.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr std::int64_t chunk = 4096;  // elements

WeightFacts facts_of(const DenseTensor& base, const ModelTensor& part,
                     const GgufRelaying& relaying) {
  WeightFacts facts;
  facts.name = base.entry.name;
  facts.shape = base.entry.shape;
  const bool narrow = relaying.type == StoredType::bf16 && base.entry.type == StoredType::bf16;
  facts.type = narrow ? StoredType::bf16 : StoredType::f32;
  facts.copied = relaying.type;
  facts.exact = !base.weight || base.weight->facts().exact;
  facts.description = base.weight ? base.weight->facts().description : to_string(base.entry.type);
  facts.parts = base.weight ? base.weight->facts().parts : std::vector{&part};
  return facts;
}

}  // namespace

bool GgufRelaying::leaves(const DenseTensor& tensor) const {
  return head_rows == 0 && !plus_one && copied_type(tensor) == type;
}

GgufRelaidWeight::GgufRelaidWeight(const DenseTensor& base, const ModelTensor& part,
                                   const GgufRelaying& relaying)
    : StoredWeight(facts_of(base, part, relaying)), base_(base), relaying_(relaying) {}

Status GgufRelaidWeight::decode(std::int64_t first, std::int64_t count,
                                std::span<std::uint8_t> out) const {
  if (relaying_.head_rows == 0) return decode_run(first, count, out);
  const auto& shape = base_.entry.shape;
  const std::int64_t cols = shape.size() > 1 ? shape.back() : 1;
  const auto size = static_cast<std::size_t>(value_bytes());
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done, col = at % cols;
    const std::int64_t length = std::min(count - done, cols - col);
    const std::int64_t row = row_in_rotary_order(at / cols, relaying_.head_rows);
    const auto part =
        out.subspan(static_cast<std::size_t>(done) * size, static_cast<std::size_t>(length) * size);
    if (Status read = decode_run(row * cols + col, length, part); !read) return read;
    done += length;
  }
  return success();
}

// Elements that lie one behind the other in the model.
Status GgufRelaidWeight::decode_run(std::int64_t first, std::int64_t count,
                                    std::span<std::uint8_t> out) const {
  const DType from = *dense_type(base_.entry.type);
  const DType to = value_bytes() == 2 ? DType::bf16 : DType::f32;
  const std::int64_t size = size_of(from);
  alignas(float) std::array<std::uint8_t, chunk * sizeof(float)> values;
  for (std::int64_t done = 0; done < count; done += chunk) {
    const std::int64_t part = std::min(chunk, count - done);
    const auto some = std::span(values).first(static_cast<std::size_t>(part * size));
    Status read = base_.read(static_cast<std::uint64_t>((first + done) * size), some);
    if (!read) return read;
    for (std::int64_t i = 0; i < part; ++i) {
      const float value = load_dense(some.data(), from, i);
      store_dense(relaying_.plus_one ? value + 1.0f : value, out.data(), to, done + i);
    }
  }
  return success();
}

}  // namespace microscale
