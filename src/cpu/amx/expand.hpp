// Codes and scales to BF16, 32 elements at a time, exact inside the range that fits_bf16 checks.
// Included inside a target region.

inline constexpr float fp4_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float float_of(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

inline float e8m0_to_float(std::uint8_t byte) {
  const std::uint32_t bits = static_cast<std::uint32_t>(byte) << 23;
  return float_of(byte == 255 ? 0x7FFFFFFFu : byte == 0 ? 0x00400000u : bits);
}

inline float e4m3_to_float(std::uint8_t byte) {  // the sign bit ignored
  const std::uint32_t magnitude = byte & 0x7Fu;
  if (magnitude == 0x7F) return float_of(0x7FFFFFFFu);
  if (magnitude < 8) return static_cast<float>(magnitude) * 0x1p-9f;
  return float_of((magnitude << 20) + (120u << 23));
}

/// The 16 values of every scale byte.
struct Fp4Tables {
  alignas(64) std::uint8_t entries[256][table_bytes<DType::bf16>];
};

inline void make_fp4_tables(Format format, Fp4Tables& tables) {
  const Float values = load_float(fp4_values);
  for (int s = 0; s < 256; ++s) {
    const auto byte = static_cast<std::uint8_t>(s);
    const float step = format == Format::nvfp4 ? e4m3_to_float(byte) : e8m0_to_float(byte);
    const Float scaled = mul(values, set_float(step));
    make_table<DType::bf16>(tables.entries[s], scaled, scaled);
  }
}

/// Elements [at, at + 32) of one row to 64 bytes; `valid` of them exist (16 or 32), the rest are 0.
template <Format From>
inline void expand32(const MatmulRows& rows, std::int64_t row, std::int64_t at, std::int64_t valid,
                     const Fp4Tables& tables, std::uint8_t* output) {
  const std::uint8_t* data = rows.data + row * rows.stride;
  const std::uint8_t* scales = rows.scales + row * rows.scale_stride;
  if constexpr (From == Format::mxfp8_e4m3 || From == Format::mxfp8_e5m2) {
    using Code = std::conditional_t<From == Format::mxfp8_e4m3, E4M3Code, E5M2Code>;
    const std::uint8_t* scale = scales + at / 32;
    if (all_normal<Code, 1>(data + at, scale))
      normal_to_bf16<Code>(data + at, *scale, output, false);
    else
      decode_block<Code, DType::bf16>(data + at, e8m0_to_float(*scale), output, false);
  } else if constexpr (From == Format::mxfp4) {
    const std::uint8_t* table = tables.entries[scales[at / 32]];
    decode_fp4<DType::bf16>(data + at / 2, table, table, output, false);
  } else if (valid == 32) {
    decode_fp4<DType::bf16>(data + at / 2, tables.entries[scales[at / 16]],
                            tables.entries[scales[at / 16 + 1]], output, false);
  } else {
    alignas(16) std::uint8_t last[16] = {};
    __builtin_memcpy(last, data + at / 2, 8);
    decode_fp4<DType::bf16>(last, tables.entries[scales[at / 16]], tables.entries[0], output,
                            false);
  }
}

using Expand32 = void (*)(const MatmulRows&, std::int64_t, std::int64_t, std::int64_t,
                          const Fp4Tables&, std::uint8_t*);

/// expand32 by a format known at run time.
inline Expand32 expander(Format format) {
  if (format == Format::nvfp4) return expand32<Format::nvfp4>;
  if (format == Format::mxfp4) return expand32<Format::mxfp4>;
  return format == Format::mxfp8_e4m3 ? expand32<Format::mxfp8_e4m3> : expand32<Format::mxfp8_e5m2>;
}

/// Transposes 16 x 16 lanes of 32 bits: lane j of v[i] and lane i of v[j] change places.
inline void transpose16(Int v[16]) {
  Int t[16];
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {  // 128-bit quarters of four vectors, twice
    t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xDD);
    t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xDD);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
    v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xDD);
    v[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
    v[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xDD);
  }
}
