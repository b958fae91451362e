// Transposes: checks each against the CPU, then times it.
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>

#include "../harness.hpp"
#include "ladder.hpp"

namespace {

using namespace levels;

void check_transpose(const Level& level) {
  for (const auto& [rows, cols] : {std::pair{1, 1}, {31, 65}, {1000, 777}}) {
    std::vector<std::uint8_t> input(static_cast<std::size_t>(rows) * cols * 4), want(input.size());
    for (std::size_t i = 0; i < input.size(); ++i)
      input[i] = static_cast<std::uint8_t>(i * 37 + i / 251);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c)
        std::memcpy(&want[(static_cast<std::size_t>(c) * rows + r) * 4],
                    &input[(static_cast<std::size_t>(r) * cols + c) * 4], 4);
    const DeviceArray from(static_cast<std::int64_t>(input.size())), to(from.size());
    from.fill_with(input);
    to.set(0xA5);
    launch(level, {from.data(), rows, cols, to.data(), nullptr, 1}, nullptr);
    if (to.to_host() != want) throw std::runtime_error(level.name + ": not the transposed matrix");
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Bench bench(argc, argv);
  if (!bench.profiling()) {
    for (const Level& level : transpose_levels()) check_transpose(level);
    std::printf("%zu levels give the CPU's bytes\n", transpose_levels().size());
  }
  if (bench.checking_only()) return 0;
  constexpr std::int64_t side = 8192, bytes = side * side * 4;
  std::vector<std::shared_ptr<DeviceArray>> from, to;
  std::vector<std::uint8_t> pattern(1 << 20);
  for (std::size_t i = 0; i < pattern.size(); ++i)
    pattern[i] = static_cast<std::uint8_t>(i * i / 7 + i / 257);
  for (int i = 0; i < 2; ++i) {
    from.push_back(std::make_shared<DeviceArray>(bytes));
    from.back()->fill_with(pattern);
    to.push_back(std::make_shared<DeviceArray>(bytes));
  }
  bench.table("Transpose of FP32 8192 x 8192");
  const auto row = [&](const Level& level) {
    bench.row({.name = level.name,
               .bytes = 2 * bytes,
               .elements = side * side,
               .occupancy = occupancy(level.kernel, level.threads),
               .sets = 2,
               .run = [&](int set, cudaStream_t stream) {
                 const auto s = static_cast<std::size_t>(set);
                 launch(level, {from[s]->data(), side, side, to[s]->data(), nullptr, 1}, stream);
               }});
  };
  row(copy_level());
  for (const Level& level : transpose_levels()) row(level);
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_transpose: %s\n", error.what());
  return 1;
}
