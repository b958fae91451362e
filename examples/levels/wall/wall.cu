// Where the wall is: a copy that reads and writes what a quantizer would, with 0 to 20 instructions
// an element in between that compute nothing anybody wants. As long as the memory is the limit they
// are free; the number at which the rate falls is what a quantizer may spend.
//
// A thread takes four chunks of eight elements, one in each of four runs of 256, as the shipped
// kernels do, and loads all before it uses any. Pairs of instructions that no compiler merges or
// drops: w * m + c, then w ^ k (both pipes); or a rotation, then w ^ k (the integer pipe alone).
#include <array>
#include <utility>

#include "../level.hpp"
#include "ladder.hpp"

namespace levels {
namespace {

constexpr int threads = 256, chunks = 4;

template <Pipe Which, int Pairs>
__device__ std::uint32_t pass_time(std::uint32_t w, std::uint32_t m, std::uint32_t k) {
#pragma unroll
  for (int i = 0; i < Pairs; ++i) {
    if constexpr (Which == Pipe::both)
      w = w * m + k;
    else
      w = __funnelshift_l(w, w, 7);
    w ^= m;
  }
  return w;
}

template <int Bytes>
__device__ void load(const std::uint32_t* from, std::uint32_t (&w)[Bytes / 4]) {
  if constexpr (Bytes == 4) {
    w[0] = __ldcs(from);
  } else {
#pragma unroll
    for (int i = 0; i < Bytes / 16; ++i) {
      const uint4 v = __ldcs(reinterpret_cast<const uint4*>(from) + i);
      w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
    }
  }
}

/// Each word of the output is made of its share of the words that were read, or the other way
/// round.
template <int Mix, Pipe Which, int Instructions>
__global__ void __launch_bounds__(threads, 5) copy(Args args) {
  constexpr int read = mixes[Mix].read / 4, write = mixes[Mix].write / 4;  // words
  constexpr int words = read > write ? read : write;                       // that are worked on
  constexpr int pairs = Instructions * 8 / words / 2;
  const auto m = static_cast<std::uint32_t>(args.cols), k = static_cast<std::uint32_t>(args.rows);
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * (threads * chunks) + threadIdx.x;
  const auto* from = static_cast<const std::uint32_t*>(args.input) + first * read;
  auto* to = reinterpret_cast<std::uint32_t*>(args.codes) + first * write;
  std::uint32_t w[chunks][read];
#pragma unroll
  for (int j = 0; j < chunks; ++j) load<read * 4>(from + j * threads * read, w[j]);
#pragma unroll
  for (int j = 0; j < chunks; ++j) {
    std::uint32_t out[write] = {};
#pragma unroll
    for (int i = 0; i < words; ++i)
      out[i % write] ^= pass_time<Which, pairs>(w[j][i % read] + (read < write ? i : 0), m, k);
    std::uint32_t* at = to + j * threads * write;
    if constexpr (write == 1)
      *at = out[0];
    else if constexpr (write == 2)
      *reinterpret_cast<uint2*>(at) = make_uint2(out[0], out[1]);
    else
      *reinterpret_cast<uint4*>(at) = make_uint4(out[0], out[1], out[2], out[3]);
  }
}

constexpr int steps = most_instructions / 2 + 1;

template <int Mix, Pipe Which, int... Step>
constexpr std::array<void (*)(Args), steps> kernels(std::integer_sequence<int, Step...>) {
  return {copy<Mix, Which, 2 * Step>...};
}

template <int Mix>
void (*kernel_of(Pipe pipe, int step))(Args) {
  constexpr auto all = std::make_integer_sequence<int, steps>();
  static constexpr auto both = kernels<Mix, Pipe::both>(all),
                        integer = kernels<Mix, Pipe::integer>(all);
  return (pipe == Pipe::both ? both : integer)[static_cast<std::size_t>(step)];
}

}  // namespace

Level padded_copy(int mix, Pipe pipe, int instructions) {
  const int step = instructions / 2;
  void (*const kernel)(Args) = mix == 0   ? kernel_of<0>(pipe, step)
                               : mix == 1 ? kernel_of<1>(pipe, step)
                               : mix == 2 ? kernel_of<2>(pipe, step)
                                          : kernel_of<3>(pipe, step);
  return {.name = mixes[mix].name,
          .kernel = reinterpret_cast<const void*>(kernel),
          .threads = threads,
          .grid = [](std::int64_t rows, std::int64_t) {
            return Grid{rows / (threads * chunks), 1};
          }};
}

}  // namespace levels
