#include "memory_limits.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/threads.hpp"

namespace microscale::bench {
namespace {

constexpr std::size_t line = 64;

// One piece: lines are written as evenly between the lines read as whole lines can be.
__attribute__((target("avx2"))) void move_piece(const std::uint8_t* input, std::size_t read_lines,
                                                std::uint8_t* output, std::size_t write_lines) {
  __m256i mix = _mm256_setzero_si256();
  std::size_t written = 0, due = 0;  // `due` counts in units of 1 / read_lines lines
  for (std::size_t i = 0; i < read_lines; ++i) {
    const std::uint8_t* p = input + i * line;
    _mm_prefetch(reinterpret_cast<const char*>(p + 1024), _MM_HINT_T0);
    mix = _mm256_or_si256(mix, _mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
    mix = _mm256_or_si256(mix, _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 32)));
    for (due += write_lines; due >= read_lines; due -= read_lines, ++written) {
      auto* q = reinterpret_cast<__m256i*>(output + written * line);
      _mm256_stream_si256(q, mix);
      _mm256_stream_si256(q + 1, mix);
    }
  }
  for (; written < write_lines; ++written) {
    auto* q = reinterpret_cast<__m256i*>(output + written * line);
    _mm256_stream_si256(q, mix);
    _mm256_stream_si256(q + 1, mix);
  }
  _mm_sfence();
}

}  // namespace

void move_bytes(const void* input, std::size_t read_bytes, void* output, std::size_t write_bytes,
                int threads) {
  const std::size_t read_lines = read_bytes / line, write_lines = write_bytes / line;
  const std::size_t pieces = std::max<std::size_t>(1, (read_lines + write_lines) / 16384);
  parallel_for(static_cast<std::int64_t>(pieces), threads, [&](std::int64_t index) {
    const auto i = static_cast<std::size_t>(index);
    const std::size_t read = read_lines * i / pieces, read_end = read_lines * (i + 1) / pieces;
    const std::size_t write = write_lines * i / pieces, write_end = write_lines * (i + 1) / pieces;
    move_piece(static_cast<const std::uint8_t*>(input) + read * line, read_end - read,
               static_cast<std::uint8_t*>(output) + write * line, write_end - write);
  });
}

void copy_bytes(const void* input, void* output, std::size_t bytes, int threads) {
  const std::size_t piece = std::size_t{4} << 20;
  parallel_for(static_cast<std::int64_t>((bytes + piece - 1) / piece), threads,
               [&](std::int64_t index) {
                 const std::size_t first = static_cast<std::size_t>(index) * piece;
                 std::memcpy(static_cast<std::uint8_t*>(output) + first,
                             static_cast<const std::uint8_t*>(input) + first,
                             std::min(piece, bytes - first));
               });
}

}  // namespace microscale::bench
