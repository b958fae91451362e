#include "checkpoint/kept_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checkpoint/json.hpp"

namespace microscale {
namespace {

constexpr std::size_t most_sentences = 10;

// Elements whose exponent, the bits of `exponent`, is all ones.
template <class Bits>
std::int64_t count(std::span<const std::uint8_t> bytes, Bits exponent, std::int64_t& first) {
  std::int64_t found = 0;
  for (std::size_t at = 0; at + sizeof(Bits) <= bytes.size(); at += sizeof(Bits)) {
    Bits bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof(Bits));
    if ((bits & exponent) != exponent) continue;
    if (found++ == 0) first = static_cast<std::int64_t>(at / sizeof(Bits));
  }
  return found;
}

}  // namespace

std::int64_t count_not_finite(StoredType type, std::span<const std::uint8_t> bytes,
                              std::int64_t& first) {
  switch (type) {
    case StoredType::f16:
      return count<std::uint16_t>(bytes, 0x7C00, first);
    case StoredType::bf16:
      return count<std::uint16_t>(bytes, 0x7F80, first);
    case StoredType::f32:
      return count<std::uint32_t>(bytes, 0x7F80'0000, first);
    case StoredType::f64:
      return count<std::uint64_t>(bytes, 0x7FF0'0000'0000'0000, first);
    default:
      return 0;
  }
}

void KeptValues::look_at(std::size_t tensor, StoredType type, std::int64_t at,
                         std::span<const std::uint8_t> bytes) {
  std::int64_t first = 0;
  const std::int64_t found = count_not_finite(type, bytes, first);
  if (found == 0) return;
  std::lock_guard lock(mutex_);
  NotFinite& tally = tallies_[tensor];
  tally.first = tally.count == 0 ? at + first : std::min(tally.first, at + first);
  tally.count += found;
}

NotFinite KeptValues::of(std::size_t tensor) const {
  std::lock_guard lock(mutex_);
  return tallies_[tensor];
}

std::vector<std::string> not_finite_sentences(const ModelReport& report) {
  std::vector<std::string> all;
  std::size_t more = 0;
  for (const TensorReport& tensor : report.tensors) {
    const NotFinite& values = tensor.not_finite;
    if (values.count == 0) continue;
    if (all.size() == most_sentences) {
      ++more;
      continue;
    }
    const bool one = values.count == 1;
    all.push_back(fmt::format(
        "{} holds {} value{} that {} NaN or infinite, the first at element {}; it is kept as it "
        "is, so the model computes with {}: check the original",
        in_quotes(tensor.name), values.count, one ? "" : "s", one ? "is" : "are", values.first,
        one ? "it" : "them"));
  }
  if (more > 0) all.push_back(fmt::format("{} more kept tensors hold NaN or infinities", more));
  return all;
}

}  // namespace microscale
