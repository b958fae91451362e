// K and V of 128 keys to tiles of BF16. Included inside a target region, after expand.hpp.
//
// NVFP4 comes out times 2^-112 (expand.hpp); the other operand makes up for it (BlockFactors).

inline constexpr std::int64_t block_keys = 128;

/// What decoded numbers have to be multiplied by.
inline double decoded_factor(Format format) { return format == Format::nvfp4 ? 0x1p112 : 1.0; }

/// K or V of one key. No scales: BF16. No data: there is no such key.
struct KeyRow {
  const std::uint8_t *data, *scales;
};

/// K or V of a block's keys.
struct KeyRows {
  const std::uint8_t *data[block_keys], *scales[block_keys];

  KeyRow operator[](std::int64_t key) const { return {data[key], scales[key]}; }
  void clear() {
    for (int i = 0; i < block_keys; i += 8) {
      store(data + i, zero());
      store(scales + i, zero());
    }
  }
  /// Keys [first, last) are rows `at`, at + 1, ... of `rows`.
  void set(std::int64_t first, std::int64_t last, const MatmulRows& rows, std::int64_t at) {
    const std::uint8_t* p = rows.data + at * rows.stride;
    const std::uint8_t* q = rows.dense() ? nullptr : rows.scales + at * rows.scale_stride;
    place(data, first, last, p, rows.stride);
    if (q) place(scales, first, last, q, rows.scale_stride);
  }

 private:
  static void place(const std::uint8_t** output, std::int64_t first, std::int64_t last,
                    const std::uint8_t* p, std::int64_t stride) {
    Int at = _mm512_add_epi64(
        _mm512_set1_epi64(reinterpret_cast<long long>(p)),
        _mm512_mullo_epi64(_mm512_set1_epi64(stride), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)));
    const Int more = _mm512_set1_epi64(8 * stride);
    for (; first < last; first += 8, at = _mm512_add_epi64(at, more)) {
      const auto left = static_cast<unsigned>(last - first);
      const auto mask = static_cast<__mmask8>(left >= 8 ? 0xFF : (1u << left) - 1);
      _mm512_mask_storeu_epi64(output + first, mask, at);
    }
  }
};

/// K or V of a tile's keys: width and order of a row when decoded.
struct KeySide {
  std::int64_t d = 0;
  bool blocks = false;  // some rows are block-scaled; all of those in `format`
  Format format = Format::nvfp4;

  bool low() const { return blocks && format == Format::nvfp4; }
  bool fp4() const { return blocks && (format == Format::nvfp4 || format == Format::mxfp4); }
  double factor(const MatmulRows& rows) const {
    return rows.dense() ? 1.0 : decoded_factor(format);
  }
  /// The element at place l of vector s.
  std::int64_t element(std::int64_t s, std::int64_t l) const {
    return fp4() ? s / group_vectors * group_elements + group_vectors * l + s % group_vectors
                 : s * 32 + l;
  }
};

/// 128 MXFP4 elements whatever their scales, by multiplication.
inline void expand_mxfp4_wide(const std::uint8_t* codes, const std::uint8_t* scales,
                              Int output[group_vectors]) {
  alignas(64) std::uint16_t values[group_elements];
  for (std::int64_t e = 0; e < group_elements; ++e) {
    const int code = codes[e / 2] >> (e % 2 * 4) & 15;
    const float value = fp4_values[code] * e8m0_to_float(scales[e / 32]);
    std::uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    values[e % group_vectors * 32 + e / group_vectors] = static_cast<std::uint16_t>(bits >> 16);
  }
  for (int i = 0; i < group_vectors; ++i) output[i] = load(values + i * 32);
}

/// All scales are NaN or such that every value is a normal number of BF16, or zero.
inline bool ordinary_mxfp4(const std::uint8_t* scales) {
  bool ordinary = true;
  for (int i = 0; i < 4; ++i) ordinary &= (scales[i] >= 2 && scales[i] <= 252) || scales[i] == 255;
  return ordinary;
}

/// Elements [at, at + 128) of a row, of which `valid` exist; zeros behind.
template <Format From>
inline void expand_row(const KeyRow& row, std::int64_t at, std::int64_t valid,
                       Int output[group_vectors]) {
  constexpr bool fp4 = From == Format::nvfp4 || From == Format::mxfp4;
  if (!row.scales) {
    for (std::int64_t i = 0; i < group_vectors; ++i) {
      const std::int64_t left = valid - i * 32;
      output[i] = left >= 32 ? load(row.data + (at + i * 32) * 2)
                  : left <= 0
                      ? zero()
                      : _mm512_maskz_loadu_epi16((1u << left) - 1, row.data + (at + i * 32) * 2);
    }
    if (fp4) to_group_order(output);
    return;
  }
  if constexpr (fp4) {
    constexpr std::int64_t block = From == Format::nvfp4 ? 16 : 32;
    const std::uint8_t *codes = row.data + at / 2, *scales = row.scales + at / block;
    alignas(64) std::uint8_t rest[64], rest_scales[8];
    if (valid < group_elements) {
      __builtin_memset(rest, 0, sizeof rest);
      __builtin_memset(rest_scales, 2, sizeof rest_scales);
      __builtin_memcpy(rest, codes, static_cast<std::size_t>(valid / 2));
      __builtin_memcpy(rest_scales, scales, static_cast<std::size_t>(valid / block));
      codes = rest;
      scales = rest_scales;
    }
    if constexpr (From == Format::nvfp4)
      expand_nvfp4(load(codes), scales, output);
    else if (__builtin_expect(ordinary_mxfp4(scales), 1))
      expand_mxfp4(load(codes), scales, output);
    else
      expand_mxfp4_wide(codes, scales, output);
  } else {
    for (std::int64_t i = 0; i < group_vectors; ++i)
      output[i] = valid > i * 32
                      ? expand_mxfp8<From>(row.data + at + i * 32, row.scales + at / 32 + i)
                      : zero();
  }
}

/// Asks for the lines of a row of `bytes` bytes.
inline void ask_row(const KeyRow& row, std::int64_t bytes) {
  if (!row.data) return;
  for (std::int64_t i = 0; i < bytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(row.data + i), _MM_HINT_T0);
  if (row.scales) _mm_prefetch(reinterpret_cast<const char*>(row.scales), _MM_HINT_T0);
}

/// 32 keys of K, from `first` on, as left operands: tile (16 keys, 32 elements) number key / 16 *
/// steps + step.
template <Format From>
void expand_keys(const KeySide& side, const KeyRows& rows, const KeyRows& ahead, std::int64_t bytes,
                 std::int64_t first, std::uint8_t* panel) {
  const std::int64_t steps = padded(side.d) / 32;
  for (std::int64_t j = 0; j < 32; ++j) {
    ask_row(ahead[first + j], bytes);
    if (!rows.data[first + j]) continue;  // its scores are not seen
    std::uint8_t* output = panel + j / 16 * steps * tile_bytes + j % 16 * 64;
    for (std::int64_t at = 0; at < side.d; at += group_elements) {
      Int v[group_vectors];
      expand_row<From>(rows[first + j], at, side.d - at, v);
      MICROSCALE_UNROLL
      for (int i = 0; i < group_vectors; ++i, output += tile_bytes) store(output, v[i]);
    }
  }
}

/// V as right operand: tile (16 pairs of keys, 16 elements) number key / 32 * 2 * steps + 2 * step
/// + half. Pair 4 w + i of 32 keys is keys 8 w + i and 8 w + i + 4; a half has every other four
/// elements of a step.
template <Format From>
void expand_values(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                   std::int64_t bytes, std::uint8_t* panel) {
  const std::int64_t steps = padded(side.d) / 32;
  for (std::int64_t pair = 0; pair < block_keys / 2; ++pair) {
    const std::int64_t first = pair / 4 * 8 + pair % 4;
    const KeyRow a = rows[first], b = rows[first + 4];
    ask_row(ahead[first], bytes);
    ask_row(ahead[first + 4], bytes);
    std::uint8_t* output = panel + pair / 16 * 2 * steps * tile_bytes + pair % 16 * 64;
    for (std::int64_t at = 0; at < side.d; at += group_elements) {
      Int v[group_vectors], w[group_vectors];
      for (int i = 0; i < group_vectors; ++i) v[i] = w[i] = zero();
      if (a.data) expand_row<From>(a, at, side.d - at, v);
      if (b.data) expand_row<From>(b, at, side.d - at, w);
      MICROSCALE_UNROLL
      for (int i = 0; i < group_vectors; ++i, output += 2 * tile_bytes) {
        store(output, _mm512_unpacklo_epi16(v[i], w[i]));
        store(output + tile_bytes, _mm512_unpackhi_epi16(v[i], w[i]));
      }
    }
  }
}

/// The element of d that column c of a tile of V has.
inline std::int64_t value_element(const KeySide& side, std::int64_t tile, std::int64_t c) {
  return side.element(tile / 2, c / 4 * 8 + tile % 2 * 4 + c % 4);
}

/// K from key `first` on, or V. Asks for `ahead` too, the rows that come next.
template <Format From>
inline void expand_side(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                        std::int64_t first, std::uint8_t* panel, bool values) {
  const std::int64_t bytes = side.fp4() ? side.d / 2 : side.blocks ? side.d : side.d * 2;
  if (values) return expand_values<From>(side, rows, ahead, bytes, panel);
  expand_keys<From>(side, rows, ahead, bytes, first, panel);
}
inline void expand_side(const KeySide& side, const KeyRows& rows, const KeyRows& ahead,
                        std::int64_t first, std::uint8_t* panel, bool values) {
  const Format format = side.blocks ? side.format : Format::mxfp8_e4m3;
  switch (format) {
    case Format::nvfp4:
      return expand_side<Format::nvfp4>(side, rows, ahead, first, panel, values);
    case Format::mxfp4:
      return expand_side<Format::mxfp4>(side, rows, ahead, first, panel, values);
    case Format::mxfp8_e4m3:
      return expand_side<Format::mxfp8_e4m3>(side, rows, ahead, first, panel, values);
    default:
      return expand_side<Format::mxfp8_e5m2>(side, rows, ahead, first, panel, values);
  }
}
