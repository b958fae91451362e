// How fast blocks of GGUF become floats on one core, beside a copy of the same bytes: as many read
// as blocks have, as many written as values have, and nothing computed.
//
//   gguf_bench [MEBIBYTES]            of values, 256 if not given

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "checkpoint/containers/gguf_blocks.hpp"
#include "clock.hpp"
#include "host_memory.hpp"
#include "memory_limits.hpp"

namespace microscale::bench {
namespace {

void measure(const GgufTypeInfo& type, std::size_t value_bytes) {
  const std::size_t blocks =
      value_bytes / sizeof(float) / static_cast<std::size_t>(type.block) / 64 * 64;
  const HostMemory codes(blocks * static_cast<std::size_t>(type.bytes), "number of mebibytes");
  const HostMemory values(blocks * static_cast<std::size_t>(type.block) * sizeof(float),
                          "number of mebibytes");
  const std::size_t read = blocks * static_cast<std::size_t>(type.bytes);
  const std::size_t written = blocks * static_cast<std::size_t>(type.block) * sizeof(float);
  for (std::size_t i = 0; i < read; ++i) codes.data()[i] = static_cast<std::uint8_t>(i * 37);
  std::vector<double> decoding, copying;
  for (int run = 0; run < 8; ++run) {
    const double decode = seconds_of([&] {
      decode_gguf_blocks(type.type, codes.span().first(read),
                         {reinterpret_cast<float*>(values.data()), written / sizeof(float)});
    });
    const double copy =
        seconds_of([&] { move_bytes(codes.data(), read, values.data(), written, 1); });
    if (run == 0) continue;  // warm-up
    decoding.push_back(decode);
    copying.push_back(copy);
  }
  const double seconds = median(decoding);
  std::printf("%-8s %8.2f GB/s of values  %6.2f GB/s of blocks  %3.0f %% of the copy\n", type.name,
              static_cast<double>(written) / seconds / 1e9,
              static_cast<double>(read) / seconds / 1e9, 100 * median(copying) / seconds);
}

}  // namespace
}  // namespace microscale::bench

int main(int count, char** words) {
  const std::size_t mebibytes = count > 1 ? std::strtoul(words[1], nullptr, 10) : 256;
  for (const microscale::GgufTypeInfo& type : microscale::all_gguf_types()) {
    if (type.has_decoder) microscale::bench::measure(type, mebibytes << 20);
  }
}
