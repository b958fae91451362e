// Codes and scales to BF16, exact inside the range that fits_bf16 checks: 32 elements in order by
// tables, or, faster, 128 FP4 elements in the order in which their nibbles come out. Included
// inside a target region.

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

/// One block of MXFP8 to BF16. An E4M3 code is an FP16 number with its exponent 8 less, an E5M2
/// code the upper half of one; as FP16 all of E4M3 are normal numbers, so that BF16 has the same
/// fields with the exponent 112 more, to which the scale is added.
template <Format From>
inline Int expand_mxfp8(const std::uint8_t* codes, const std::uint8_t* scale) {
  using Code = std::conditional_t<From == Format::mxfp8_e4m3, E4M3Code, E5M2Code>;
  const Int wide = _mm512_cvtepu8_epi16(load256(codes)), magnitude = and_(wide, set16(0x7F));
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitude, set16(0x7F));
  if (From == Format::mxfp8_e5m2 || *scale < 10 || *scale > 246 || nan != 0) {
    alignas(64) std::uint8_t output[64];
    if (all_normal<Code, 1>(codes, scale))
      normal_to_bf16<Code>(codes, *scale, output, false);
    else
      decode_block<Code, DType::bf16>(codes, e8m0_to_float(*scale), output, false);
    return load(output);
  }
  const Int half = _mm512_castph_si512(
      _mm512_mul_ph(_mm512_castsi512_ph(shl16<7>(magnitude)), _mm512_castsi512_ph(set16(0x5C00))));
  const Int exponent = set16((*scale - 127 + 112) << 7);
  const Int value =
      _mm512_mask_add_epi16(zero(), _mm512_test_epi16_mask(half, half), shr16<3>(half), exponent);
  return or_(value, shl16<8>(sub16(wide, magnitude)));
}

/// Elements [at, at + 32) of one row to 64 bytes; `valid` of them exist (16 or 32), the rest are 0.
template <Format From>
inline void expand32(const MatmulRows& rows, std::int64_t row, std::int64_t at, std::int64_t valid,
                     const Fp4Tables& tables, std::uint8_t* output) {
  const std::uint8_t* data = rows.data + row * rows.stride;
  const std::uint8_t* scales = rows.scales + row * rows.scale_stride;
  if constexpr (From == Format::mxfp8_e4m3 || From == Format::mxfp8_e5m2) {
    store(output, expand_mxfp8<From>(data + at, scales + at / 32));
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

/// Where the elements of a group of 128 come to lie: element 4 * l + i is place l of vector i.
inline constexpr std::int64_t group_elements = 128, group_vectors = 4;

/// 128 MXFP4 elements, `scales` four bytes. A scale other than NaN is an addition to the exponents.
inline void expand_mxfp4(Int codes, const std::uint8_t* scales, Int output[group_vectors]) {
  const Int values = _mm512_broadcast_i64x4(
      _mm256_setr_epi16(0x0000, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0, -0x8000,
                        -0x4100, -0x4080, -0x4040, -0x4000, -0x3FC0, -0x3F80, -0x3F40));
  const Int lane =
      _mm512_setr_epi64(0, 0, 0x0001000100010001, 0x0001000100010001, 0x0002000200020002,
                        0x0002000200020002, 0x0003000300030003, 0x0003000300030003);
  int word;
  __builtin_memcpy(&word, scales, sizeof word);
  const Int places = or_(lane, set16(-0x8000));  // low byte: scale; high byte: zero
  const Int bytes = _mm512_shuffle_epi8(set32(static_cast<std::uint32_t>(word)), places);
  const Int exponents = shl16<7>(sub16(bytes, set16(127)));
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(bytes, set16(255));
  MICROSCALE_UNROLL
  for (int i = 0; i < group_vectors; ++i) {
    const Int index = _mm512_srli_epi16(codes, static_cast<unsigned>(4 * i));
    const Int v = _mm512_permutexvar_epi16(index, values);
    const __mmask32 not_zero = _mm512_test_epi16_mask(v, set16(0x7FFF));
    const Int scaled = _mm512_mask_add_epi16(v, not_zero, v, exponents);
    output[i] = _mm512_mask_mov_epi16(scaled, nan, set16(0x7FFF));
  }
}

/// 128 NVFP4 elements times 2^-112, `scales` eight bytes: the product of code and scale is exact in
/// FP16, and an FP16 number with its exponent field in BF16's place is just that.
inline void expand_nvfp4(Int codes, const std::uint8_t* scales, Int output[group_vectors]) {
  const Int values = _mm512_broadcast_i64x4(  // FP16, times 2^8
      _mm256_setr_epi16(0x0000, 0x5800, 0x5C00, 0x5E00, 0x6000, 0x6200, 0x6400, 0x6600, -0x8000,
                        -0x2800, -0x2400, -0x2200, -0x2000, -0x1E00, -0x1C00, -0x1A00));
  const Int places =
      _mm512_add_epi16(set16(-0x8000),  // low byte: scale; high byte: zero
                       _mm512_setr_epi64(0, 0x0001000100010001, 0x0002000200020002,
                                         0x0003000300030003, 0x0004000400040004, 0x0005000500050005,
                                         0x0006000600060006, 0x0007000700070007));
  long long word;
  __builtin_memcpy(&word, scales, sizeof word);
  const Int bytes = and_(_mm512_shuffle_epi8(_mm512_set1_epi64(word), places), set16(0x7F));
  const __m512h step = _mm512_castsi512_ph(shl16<7>(bytes));  // times 2^-8
  MICROSCALE_UNROLL
  for (int i = 0; i < group_vectors; ++i) {
    const Int index = _mm512_srli_epi16(codes, static_cast<unsigned>(4 * i));
    const Int product = _mm512_castph_si512(
        _mm512_mul_ph(_mm512_castsi512_ph(_mm512_permutexvar_epi16(index, values)), step));
    output[i] = and_(_mm512_srai_epi16(product, 3), set16(-0x7001));  // 0x8FFF
  }
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(bytes, set16(0x7F));
  if (__builtin_expect(nan != 0, 0)) {
    MICROSCALE_UNROLL
    for (int i = 0; i < group_vectors; ++i)
      output[i] = _mm512_mask_mov_epi16(output[i], nan, set16(0x7FFF));
  }
}

/// 128 elements in order, in four vectors, to the order of a group.
inline void to_group_order(Int v[group_vectors]) {
  const Int first =
      _mm512_setr_epi32(0x00040000, 0x000C0008, 0x00140010, 0x001C0018, 0x00240020, 0x002C0028,
                        0x00340030, 0x003C0038, 0x00040000, 0x000C0008, 0x00140010, 0x001C0018,
                        0x00240020, 0x002C0028, 0x00340030, 0x003C0038);
  Int result[group_vectors];
  MICROSCALE_UNROLL
  for (int i = 0; i < group_vectors; ++i) {
    const Int places = add16(first, set16(i));
    const Int a = _mm512_permutex2var_epi16(v[0], places, v[1]),
              b = _mm512_permutex2var_epi16(v[2], places, v[3]);
    result[i] = _mm512_mask_blend_epi64(0xF0, a, b);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < group_vectors; ++i) v[i] = result[i];
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
