#include "checkpoint/containers/gguf_pack.hpp"

#include <cstring>

namespace microscale {
namespace {

// A run of 2 * half elements, neighbours in a byte, as GGUF has it: element i beside i + half.
template <int half>
void pack_run(const std::uint8_t* codes, std::uint8_t* out) {
  std::uint8_t elements[2 * half];
  for (int i = 0; i < half; ++i) {
    elements[2 * i] = codes[i] & 15;
    elements[2 * i + 1] = codes[i] >> 4;
  }
  for (int i = 0; i < half; ++i) {
    out[i] = static_cast<std::uint8_t>(elements[i] | elements[half + i] << 4);
  }
}

}  // namespace

std::optional<GgufType> gguf_type_of(WeightFormat format) {
  if (format == WeightFormat::nvfp4) return GgufType::nvfp4;
  if (format == WeightFormat::mxfp4) return GgufType::mxfp4;
  return std::nullopt;
}

std::uint64_t gguf_block_bytes(GgufType type, std::int64_t elements) {
  const GgufTypeInfo& facts = info(type);
  return static_cast<std::uint64_t>(elements / facts.block * facts.bytes);
}

void pack_gguf_blocks(GgufType type, std::span<const std::uint8_t> codes,
                      std::span<const std::uint8_t> scales, std::span<std::uint8_t> out) {
  const std::uint8_t *code = codes.data(), *scale = scales.data();
  std::uint8_t* to = out.data();
  const std::uint8_t* const end = to + out.size();
  if (type == GgufType::mxfp4) {
    for (; to != end; to += 17, code += 16) {
      *to = *scale++;
      pack_run<16>(code, to + 1);
    }
    return;
  }
  for (; to != end; to += 36, scale += 4) {
    std::memcpy(to, scale, 4);
    for (int run = 0; run < 4; ++run, code += 8) pack_run<8>(code, to + 4 + 8 * run);
  }
}

}  // namespace microscale
