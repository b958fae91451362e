// Any bytes as a config: what the strict reader accepts, nlohmann's own parser reads as the same
// tree, and the tree survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "checkpoint/json.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace microscale;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tree = parse_json(text);
  if (!tree) {
    REQUIRE(!tree.failure().message.empty());
    return 0;
  }
  const auto theirs = nlohmann::ordered_json::parse(text, nullptr, false);
  REQUIRE(!theirs.is_discarded());
  REQUIRE(theirs == tree.value());
  const auto again = parse_json(tree.value().dump());
  REQUIRE(again.ok() && again.value() == tree.value());
  return 0;
}
