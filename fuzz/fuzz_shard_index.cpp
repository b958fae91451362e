// Any bytes as an index of shards: what is accepted names bare files only, and reads back equal.
#include <cstddef>
#include <cstdint>

#include "checkpoint/shard_index.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace microscale;
  const auto index = parse_shard_index({reinterpret_cast<const char*>(data), size});
  if (!index) {
    REQUIRE(!index.failure().message.empty());
    return 0;
  }
  for (const auto& [tensor, file] : index.value().weight_map) {
    REQUIRE(!tensor.empty());
    REQUIRE(file.find_first_of("/\\") == std::string::npos && file.find('\0') == std::string::npos);
    REQUIRE(file != "." && file != ".." && file.ends_with(".safetensors"));
  }
  REQUIRE(take(parse_shard_index(write_shard_index(index.value()))) == index.value());
  return 0;
}
