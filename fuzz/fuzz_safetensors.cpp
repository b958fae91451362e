// Any bytes as a safetensors file: the first 8 as its length field, and the rest as a header in
// front of as many data bytes as the length field's low 32 bits say. What is accepted must cover
// its data exactly and must survive being written and read again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "require.hpp"

namespace {

using namespace microscale;

std::vector<TensorEntry> by_name(std::vector<TensorEntry> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return tensors;
}

void check_accepted(const SafetensorsHeader& header, std::uint64_t file_size) {
  std::uint64_t position = header.data_start;
  std::vector<PlannedTensor> plan;
  for (const TensorEntry& tensor : header.tensors) {
    REQUIRE(tensor.begin == position && tensor.end >= tensor.begin);
    REQUIRE(tensor.bytes() == take(stored_bytes(tensor.type, tensor.shape)));
    REQUIRE(!tensor.name.empty());
    position = tensor.end;
    plan.push_back({tensor.name, tensor.type, tensor.shape});
  }
  REQUIRE(position == file_size);

  const SafetensorsLayout layout = take(plan_safetensors(plan, header.metadata));
  const auto* json = reinterpret_cast<const std::uint8_t*>(layout.header.data()) + 8;
  const SafetensorsHeader again =
      take(parse_safetensors_header({json, layout.header.size() - 8}, layout.file_size));
  const auto before = by_name(header.tensors), after = by_name(again.tensors);
  REQUIRE(before.size() == after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    REQUIRE(before[i].name == after[i].name && before[i].type == after[i].type);
    REQUIRE(before[i].shape == after[i].shape && before[i].bytes() == after[i].bytes());
  }
  auto metadata = header.metadata;
  std::sort(metadata.begin(), metadata.end());
  REQUIRE(metadata == again.metadata);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 8) return 0;
  const auto length = safetensors_header_length(std::span<const std::uint8_t, 8>(data, 8), size);
  if (length) REQUIRE(length.value() > 0 && length.value() <= size - 8);

  std::uint64_t data_bytes = 0;
  for (int i = 3; i >= 0; --i) data_bytes = data_bytes << 8 | data[i];
  const std::uint64_t file_size = size + data_bytes;
  const auto header = parse_safetensors_header({data + 8, size - 8}, file_size);
  if (header) {
    check_accepted(header.value(), file_size);
  } else {
    REQUIRE(!header.failure().message.empty());
  }
  return 0;
}
