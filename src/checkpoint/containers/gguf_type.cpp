#include "checkpoint/containers/gguf_type.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "checkpoint/stored_type.hpp"

namespace microscale {
namespace {

using enum GgufType;

constexpr std::array<GgufTypeInfo, 34> types{{
    {f32, "F32", 1, 4, true},
    {f16, "F16", 1, 2, true},
    {q4_0, "Q4_0", 32, 18, true},
    {q4_1, "Q4_1", 32, 20, true},
    {q5_0, "Q5_0", 32, 22, true},
    {q5_1, "Q5_1", 32, 24, true},
    {q8_0, "Q8_0", 32, 34, true},
    {q8_1, "Q8_1", 32, 36},
    {q2_k, "Q2_K", 256, 84, true},
    {q3_k, "Q3_K", 256, 110, true},
    {q4_k, "Q4_K", 256, 144, true},
    {q5_k, "Q5_K", 256, 176, true},
    {q6_k, "Q6_K", 256, 210, true},
    {q8_k, "Q8_K", 256, 292, true},
    {iq2_xxs, "IQ2_XXS", 256, 66},
    {iq2_xs, "IQ2_XS", 256, 74},
    {iq3_xxs, "IQ3_XXS", 256, 98},
    {iq1_s, "IQ1_S", 256, 50},
    {iq4_nl, "IQ4_NL", 32, 18, true},
    {iq3_s, "IQ3_S", 256, 110},
    {iq2_s, "IQ2_S", 256, 82},
    {iq4_xs, "IQ4_XS", 256, 136, true},
    {i8, "I8", 1, 1},
    {i16, "I16", 1, 2},
    {i32, "I32", 1, 4},
    {i64, "I64", 1, 8},
    {f64, "F64", 1, 8},
    {iq1_m, "IQ1_M", 256, 56},
    {bf16, "BF16", 1, 2, true},
    {tq1_0, "TQ1_0", 256, 54},
    {tq2_0, "TQ2_0", 256, 66},
    {mxfp4, "MXFP4", 32, 17, true},
    {nvfp4, "NVFP4", 64, 36, true},
    {q1_0, "Q1_0", 128, 18},
}};

}  // namespace

const GgufTypeInfo* find_gguf_type(std::uint32_t number) {
  const auto found = std::lower_bound(types.begin(), types.end(), number,
                                      [](const GgufTypeInfo& type, std::uint32_t wanted) {
                                        return static_cast<std::uint32_t>(type.type) < wanted;
                                      });
  const bool there = found != types.end() && static_cast<std::uint32_t>(found->type) == number;
  return there ? &*found : nullptr;
}

const GgufTypeInfo& info(GgufType type) {
  return *find_gguf_type(static_cast<std::uint32_t>(type));
}

std::span<const GgufTypeInfo> all_gguf_types() { return types; }

std::string explain_unknown_gguf_type(std::uint32_t number) {
  const bool removed = number == 4 || number == 5 || (number >= 31 && number <= 33) ||
                       (number >= 36 && number <= 38);
  if (removed) return "which llama.cpp has removed: make the file again with a newer llama.cpp";
  return "which is not known here: the file is newer than this program, or damaged";
}

Result<std::uint64_t> gguf_bytes(GgufType type, std::span<const std::int64_t> shape) {
  const GgufTypeInfo& facts = info(type);
  // Counts elements, and holds each dimension and their product against the limits.
  const auto elements = stored_bytes(StoredType::u8, shape);
  if (!elements) return elements.failure();
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (row % facts.block != 0) {
    return Failure{ErrorCode::bad_input,
                   fmt::format("its rows of {} elements are no whole number of {} blocks of {}",
                               row, facts.name, facts.block)};
  }
  // No type has more than the 8 bytes an element whose bits were held against 64 bits above.
  return elements.value() / static_cast<std::uint64_t>(facts.block) *
         static_cast<std::uint64_t>(facts.bytes);
}

}  // namespace microscale
