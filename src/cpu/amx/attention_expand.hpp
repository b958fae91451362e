// K and V of a block's keys to tiles of BF16, exactly. Included inside a target region, after
// attention_rows.hpp.
//
// FP4: the 16 values that a code has under a scale are looked up by the scale, then the code is. A
// nibble comes to the low end of its 16 bits by a shift that differs between the quarters of a
// vector: that is the order of KeySide. Above the code, bit 4 says which of two blocks it is of.

/// The values of every code under every scale.
template <Format From>
struct ScaledCodes : Fp4Tables {
  ScaledCodes() { make_fp4_tables(From, *this); }
};

inline constexpr bool is_fp4(Format format) {
  return format == Format::nvfp4 || format == Format::mxfp4;
}

template <Format From>
inline const Fp4Tables* tables_of() {
  if constexpr (!is_fp4(From)) return nullptr;
  static const ScaledCodes<is_fp4(From) ? From : Format::nvfp4> tables;
  return &tables;
}

/// Steps [s, s + Steps) of a row that has scales, 32 elements each. Steps is 1 or 2.
template <Format From, int Steps>
inline void expand_codes(const KeyRow& row, std::int64_t s, const Fp4Tables* tables, Int* output) {
  if constexpr (!is_fp4(From)) {
    MICROSCALE_UNROLL
    for (int i = 0; i < Steps; ++i)
      output[i] = expand_mxfp8<From>(row.data + (s + i) * 32, row.scales + s + i);
  } else {
    constexpr int blocks = From == Format::nvfp4 ? 2 : 1;  // of a step
    std::uint32_t scales = 0;
    __builtin_memcpy(&scales, row.scales + s * blocks, Steps * blocks);
    // Four tables' places at once: 32 times the scale in 16 bits each.
    static_assert(sizeof tables->entries[0] == 32);
    std::uint64_t places = _pdep_u64(scales, 0x1FE01FE01FE01FE0u);
    const std::uint8_t* const first_table = tables->entries[0];
    MICROSCALE_UNROLL
    for (int i = 0; i < Steps; ++i) {
      const Int nibbles = _mm512_srlv_epi16(
          table16(row.data + (s + i) * 16),
          _mm512_setr_epi64(0, 0, 0x0004000400040004, 0x0004000400040004, 0x0008000800080008,
                            0x0008000800080008, 0x000C000C000C000C, 0x000C000C000C000C));
      const __m256i values = load256(first_table + (places & 0xFFFF));
      places >>= 16;
      if constexpr (From == Format::mxfp4) {
        output[i] = _mm512_permutexvar_epi16(nibbles, _mm512_broadcast_i64x4(values));
      } else {
        const __m256i others = load256(first_table + (places & 0xFFFF));
        places >>= 16;
        const Int which = _mm512_setr_epi64(0, 0x0010001000100010, 0, 0x0010001000100010, 0,
                                            0x0010001000100010, 0, 0x0010001000100010);
        output[i] = _mm512_permutexvar_epi16(
            _mm512_ternarylogic_epi32(nibbles, set16(15), which, 0xEA),  // a & b | c
            _mm512_inserti64x4(_mm512_castsi256_si512(values), others, 1));
      }
    }
  }
}

/// The same of a row of BF16.
template <Format From, int Steps>
inline void expand_dense(const KeyRow& row, std::int64_t s, Int* output) {
  const Int order = _mm512_setr_epi64(0x000C000800040000, 0x001C001800140010, 0x000D000900050001,
                                      0x001D001900150011, 0x000E000A00060002, 0x001E001A00160012,
                                      0x000F000B00070003, 0x001F001B00170013);
  MICROSCALE_UNROLL
  for (int i = 0; i < Steps; ++i) {
    output[i] = load(row.data + (s + i) * 64);
    if (is_fp4(From)) output[i] = _mm512_permutexvar_epi16(order, output[i]);
  }
}

/// The same of a row of a block of such rows; zeros where there is none.
template <Format From, int Steps, RowKind Kind>
inline void expand_steps(const KeyRow& row, std::int64_t s, const Fp4Tables* tables, Int* output) {
  if constexpr (Kind == RowKind::codes) {
    expand_codes<From, Steps>(row, s, tables, output);
  } else if constexpr (Kind == RowKind::dense) {
    expand_dense<From, Steps>(row, s, output);
  } else if (row.data && row.scales) {
    expand_codes<From, Steps>(row, s, tables, output);
  } else if (row.data) {
    expand_dense<From, Steps>(row, s, output);
  } else {
    for (int i = 0; i < Steps; ++i) output[i] = zero();
  }
}

/// Asks for a row of `Lines` lines and its scales, or of `bytes` bytes. Inlined at once: g++ takes
/// a function that only prefetches for one without effect, and drops its calls.
template <int Lines>
[[gnu::always_inline]] inline void ask_row(const KeyRow& row, std::int64_t bytes) {
  const char *data = reinterpret_cast<const char*>(row.data),
             *scales = reinterpret_cast<const char*>(row.scales);
  if constexpr (Lines > 0) {
    MICROSCALE_UNROLL
    for (std::int64_t i = 0; i < Lines; ++i) _mm_prefetch(data + i * 64, _MM_HINT_T0);
  } else {
    _mm_prefetch(data, _MM_HINT_T0);
    for (std::int64_t i = 64; i < bytes; i += 64) _mm_prefetch(data + i, _MM_HINT_T0);
  }
  _mm_prefetch(scales, _MM_HINT_T0);
}

/// 16 keys of K as left operands: a tile for each 32 elements. Asks for the rows `ahead`, too.
template <Format From, int Steps, RowKind Kind>
inline void expand_keys16(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                          std::int64_t first, std::uint8_t* panel) {
  const std::int64_t steps = Steps > 0 ? Steps : side.d / 32, bytes = side.row_bytes();
  constexpr int lines = Kind == RowKind::any     ? 0
                        : Kind == RowKind::dense ? Steps
                        : is_fp4(From)           ? Steps / 4
                                                 : Steps / 2;
  const Fp4Tables* const tables = tables_of<From>();
  for (std::int64_t j = 0; j < 16; ++j, panel += 64) {
    ask_row<lines>(ahead[first + j], bytes);
    const KeyRow row = rows[first + j];
    Int v[2];
    MICROSCALE_UNROLL
    for (std::int64_t s = 0; s + 2 <= steps; s += 2) {
      expand_steps<From, 2, Kind>(row, s, tables, v);
      store(panel + s * tile_bytes, v[0]);
      store(panel + (s + 1) * tile_bytes, v[1]);
    }
    if (steps % 2 != 0) {
      expand_steps<From, 1, Kind>(row, steps - 1, tables, v);
      store(panel + (steps - 1) * tile_bytes, v[0]);
    }
  }
}

/// 32 keys of K, from `first` on: tile number key / 16 * steps + step.
template <Format From, int Steps>
void expand_keys(const KeySide& side, const KeyRows& rows, const KeyRows& ahead, std::int64_t first,
                 std::uint8_t* panel) {
  for (std::int64_t half = 0; half < 2; ++half, first += 16, panel += side.d / 32 * tile_bytes)
    if (rows.kind == RowKind::codes)
      expand_keys16<From, Steps, RowKind::codes>(side, rows, ahead, first, panel);
    else if (rows.kind == RowKind::dense)
      expand_keys16<From, Steps, RowKind::dense>(side, rows, ahead, first, panel);
    else
      expand_keys16<From, Steps, RowKind::any>(side, rows, ahead, first, panel);
}

template <Format From, int Steps, RowKind Kind>
inline void expand_pairs(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                         std::int64_t first_key, std::int64_t first, std::uint8_t* panel) {
  const std::int64_t bytes = side.row_bytes();
  const Fp4Tables* const tables = tables_of<From>();
  for (std::int64_t eight = first_key; eight < first_key + 32; eight += 8)
    for (std::int64_t key = eight; key < eight + 4; ++key, panel += 64) {
      if (first == 0) {
        ask_row<0>(ahead[key], bytes);
        ask_row<0>(ahead[key + 4], bytes);
      }
      Int x[Steps], y[Steps];
      expand_steps<From, Steps, Kind>(rows[key], first, tables, x);
      expand_steps<From, Steps, Kind>(rows[key + 4], first, tables, y);
      MICROSCALE_UNROLL
      for (int s = 0; s < Steps; ++s) {
        store(panel + 2 * s * tile_bytes, _mm512_unpacklo_epi16(x[s], y[s]));
        store(panel + (2 * s + 1) * tile_bytes, _mm512_unpackhi_epi16(x[s], y[s]));
      }
    }
}

/// 32 keys of V, number `group` of a block's four, elements [32 first, 32 (first + Steps)), as
/// right operands: tile (16 pairs of keys, 16 elements) after tile. Pair 4 w + i is keys 8 w + i
/// and 8 w + i + 4.
template <Format From, int Steps>
void expand_values(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                   std::int64_t group, std::int64_t first, std::uint8_t* panel) {
  if (rows.kind == RowKind::codes)
    expand_pairs<From, Steps, RowKind::codes>(side, rows, ahead, group * 32, first, panel);
  else if (rows.kind == RowKind::dense)
    expand_pairs<From, Steps, RowKind::dense>(side, rows, ahead, group * 32, first, panel);
  else
    expand_pairs<From, Steps, RowKind::any>(side, rows, ahead, group * 32, first, panel);
}

using ExpandKeys = void (*)(const KeySide&, const KeyRows&, const KeyRows&, std::int64_t,
                            std::uint8_t*);
using ExpandValues = void (*)(const KeySide&, const KeyRows&, const KeyRows&, std::int64_t,
                              std::int64_t, std::uint8_t*);

/// What expands a side: K in as many steps as d has, V in one step and in two.
struct Expander {
  ExpandKeys keys;
  ExpandValues values[2];
};
template <Format From>
inline Expander expander_from(std::int64_t d) {
  return {d == 128 ? expand_keys<From, 4> : expand_keys<From, 0>,
          {expand_values<From, 1>, expand_values<From, 2>}};
}
inline Expander expander_of(const KeySide& side) {
  switch (side.blocks ? side.format : Format::mxfp8_e4m3) {
    case Format::nvfp4:
      return expander_from<Format::nvfp4>(side.d);
    case Format::mxfp4:
      return expander_from<Format::mxfp4>(side.d);
    case Format::mxfp8_e4m3:
      return expander_from<Format::mxfp8_e4m3>(side.d);
    default:
      return expander_from<Format::mxfp8_e5m2>(side.d);
  }
}
