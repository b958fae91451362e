// FP4 keys and values of attention as 16-bit integers, 32 keys at a time, for the products of
// attention_products.hpp: a lane of K's products is a key, one of V's an eight of elements, a word
// of codes. q becomes integers of 16 bits relative to its row's largest. Included inside a target
// region (cpu/target_region.hpp), after generic/attention_sides.hpp.

/// The doubled values of the lowest five bits of each 16 (the fifth is ignored).
inline Int doubled_e2m1(Int nibbles) {
  alignas(64) static constexpr std::int16_t values[32] = {
      0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
      0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return _mm512_permutexvar_epi16(nibbles, load(values));
}

/// Nibbles 0, 4, 8 and 12 bits from the right in each 16, each 32 lanes of them to
/// output + i * stride.
inline void put_nibbles(Int words, std::int64_t stride, std::int16_t* output) {
  store(output, doubled_e2m1(words));
  store(output + stride, doubled_e2m1(shr16<4>(words)));
  store(output + 2 * stride, doubled_e2m1(shr16<8>(words)));
  store(output + 3 * stride, doubled_e2m1(shr16<12>(words)));
}

/// Sixteen E4M3 bytes, none of them NaN or with a sign, as FP32 / 2^8.
inline Float plain_e4m3(__m128i bytes) {
  return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 7));
}

/// The scale bytes of 32 rows, those of 128 elements of 16 rows side by side: 8 or 4 a row, behind
/// its end zeros or what it begins with.
class ScaleBytes {
 public:
  void gather(const KeyRows& rows, std::int64_t d) {
    const bool e4m3 = rows.format == Format::nvfp4;
    const std::int64_t all = d / (e4m3 ? 16 : 32), most = e4m3 ? 8 : 4;
    chunks_ = 0;
    for (std::int64_t at = 0; at < all; at += most, ++chunks_)
      for (int h = 0; h < 2; ++h) {
        const KeyRows::Half& half = rows.half[h];
        if (all == most && half.scale_stride == most) {
          chunk_[chunks_][h] = half.scales;
          continue;
        }
        std::uint8_t* output = copies_[chunks_][h];
        chunk_[chunks_][h] = output;
        for (int j = 0; j < 16; ++j)
          copy(half.scales + j * half.scale_stride + at, all - at < most ? all - at : most, e4m3,
               output + j * most);
      }
  }
  const std::uint8_t* chunk(std::int64_t c, int half) const { return chunk_[c][half]; }

  /// The largest byte, and the least; of V the least that is not 0, which is E4M3's 0, and what
  /// quantizers say of a block of zeros in E8M0; where all are 0, 256.
  template <bool E4m3, bool Values>
  void range(int& least, int& largest) const {
    Int low = set8(0xFF), high = zero();  // low: of V 1 less
    const auto take = [&](const std::uint8_t* bytes) {
      const Int some = load(bytes);
      low = min8(low, Values ? sub8(some, set8(1)) : some);
      high = _mm512_max_epu8(high, some);
    };
    for (int c = 0; c < chunks_; ++c)
      for (int h = 0; h < 2; ++h) {
        take(chunk_[c][h]);
        if (E4m3) take(chunk_[c][h] + 64);
      }
    least = (Values ? 256 : 255) - largest_of(xor_(low, set8(0xFF)));
    largest = largest_of(high);
  }

 private:
  static void copy(const std::uint8_t* from, std::int64_t count, bool e4m3, std::uint8_t* to) {
    if (e4m3 && count == 8)
      __builtin_memcpy(to, from, 8);
    else if (!e4m3 && count == 4)
      __builtin_memcpy(to, from, 4);
    else
      for (std::int64_t i = 0; i < (e4m3 ? 8 : 4); ++i)
        to[i] = i < count ? from[i] : e4m3 ? std::uint8_t{0} : from[0];
  }

  static int largest_of(Int bytes) {
    const Int even = max16(and_(bytes, set16(0xFF)), shr16<8>(bytes));
    const __m128i eight = fold_max16(even);  // the least of eight is what minpos finds
    return 0xFFFF -
           (_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)))) & 0xFFFF);
  }

  alignas(64) std::uint8_t copies_[2][2][128];
  const std::uint8_t* chunk_[2][2];
  int chunks_ = 0;
};

class CodedKeys {
 public:
  static constexpr bool some = true;
  static constexpr std::int64_t roundings = (1 << 9) + 1;  // half of 2^-14, of an integer's largest
  static std::int64_t bytes(std::int64_t rows, std::int64_t d) {
    return padded<LongSteps>(d) * (64 + 8) + weight_bytes + lines(rows * d * 2) + lines(rows * 4) +
           lines(rows);
  }

  CodedKeys(const AttentionTile& tile, void* memory)
      : d_(tile.d), stride_(padded<LongSteps>(tile.d)), products_(products_here()) {
    auto* at = static_cast<std::uint8_t*>(memory);
    codes_ = reinterpret_cast<std::int16_t*>(at);
    scales_ = reinterpret_cast<float*>(at += stride_ * 64);
    weights_ = reinterpret_cast<float*>(at += stride_ * 8);
    query_ = reinterpret_cast<std::int16_t*>(at += weight_bytes);
    unit_ = reinterpret_cast<float*>(at += lines(tile.rows * d_ * 2));
    usable_ = at + lines(tile.rows * 4);
    for (std::int64_t r = 0; r < tile.rows; ++r) load_query(tile.q + r * d_, r);
  }

  /// Whether products of this row may be taken in integers.
  bool usable(std::int64_t row) const { return usable_[row] != 0; }

  /// Powers of two that V's scales of 32 keys may be apart: probabilities times them have 15 bits
  /// of the largest, so one as large as any other keeps 8 of its own.
  static constexpr int scales_apart = 7;

  /// Whether those of these 32 keys may: their scales are numbers of a common size.
  bool take(const KeyRows& k, const KeyRows& v) {
    k_scales_.gather(k, d_);
    v_scales_.gather(v, d_);
    int least, largest;
    if (k.format == Format::nvfp4) {
      k_scales_.range<true, false>(least, largest);
      if (largest >= 0x7F) return false;  // NaN or a sign
    } else {
      k_scales_.range<false, false>(least, largest);
      if (least < 64 || largest > 190) return false;
    }
    if (v.format == Format::nvfp4) {
      v_unit_ = 0x1p-61f;
      v_scales_.range<true, true>(least, largest);
      return largest < 0x7F && largest / 8 - least / 8 <= scales_apart;
    }
    v_scales_.range<false, true>(least, largest);
    v_largest_ = largest;
    v_unit_ = as_power(largest - 61);
    return least >= 64 && largest >= 64 && largest <= 190 && largest - least <= scales_apart;
  }

  /// K becomes integers; `next`, if any, is asked for.
  void expand_keys(const KeyRows& k, const KeyRows* next) {
    for (std::int64_t c = 0; c < stride_ / 128; ++c) {
      const int words = words_in(c);
      const auto mask = static_cast<__mmask16>((1u << words) - 1);
      for (int g = 0; g < 2; ++g) {
        Float word[16];
        MICROSCALE_UNROLL
        for (int j = 0; j < 16; ++j) {
          if (c == 0 && next) ask_for_row(next->half[g], j);
          word[j] = _mm512_maskz_loadu_ps(mask, k.half[g].codes + j * k.half[g].stride + c * 64);
        }
        transpose(word);
        std::int16_t* output = codes_ + (c * 16 * 8 + g) * 32;
        MICROSCALE_UNROLL
        for (int w = 0; w < 16; ++w)
          if (w < words) put_nibbles(as_int(word[w]), 64, output + w * 8 * 32);
        if (k.format == Format::nvfp4)
          put_e4m3_of_keys(k_scales_.chunk(c, g), words / 2, scales_ + c * 8 * 32 + g * lanes);
        else
          put_e8m0_of_keys(k_scales_.chunk(c, g), words / 4, scales_ + c * 4 * 32 + g * lanes);
      }
    }
    keys_ = {codes_, scales_, static_cast<int>(d_ / 8), k.format == Format::nvfp4 ? 2 : 4};
  }
  /// V.
  void expand_values(const KeyRows& v, const KeyRows* next) {
    for (std::int64_t c = 0; c < stride_ / 128; ++c) {
      const auto mask = static_cast<__mmask16>((1u << words_in(c)) - 1);
      for (int pair = 0; pair < 16; ++pair) {
        const KeyRows::Half& half = v.half[pair / 8];
        const int key = 2 * (pair % 8);
        if (c == 0 && next)
          ask_for_row(next->half[pair / 8], key), ask_for_row(next->half[pair / 8], key + 1);
        const std::uint8_t* row = half.codes + key * half.stride + c * 64;
        const Int a = _mm512_maskz_loadu_epi32(mask, row),
                  b = _mm512_maskz_loadu_epi32(mask, row + half.stride);
        std::int16_t* output = codes_ + (c * 16 + pair) * 8 * 32;
        put_nibbles(interleave(a, b), 32, output);
        put_nibbles(_mm512_mask_blend_epi16(0xAAAAAAAAu, shr32<16>(a), b), 32, output + 4 * 32);
        const std::uint8_t* scales = v_scales_.chunk(c, pair / 8);
        store_float(scales_ + (c * 16 + pair) * lanes, v.format == Format::nvfp4
                                                           ? e4m3_of_pair(scales + key * 8)
                                                           : e8m0_of_pair(scales + key * 4));
      }
    }
    values_ = {codes_, scales_, stride_, v_unit_};
  }

  /// Of the rows from r on, product_rows[i] of them.
  void scores(int i, std::int64_t r, float* scores) const {
    products_.scores[i]({query_ + r * d_, unit_ + r, d_}, keys_, scores);
  }
  void sums(int i, const float* p, const float* alpha, float* output) const {
    products_.sums[i]({p, alpha, weights_}, values_, output);
  }

 private:
  [[gnu::always_inline]] void ask_for_row(const KeyRows::Half& rows, int key) const {
    const std::uint8_t* codes = rows.codes + key * rows.stride;
    prefetch_line(codes, 0);
    if (d_ > 128) prefetch_line(codes, 64);
    if (key % 4 == 0) prefetch_line(rows.scales, key * rows.scale_stride);  // four rows a line
  }

  static constexpr std::int64_t weight_bytes = 4 * 16 * 64;
  static std::int64_t lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }
  static const AttentionProducts& products_here() {
    static const bool has_vnni = __builtin_cpu_supports("avx512vnni");
    return has_vnni ? vnni_products : avx512_products;
  }
  /// 2^(e - 127).
  static float as_power(int e) { return __builtin_ldexpf(1.0f, e - 127); }
  int words_in(std::int64_t chunk) const {
    const std::int64_t words = d_ / 8 - chunk * 16;
    return words < 16 ? static_cast<int>(words) : 16;
  }

  /// q * 2^s rounded, with its largest magnitude at 2^14 or more, but below 2^15 when rounded.
  void load_query(const double* q, std::int64_t r) {
    __m512d most = _mm512_setzero_pd();
    __mmask8 common = 0xFF;  // a NaN is not
    for (std::int64_t i = 0; i < d_; i += 8) {
      const __m512d magnitude = _mm512_abs_pd(_mm512_loadu_pd(q + i));
      common &= _mm512_cmp_pd_mask(magnitude, _mm512_set1_pd(0x1p100), _CMP_LT_OQ);
      most = _mm512_max_pd(most, magnitude);
    }
    const double largest = _mm512_reduce_max_pd(most);
    usable_[r] = common == 0xFF && (largest > 0x1p-60 || largest == 0);
    if (!usable_[r]) return;
    const int shift = largest == 0 ? 0 : 14 - __builtin_ilogb(largest * (1 + 0x1p-15));
    unit_[r] = __builtin_ldexpf(0.5f, -shift);  // codes are doubled
    const __m512d factor = _mm512_set1_pd(__builtin_ldexp(1.0, shift));
    const __m256i halves = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // elements i and i + 4
    for (std::int64_t i = 0; i < d_; i += 8) {
      const __m256i word = _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_loadu_pd(q + i), factor));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(query_ + r * d_ + i),
                       _mm256_cvtepi32_epi16(_mm256_permutevar8x32_epi32(word, halves)));
    }
  }

  /// 8 bytes of each of 16 keys, turned around.
  static void put_e4m3_of_keys(const std::uint8_t* bytes, int blocks, float* output) {
    const Int pairs =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15));
    const Int first = lookup8(load(bytes), pairs), second = lookup8(load(bytes + 64), pairs);
    // 16 bits i of part b of the result: of two keys, 8 i + b, in the eight parts of both.
    const Int step = _mm512_broadcast_i32x4(_mm_setr_epi16(0, 8, 16, 24, 32, 40, 48, 56));
    const Int part = _mm512_setr_epi64(0, 0, 0x1000100010001, 0x1000100010001, 0x2000200020002,
                                       0x2000200020002, 0x3000300030003, 0x3000300030003);
    const Int index = add16(step, part);
    alignas(64) std::uint8_t turned[128];
    store(turned, _mm512_permutex2var_epi16(first, index, second));
    store(turned + 64, _mm512_permutex2var_epi16(first, add16(index, set16(4)), second));
    for (int b = 0; b < blocks; ++b)
      store_float(output + b * 32,
                  plain_e4m3(_mm_load_si128(reinterpret_cast<const __m128i*>(turned) + b)));
  }
  static void put_e8m0_of_keys(const std::uint8_t* bytes, int blocks, float* output) {
    const Int four = load(bytes), exponent = set32(0x7F800000u);
    const Int scale[4] = {and_(shl32<23>(four), exponent), and_(shl32<15>(four), exponent),
                          and_(shl32<7>(four), exponent), and_(shr32<1>(four), exponent)};
    for (int b = 0; b < blocks; ++b) store_float(output + b * 32, as_float(scale[b]));
  }
  /// Lanes 2 i and 2 i + 1: the scales that word 2 i and the next have of two keys, times 2^60, so
  /// that the least weights are no subnormal numbers.
  static Float e4m3_of_pair(const std::uint8_t* bytes) {
    const __m128i two = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes));
    return mul(plain_e4m3(_mm_unpacklo_epi8(two, _mm_srli_si128(two, 8))), set_float(0x1p60f));
  }
  /// Relative to the largest; a byte of 0 is far below what an integer holds.
  Float e8m0_of_pair(const std::uint8_t* bytes) const {
    const __m128i two = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes));
    const Int place = _mm512_setr_epi32(0, 4, 0, 4, 1, 5, 1, 5, 2, 6, 2, 6, 3, 7, 3, 7);
    const Int scale = _mm512_permutexvar_epi32(place, _mm512_cvtepu8_epi32(two));
    const Int exponent = add32(scale, set32(static_cast<std::uint32_t>(187 - v_largest_)));
    return as_float(shl32<23>(max32_signed(exponent, zero())));
  }

  const std::int64_t d_, stride_;
  const AttentionProducts& products_;
  std::int16_t *codes_, *query_;
  float *scales_, *weights_, *unit_;
  std::uint8_t* usable_;
  ScaleBytes k_scales_, v_scales_;
  int v_largest_ = 0;
  float v_unit_ = 0;
  KeyCodes keys_{};
  ValueCodes values_{};
};
