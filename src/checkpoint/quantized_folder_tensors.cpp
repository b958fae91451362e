// What is known of one tensor of a quantized folder.
#include "checkpoint/quantized_folder.hpp"

namespace microscale {

std::uint64_t QuantizedModule::bytes() const {
  std::uint64_t sum = codes->entry->bytes() + scales->entry->bytes();
  if (global_scale) sum += global_scale->entry->bytes();
  return sum;
}

std::int64_t LogicalTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) count *= dimension;
  return count;
}

std::uint64_t LogicalTensor::bytes() const {
  if (slice && weight) {  // its share
    return static_cast<std::uint64_t>(static_cast<double>(weight->bytes()) *
                                      static_cast<double>(elements()) /
                                      static_cast<double>(weight->elements()));
  }
  if (slice) {
    return static_cast<std::uint64_t>(elements()) *
           static_cast<std::uint64_t>(bits_per_element(stored->entry->type) / 8);
  }
  if (weight) return weight->bytes();
  return module ? module->bytes() : stored->entry->bytes();
}

std::optional<BlockCoding> LogicalTensor::blocks() const {
  if (module) {
    return BlockCoding{module->format, module->multiplier,
                       module->must_divide ? module->stored_global : 0.0f};
  }
  const BlockCoding* coding = weight && !slice ? weight->blocks() : nullptr;
  return coding ? std::optional(*coding) : std::nullopt;
}

std::string LogicalTensor::coding_name() const {
  if (const auto coding = blocks()) return std::string(info(coding->format).name);
  return weight ? weight->facts().description : to_string(stored->entry->type);
}

const ModelTensor& LogicalTensor::main_part() const {
  if (module) return *module->codes;
  return weight ? weight->codes() : *stored;
}

}  // namespace microscale
