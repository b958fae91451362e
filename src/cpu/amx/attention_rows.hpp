// Where K and V of 128 keys lie, and the order of elements in which they are multiplied. Included
// inside a target region, after expand.hpp.

inline constexpr std::int64_t block_keys = 128;

/// K or V of one key. No scales: BF16. No data: there is no such key.
struct KeyRow {
  const std::uint8_t *data, *scales;
};

/// What all rows of a block are: there and with scales, or there and BF16. `any`: neither.
enum class RowKind : std::uint8_t { any, codes, dense };

/// K or V of a block's keys.
struct KeyRows {
  const std::uint8_t *data[block_keys], *scales[block_keys];
  RowKind kind = RowKind::any;

  KeyRow operator[](std::int64_t key) const { return {data[key], scales[key]}; }
  void clear() {
    kind = RowKind::any;
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
    place(scales, first, last, q, q ? rows.scale_stride : 0);
  }

 private:
  static void place(const std::uint8_t** output, std::int64_t first, std::int64_t last,
                    const std::uint8_t* p, std::int64_t stride) {
    Int at = _mm512_add_epi64(
        _mm512_set1_epi64(reinterpret_cast<long long>(p)),
        _mm512_mullo_epi64(_mm512_set1_epi64(stride), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)));
    const Int more = _mm512_set1_epi64(8 * stride);
    for (; first + 8 <= last; first += 8, at = _mm512_add_epi64(at, more))
      store(output + first, at);
    if (first < last)
      _mm512_mask_storeu_epi64(output + first, static_cast<__mmask8>((1u << (last - first)) - 1),
                               at);
  }
};

/// K or V of a tile's keys: what its rows are, and in which order their elements are multiplied.
struct KeySide {
  std::int64_t d = 0;
  bool blocks = false;  // some rows are block-scaled; all of those in `format`
  Format format = Format::nvfp4;

  bool fp4() const { return blocks && (format == Format::nvfp4 || format == Format::mxfp4); }
  std::int64_t row_bytes() const { return fp4() ? d / 2 : blocks ? d : d * 2; }
  /// The element of K at place l of step s, 32 elements a step.
  std::int64_t key_element(std::int64_t s, std::int64_t l) const {
    return s * 32 + (fp4() ? l % 8 * 4 + l / 8 : l);
  }
  /// The element of V in column c of tile t, 16 columns a tile: pairs of keys are put together by
  /// quarters of vectors.
  std::int64_t value_element(std::int64_t t, std::int64_t c) const {
    return key_element(t / 2, c / 4 * 8 + t % 2 * 4 + c % 4);
  }
};
