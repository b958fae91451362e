#include "seam/transpose.hpp"

#include <algorithm>

#include "cpu/target_region.hpp"

namespace microscale {
namespace {

// By way of a tile, `side` rows and columns, so that both matrices are touched four cache lines at
// a time: rows a power of two apart share places in a cache, and each may be another page. The tile
// has gaps for the same reason.
constexpr int line_bytes = 64;
template <class T>
constexpr int side = 4 * line_bytes / static_cast<int>(sizeof(T));
template <class T>
constexpr int pitch = side<T> + 16 / static_cast<int>(sizeof(T));
template <class T>
constexpr int block = 16 / static_cast<int>(sizeof(T));  // elements of a vector, and vectors

template <class T>
__m128i load(const T* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
template <class T>
void store(T* p, __m128i v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v);
}

void transpose_block(const std::uint32_t* from, std::int64_t stride, std::uint32_t* to) {
  const __m128i r0 = load(from), r1 = load(from + stride), r2 = load(from + 2 * stride),
                r3 = load(from + 3 * stride);
  const __m128i a = _mm_unpacklo_epi32(r0, r1), b = _mm_unpackhi_epi32(r0, r1),
                c = _mm_unpacklo_epi32(r2, r3), d = _mm_unpackhi_epi32(r2, r3);
  constexpr int p = pitch<std::uint32_t>;
  store(to, _mm_unpacklo_epi64(a, c));
  store(to + p, _mm_unpackhi_epi64(a, c));
  store(to + 2 * p, _mm_unpacklo_epi64(b, d));
  store(to + 3 * p, _mm_unpackhi_epi64(b, d));
}

void transpose_block(const std::uint16_t* from, std::int64_t stride, std::uint16_t* to) {
  __m128i r[8], t[8];
  MICROSCALE_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = load(from + i * stride);
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {  // rows 2 i and 2 i + 1: columns 0 to 3, then 4 to 7
    t[i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    t[4 + i] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {  // r[2 i + half]: columns 2 i and 2 i + 1 of four rows
    const int from_pair = i / 2 * 4;
    MICROSCALE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const __m128i x = t[from_pair + 2 * half], y = t[from_pair + 2 * half + 1];
      r[2 * i + half] = i % 2 == 0 ? _mm_unpacklo_epi32(x, y) : _mm_unpackhi_epi32(x, y);
    }
  }
  constexpr int p = pitch<std::uint16_t>;
  MICROSCALE_UNROLL
  for (int i = 0; i < 4; ++i) {
    store(to + 2 * i * p, _mm_unpacklo_epi64(r[2 * i], r[2 * i + 1]));
    store(to + (2 * i + 1) * p, _mm_unpackhi_epi64(r[2 * i], r[2 * i + 1]));
  }
}

template <class T>
void transpose_tile(const T* from, std::int64_t stride, int rows, int cols, T* tile) {
  const int whole_rows = rows / block<T> * block<T>, whole_cols = cols / block<T> * block<T>;
  for (int r = 0; r < whole_rows; r += block<T>)
    for (int c = 0; c < whole_cols; c += block<T>)
      transpose_block(from + r * stride + c, stride, tile + c * pitch<T> + r);
  for (int r = 0; r < rows; ++r)
    for (int c = r < whole_rows ? whole_cols : 0; c < cols; ++c)
      tile[c * pitch<T> + r] = from[r * stride + c];
}

template <class T>
void copy(const T* from, int count, T* to, bool past_cache) {
  const int whole = count / block<T> * block<T>;
  if (past_cache && reinterpret_cast<std::uintptr_t>(to) % 16 == 0)
    for (int i = 0; i < whole; i += block<T>)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), load(from + i));
  else
    for (int i = 0; i < whole; i += block<T>) store(to + i, load(from + i));
  for (int i = whole; i < count; ++i) to[i] = from[i];
}

}  // namespace

template <class T>
void transpose(const T* from, std::int64_t from_stride, std::int64_t rows, std::int64_t cols, T* to,
               std::int64_t to_stride, bool past_cache) {
  alignas(line_bytes) T tile[side<T> * pitch<T>];
  for (std::int64_t r = 0; r < rows; r += side<T>)
    for (std::int64_t c = 0; c < cols; c += side<T>) {
      const int height = static_cast<int>(std::min<std::int64_t>(side<T>, rows - r)),
                width = static_cast<int>(std::min<std::int64_t>(side<T>, cols - c));
      transpose_tile(from + r * from_stride + c, from_stride, height, width, tile);
      for (int i = 0; i < width; ++i)
        copy(tile + i * pitch<T>, height, to + (c + i) * to_stride + r, past_cache);
    }
  if (past_cache) _mm_sfence();
}

template void transpose(const std::uint16_t*, std::int64_t, std::int64_t, std::int64_t,
                        std::uint16_t*, std::int64_t, bool);
template void transpose(const std::uint32_t*, std::int64_t, std::int64_t, std::int64_t,
                        std::uint32_t*, std::int64_t, bool);

}  // namespace microscale
