#include "emulator/memory/lane_loops.hpp"

#include "cpu/target_region.hpp"
#include "emulator/memory/access.hpp"

namespace microscale::emulator {

namespace {

constexpr Cell lane_mask = (1u << cell_lane_bits) - 1;

bool consecutive(const std::uint64_t* address, std::uint64_t bytes) {
  std::uint64_t difference = 0, wanted = address[0];
  for (int lane = 0; lane < warp_lanes; ++lane, wanted += bytes)
    difference |= address[lane] ^ wanted;
  return difference == 0;
}

Survey survey(const std::uint64_t* address, std::uint64_t begin, std::uint64_t last,
              std::uint64_t bytes, std::uint64_t* offset) {
  std::uint64_t bits = 0, beyond = 0, differ = 0;
  const std::uint64_t first = address[0] - begin;
  for (int lane = 0; lane < warp_lanes; ++lane) {
    const std::uint64_t at = offset[lane] = address[lane] - begin;
    bits |= at;
    beyond |= at | (last - at);
    differ |= at ^ first;
  }
  return {beyond >> 63 == 0 && bits % bytes == 0, differ < ShadowPage::bytes};
}

void cells_at(const std::uint64_t* offset, std::uint32_t shift, std::uint32_t* index) {
  for (int i = 0; i < warp_lanes; ++i)
    index[i] = static_cast<std::uint32_t>(offset[i] % ShadowPage::bytes) >> shift;
}

void gather(const Cell* cells, const std::uint32_t* index, std::uint32_t count, Cell* into) {
  for (std::uint32_t i = 0; i < count; ++i) into[i] = cells[index[i]];
}

bool scatter(Cell* cells, const std::uint32_t* index, std::uint32_t count, const Cell* from) {
  for (std::uint32_t i = 0; i < count; ++i) cells[index[i]] = from[i];
  Cell difference = 0;
  for (std::uint32_t i = 0; i < count; ++i) difference |= cells[index[i]] ^ from[i];
  return difference == 0;
}

std::uint32_t run_end(const Cell* cells, std::uint32_t from, std::uint32_t count,
                      std::uint32_t id) {
  const Cell wanted = id << cell_lane_bits;
  std::uint32_t at = from;
  for (; at + 8 <= count; at += 8) {
    Cell any = 0;
    for (std::uint32_t i = 0; i < 8; ++i) any |= cells[at + i] ^ wanted;
    if (any > lane_mask) break;
  }
  while (at < count && cells[at] >> cell_lane_bits == id) ++at;
  return at;
}

bool uniform(const Cell* one, const Cell* other) {
  Cell any = 0;
  for (std::uint32_t i = 0; i < warp_lanes; ++i) any |= one[i] ^ one[0];
  for (std::uint32_t i = 0; i < warp_lanes; ++i) any |= other[i] ^ other[0];
  return any <= lane_mask;
}

void fill(Cell* cells, const Cell* lanes, std::uint32_t count, std::uint32_t id) {
  for (std::uint32_t i = 0; i < count; ++i) cells[i] = id << cell_lane_bits | lanes[i];
}

bool same_lanes(const Cell* cells, const Cell* lanes, std::uint32_t count) {
  Cell any = 0;
  for (std::uint32_t i = 0; i < count; ++i) any |= cells[i] ^ lanes[i];
  return (any & lane_mask) == 0;
}

}  // namespace

const LaneLoops& portable_lane_loops() {
  static constexpr LaneLoops loops{consecutive, survey,  cells_at, gather,    scatter,
                                   run_end,     uniform, fill,     same_lanes};
  return loops;
}

}  // namespace microscale::emulator

#if defined(__x86_64__)
MICROSCALE_AVX2_BEGIN

static inline __m256i eight(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
static inline void put(void* to, __m256i value) {
  _mm256_storeu_si256(static_cast<__m256i*>(to), value);
}
static bool consecutive(const std::uint64_t* address, std::uint64_t bytes) {
  const auto by = static_cast<long long>(bytes);
  const __m256i next = _mm256_set1_epi64x(4 * by);
  __m256i wanted = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<long long>(address[0])),
                                    _mm256_setr_epi64x(0, by, 2 * by, 3 * by));
  __m256i difference = _mm256_setzero_si256();
  MICROSCALE_UNROLL
  for (int lane = 0; lane < emulator::warp_lanes; lane += 4) {
    difference = _mm256_or_si256(difference, _mm256_xor_si256(eight(address + lane), wanted));
    wanted = _mm256_add_epi64(wanted, next);
  }
  return _mm256_testz_si256(difference, difference);
}

static emulator::Survey survey(const std::uint64_t* address, std::uint64_t begin,
                               std::uint64_t last, std::uint64_t bytes, std::uint64_t* offset) {
  const __m256i start = _mm256_set1_epi64x(static_cast<long long>(begin));
  const __m256i most = _mm256_set1_epi64x(static_cast<long long>(last));
  const __m256i first = _mm256_set1_epi64x(static_cast<long long>(address[0] - begin));
  __m256i bits = _mm256_setzero_si256(), beyond = bits, differ = bits;
  for (int lane = 0; lane < emulator::warp_lanes; lane += 4) {
    const __m256i at = _mm256_sub_epi64(eight(address + lane), start);
    put(offset + lane, at);
    bits = _mm256_or_si256(bits, at);
    beyond = _mm256_or_si256(beyond, _mm256_sub_epi64(most, at));
    differ = _mm256_or_si256(differ, _mm256_xor_si256(at, first));
  }
  const __m256i low = _mm256_set1_epi64x(static_cast<long long>(bytes) - 1);
  const __m256i page = _mm256_set1_epi64x(-static_cast<long long>(emulator::ShadowPage::bytes));
  const int outside = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_or_si256(beyond, bits)));
  return {outside == 0 && _mm256_testz_si256(bits, low), _mm256_testz_si256(differ, page) != 0};
}

static void cells_at(const std::uint64_t* offset, std::uint32_t shift, std::uint32_t* index) {
  const __m256i low = _mm256_set1_epi64x(emulator::ShadowPage::bytes - 1);
  const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  const __m128i by = _mm_cvtsi32_si128(static_cast<int>(shift));
  for (int i = 0; i < emulator::warp_lanes; i += 4) {
    const __m256i cell = _mm256_srl_epi64(_mm256_and_si256(eight(offset + i), low), by);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(index + i),
                     _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(cell, even)));
  }
}

static inline __m256i eight_at(const emulator::Cell* cells, const std::uint32_t* index) {
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(cells), eight(index), 4);
}

static void gather(const emulator::Cell* cells, const std::uint32_t* index, std::uint32_t count,
                   emulator::Cell* into) {
  std::uint32_t at = 0;
  for (; at + 8 <= count; at += 8) put(into + at, eight_at(cells, index + at));
  for (; at < count; ++at) into[at] = cells[index[at]];
}

static bool scatter(emulator::Cell* cells, const std::uint32_t* index, std::uint32_t count,
                    const emulator::Cell* from) {
  std::uint32_t at = 0;
  for (; at + 8 <= count; at += 8) {
    MICROSCALE_UNROLL
    for (std::uint32_t i = 0; i < 8; ++i) cells[index[at + i]] = from[at + i];
  }
  for (; at < count; ++at) cells[index[at]] = from[at];
  __m256i any = _mm256_setzero_si256();
  emulator::Cell rest = 0;
  for (at = 0; at + 8 <= count; at += 8)
    any = _mm256_or_si256(any, _mm256_xor_si256(eight_at(cells, index + at), eight(from + at)));
  for (; at < count; ++at) rest |= cells[index[at]] ^ from[at];
  return _mm256_testz_si256(any, any) && rest == 0;
}

static std::uint32_t run_end(const emulator::Cell* cells, std::uint32_t from, std::uint32_t count,
                             std::uint32_t id) {
  const emulator::Cell name = id << emulator::cell_lane_bits;
  const __m256i wanted = _mm256_set1_epi32(static_cast<int>(name));
  const __m256i upper = _mm256_set1_epi32(-(1 << emulator::cell_lane_bits));
  std::uint32_t at = from;
  for (; at + 32 <= count; at += 32) {
    __m256i any = _mm256_setzero_si256();
    MICROSCALE_UNROLL
    for (std::uint32_t i = 0; i < 32; i += 8)
      any = _mm256_or_si256(any, _mm256_xor_si256(eight(cells + at + i), wanted));
    if (!_mm256_testz_si256(any, upper)) break;
  }
  for (; at + 8 <= count; at += 8)
    if (!_mm256_testz_si256(_mm256_xor_si256(eight(cells + at), wanted), upper)) break;
  while (at < count && cells[at] >> emulator::cell_lane_bits == id) ++at;
  return at;
}

static inline __m256i unlike_first(const emulator::Cell* cells) {
  const __m256i first = _mm256_set1_epi32(static_cast<int>(cells[0]));
  __m256i any = _mm256_xor_si256(eight(cells), first);
  MICROSCALE_UNROLL
  for (int i = 8; i < emulator::warp_lanes; i += 8)
    any = _mm256_or_si256(any, _mm256_xor_si256(eight(cells + i), first));
  return any;
}

static bool uniform(const emulator::Cell* one, const emulator::Cell* other) {
  return _mm256_testz_si256(_mm256_or_si256(unlike_first(one), unlike_first(other)),
                            _mm256_set1_epi32(-(1 << emulator::cell_lane_bits)));
}

static void fill(emulator::Cell* cells, const emulator::Cell* lanes, std::uint32_t count,
                 std::uint32_t id) {
  const emulator::Cell name = id << emulator::cell_lane_bits;
  const __m256i wanted = _mm256_set1_epi32(static_cast<int>(name));
  std::uint32_t at = 0;
  for (; at + 8 <= count; at += 8) put(cells + at, _mm256_or_si256(eight(lanes + at), wanted));
  for (; at < count; ++at) cells[at] = name | lanes[at];
}

static bool same_lanes(const emulator::Cell* cells, const emulator::Cell* lanes,
                       std::uint32_t count) {
  constexpr int mask = (1 << emulator::cell_lane_bits) - 1;
  __m256i any = _mm256_setzero_si256();
  emulator::Cell rest = 0;
  std::uint32_t at = 0;
  for (; at + 8 <= count; at += 8)
    any = _mm256_or_si256(any, _mm256_xor_si256(eight(cells + at), eight(lanes + at)));
  for (; at < count; ++at) rest |= cells[at] ^ lanes[at];
  return _mm256_testz_si256(any, _mm256_set1_epi32(mask)) && (rest & mask) == 0;
}

static constexpr emulator::LaneLoops lane_loops{consecutive, survey,  cells_at, gather,    scatter,
                                                run_end,     uniform, fill,     same_lanes};

MICROSCALE_AVX2_END
#endif

namespace microscale::emulator {

const LaneLoops& lane_loops() {
#if defined(__x86_64__)
  static const LaneLoops& chosen = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")
                                       ? avx2::lane_loops
                                       : portable_lane_loops();
  return chosen;
#else
  return portable_lane_loops();
#endif
}

}  // namespace microscale::emulator
