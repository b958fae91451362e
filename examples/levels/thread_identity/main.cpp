// Prints who a few threads are, beside the PTX that told them, and how long a thread waits for a
// value.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <numeric>
#include <random>
#include <stdexcept>

#include "../harness.hpp"
#include "identity.hpp"

namespace {

using namespace levels;

constexpr int side = 64, block_side = 16;

void identities() {
  const DeviceArray out(side * side * static_cast<std::int64_t>(sizeof(Identity)));
  auto* pointer = out.data();
  int width = side;
  void* parameters[] = {&pointer, &width};
  check(cudaLaunchKernel(identity_kernel(), {side / block_side, side / block_side, 1},
                         {block_side, block_side, 1}, parameters, 0, nullptr),
        "launching identity");
  const auto bytes = out.to_host();
  std::vector<Identity> all(side * side);
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (unsigned i = 0; i < all.size(); ++i)
    if (all[i].by_ptx != all[i].by_name || all[i].col != i % side || all[i].row != i / side)
      throw std::runtime_error("a thread does not know who it is");
  std::printf(
      "64 x 64 elements, thread blocks of 16 x 16; all 4096 threads know their place\n\n"
      "| mov.u32 from | C++ | first thread | thread of element (25, 37) | last thread "
      "|\n|---|---|---|---|---|\n");
  const Identity &first = all.front(), &middle = all[25 * side + 37], &last = all.back();
  const auto line = [&](const char* ptx, const char* name, unsigned Place::*field) {
    std::printf("| %s | %s | %u | %u | %u |\n", ptx, name, first.by_ptx.*field,
                middle.by_ptx.*field, last.by_ptx.*field);
  };
  line("%tid.x", "threadIdx.x", &Place::tid_x);
  line("%tid.y", "threadIdx.y", &Place::tid_y);
  line("%ctaid.x", "blockIdx.x", &Place::ctaid_x);
  line("%ctaid.y", "blockIdx.y", &Place::ctaid_y);
  line("%ntid.x", "blockDim.x", &Place::ntid_x);
  line("%ntid.y", "blockDim.y", &Place::ntid_y);
  std::printf("| mad.lo.u32 | column = blockIdx.x * blockDim.x + threadIdx.x | %u | %u | %u |\n",
              first.col, middle.col, last.col);
  std::printf("| mad.lo.u32 | row, likewise | %u | %u | %u |\n", first.row, middle.row, last.row);
}

/// A ring through `bytes` of memory, one step per 128-byte line, in random order.
std::vector<std::uint8_t> ring(std::int64_t bytes) {
  constexpr std::uint32_t line = 32;  // words
  std::vector<std::uint32_t> order(static_cast<std::size_t>(bytes / 128)),
      words(static_cast<std::size_t>(bytes / 4));
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 generator(3);
  std::shuffle(order.begin(), order.end(), generator);
  for (std::size_t i = 0; i < order.size(); ++i)
    words[order[i] * line] = order[(i + 1) % order.size()] * line;
  // The walk starts at word 0, which every ring contains.
  std::vector<std::uint8_t> stored(static_cast<std::size_t>(bytes));
  std::memcpy(stored.data(), words.data(), stored.size());
  return stored;
}

void latencies() {
  std::printf("\n| value in | instruction | cycles |\n|---|---|---|\n");
  for (const LatencyKernel& k : latency_kernels()) {
    const DeviceArray out(8), chain(k.chain_bytes > 0 ? k.chain_bytes : 8);
    if (k.chain_bytes > 0) chain.fill_with(ring(k.chain_bytes));
    const auto* input = chain.data();
    auto* output = out.data();
    // Rings that shall be found in a cache are walked once whole before; of the largest a part,
    // anew.
    int steps = k.chain_bytes == 0
                    ? 8192
                    : static_cast<int>(std::min<std::int64_t>(k.chain_bytes / 128, 65536));
    if (k.chain_bytes > (1 << 28)) steps = 1 << 20;
    void* parameters[] = {&input, &steps, &output};
    check(cudaLaunchKernel(k.kernel, {1, 1, 1}, {1, 1, 1}, parameters, 0, nullptr), k.name);
    const auto bytes = out.to_host();
    std::uint32_t cycles;
    std::memcpy(&cycles, bytes.data(), 4);
    std::printf("| %s | %s | %.1f |\n", k.name, k.what, static_cast<double>(cycles) / steps);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Bench bench(argc, argv);
  if (bench.profiling()) return 0;  // one thread: nothing to profile
  identities();
  if (!bench.checking_only()) latencies();
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_thread_identity: %s\n", error.what());
  return 1;
}
