// Any bytes as a GGUF file: the first 4 say how many bytes of data the file has behind the rest.
// What is accepted has tensors inside the file, apart and aligned, and values that can be shown.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/containers/gguf_header.hpp"
#include "require.hpp"

namespace {

using namespace microscale;

void check_value(const GgufValue& value) {
  (void)value.shown();
  std::uint64_t count = 0;
  GgufElements elements(value);
  while (const auto element = elements.next()) {
    ++count;
    if (element->type == GgufValueType::array) check_value(*element);
  }
  REQUIRE(count == (value.type == GgufValueType::array ? value.count : 0));
}

void check_accepted(const GgufHeader& header, std::uint64_t file_size) {
  REQUIRE(header.data_start % header.alignment == 0);
  for (const auto& [key, value] : header.metadata) {
    REQUIRE(!key.empty() && header.find(key) == &value);
    check_value(value);
  }
  std::vector<GgufTensor> order;
  for (const GgufTensor& tensor : header.tensors) {
    REQUIRE(!tensor.name.empty() && tensor.begin >= header.data_start);
    REQUIRE(tensor.begin % header.alignment == 0);
    REQUIRE(tensor.bytes() == take(gguf_bytes(tensor.type, tensor.shape)));
    REQUIRE(tensor.bytes() == 0 || tensor.end <= file_size);
    if (tensor.bytes() != 0) order.push_back(tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < order.size(); ++i) REQUIRE(order[i].begin >= order[i - 1].end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  std::uint64_t data_bytes = 0;
  for (int i = 3; i >= 0; --i) data_bytes = data_bytes << 8 | data[i];
  const std::uint64_t file_size = size - 4 + data_bytes;
  const auto header = parse_gguf_header({data + 4, data + size}, file_size);
  if (header) {
    check_accepted(header.value(), file_size);
  } else {
    REQUIRE(!header.failure().message.empty());
  }
  return 0;
}
