// The levels of this ladder by the names of their entry points, and how they are launched.
#pragma once

#include <cstdint>
#include <string>

#include "args.hpp"

namespace levels {

/// How q and k come to a kernel.
enum class Operands : std::uint8_t {
  f32,         // and are quantized there
  f32_halved,  // likewise, rounded to FP16 before
  containers,  // codes, one a byte
  packed       // codes, two a byte
};

struct AttentionLevel {
  const char* name;
  const char* entry;  // "_128" or "_64" follows
  Operands operands;
  int staging_bytes;  // dynamic shared memory, an element of a tile: FP32, FP32 and v, FP16
  bool half_values;   // v is rounded to FP16, there or before
};

// Level 1 is one instruction: probe.hpp.
inline constexpr AttentionLevel attention_levels[] = {{.name = "2 fused",
                                                       .entry = "attention_2_fused",
                                                       .operands = Operands::f32,
                                                       .staging_bytes = 4,
                                                       .half_values = false},
                                                      {.name = "3 v in shared memory",
                                                       .entry = "attention_3_v_in_shared",
                                                       .operands = Operands::f32,
                                                       .staging_bytes = 8,
                                                       .half_values = false},
                                                      {.name = "4 FP16 staging",
                                                       .entry = "attention_4_half_staging",
                                                       .operands = Operands::f32_halved,
                                                       .staging_bytes = 2,
                                                       .half_values = true},
                                                      {.name = "5 exact reciprocal, fmaxf",
                                                       .entry = "attention_5_exact_reciprocal",
                                                       .operands = Operands::f32_halved,
                                                       .staging_bytes = 2,
                                                       .half_values = true},
                                                      {.name = "6 four codes an access",
                                                       .entry = "attention_6_four_codes",
                                                       .operands = Operands::f32_halved,
                                                       .staging_bytes = 2,
                                                       .half_values = true},
                                                      {.name = "6 codes by cvt",
                                                       .entry = "attention_6_hardware_cvt",
                                                       .operands = Operands::f32_halved,
                                                       .staging_bytes = 2,
                                                       .half_values = true},
                                                      {.name = "7 quantized before",
                                                       .entry = "attention_7_containers",
                                                       .operands = Operands::containers,
                                                       .staging_bytes = 2,
                                                       .half_values = true},
                                                      {.name = "8 packed, m16n8k64",
                                                       .entry = "attention_8_packed",
                                                       .operands = Operands::packed,
                                                       .staging_bytes = 2,
                                                       .half_values = true}};

/// A batch is more heads.
struct AttentionShape {
  int d, keys, heads;
  std::int64_t query_elements() const { return std::int64_t{heads} * tile_tokens * d; }
  std::int64_t key_elements() const { return std::int64_t{heads} * keys * d; }
};

/// The article's, in its order.
inline constexpr AttentionShape correctness_shapes[] = {{128, 64, 1}, {128, 128, 1}, {64, 64, 1},
                                                        {64, 128, 1}, {128, 128, 4}, {128, 128, 8}};
inline constexpr AttentionShape benchmark_shapes[] = {
    {128, 128, 32}, {128, 512, 32}, {128, 1024, 32}, {64, 128, 32}, {64, 512, 32}, {64, 1024, 32}};

inline std::string entry_of(const AttentionLevel& level, int d) {
  return std::string(level.entry) + (d == 128 ? "_128" : "_64");
}
inline int dynamic_bytes(const AttentionLevel& level, int d) {
  return level.staging_bytes * tile_tokens * d;
}

}  // namespace levels
