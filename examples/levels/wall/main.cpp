// The table of the wall: share of the copy bandwidth by mix and instructions an element. Each
// kernel's own instructions (addresses, loads, stores, folding words together) come on top: 0.4
// to 1.3.
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "../harness.hpp"
#include "ladder.hpp"

namespace {

using namespace levels;

constexpr std::int64_t chunks = std::int64_t{1} << 25;  // of eight elements: 16384 x 16384

double share(const Bench& bench, const Level& level, const Mix& mix,
             const std::vector<std::shared_ptr<DeviceArray>>& memory) {
  const std::int64_t bytes = chunks * (mix.read + mix.write);
  const Case c{.name = level.name,
               .bytes = bytes,
               .elements = chunks * 8,
               .occupancy = 0,
               .sets = 2,
               .run = [&](int set, cudaStream_t stream) {
                 const auto s = static_cast<std::size_t>(2 * set);
                 launch(level,
                        {memory[s]->data(), chunks, 0x9E3779B1, memory[s + 1]->data(), nullptr, 1},
                        stream);
               }};
  return static_cast<double>(bytes) / (bench.microseconds(c) * 1e-6) /
         bench.copy_bytes_per_second();
}

}  // namespace

int main(int argc, char** argv) try {
  const Bench bench(argc, argv);
  if (bench.profiling() || bench.checking_only()) return 0;  // nothing to compare with
  std::vector<std::shared_ptr<DeviceArray>> memory;          // inputs and outputs in turn
  std::vector<std::uint8_t> pattern(1 << 20);
  for (std::size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = static_cast<std::uint8_t>(i * i / 7 + i / 257);
  for (int i = 0; i < 4; ++i) {
    memory.push_back(std::make_shared<DeviceArray>(chunks * (i % 2 ? 16 : 32)));
    memory.back()->fill_with(pattern);
  }
  std::printf(
      "\nShare of the copy bandwidth, 16384 x 16384 elements\n\n| instructions an element |");
  for (const char* pipe : {"two pipes", "integer pipe"})
    for (const Mix& mix : mixes) std::printf(" %s, %s |", mix.name, pipe);
  std::printf("\n|---|---|---|---|---|---|---|---|---|\n");
  for (int instructions = 0; instructions <= most_instructions; instructions += 2) {
    std::printf("| %d |", instructions);
    for (const Pipe pipe : {Pipe::both, Pipe::integer})
      for (int mix = 0; mix < 4; ++mix)
        std::printf(" %.2f |",
                    share(bench, padded_copy(mix, pipe, instructions), mixes[mix], memory));
    std::printf("\n");
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_wall: %s\n", error.what());
  return 1;
}
