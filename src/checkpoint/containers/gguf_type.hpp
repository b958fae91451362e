// The element types of GGUF files: their names, their blocks, and which of them have values here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/result.hpp"

namespace microscale {

/// The numbers of ggml, as they stand in a file.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q8_1 = 9,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  q8_k = 15,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  i8 = 24,
  i16 = 25,
  i32 = 26,
  i64 = 27,
  f64 = 28,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
};

struct GgufTypeInfo {
  GgufType type = GgufType::f32;
  const char* name = "";     // as llama.cpp prints it: "Q4_K"
  int block = 1;             // elements
  int bytes = 4;             // of a block
  bool has_decoder = false;  // gguf_blocks.hpp turns it into floats
};

/// Nothing for a number that no type has.
const GgufTypeInfo* find_gguf_type(std::uint32_t number);
/// Of an enumerator.
const GgufTypeInfo& info(GgufType type);
/// All types, by number.
std::span<const GgufTypeInfo> all_gguf_types();

/// What a number without a type is: "a type that llama.cpp has removed", "a type newer than ...".
std::string explain_unknown_gguf_type(std::uint32_t number);

/// Bytes of a tensor whose rows lie along the last dimension; a failure (a phrase about the tensor)
/// when a dimension is negative or above 2^48, when the product overflows, or when a row is no
/// whole number of blocks.
Result<std::uint64_t> gguf_bytes(GgufType type, std::span<const std::int64_t> shape);

}  // namespace microscale
