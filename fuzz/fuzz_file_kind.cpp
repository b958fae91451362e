// Any bytes as the start of a file: a kind comes out, with a sentence for each but `unknown`, and a
// file of safetensors is never taken for something else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/file_kind.hpp"
#include "require.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace microscale;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const FileKind kind = kind_of_bytes(bytes);
  const std::string sentence = explain_kind(kind, bytes);
  REQUIRE(sentence.empty() == (kind == FileKind::unknown));
  REQUIRE(sentence.find('\n') == std::string::npos && sentence.find('\0') == std::string::npos);
  const std::string header(bytes.substr(0, 8));
  if (header.size() == 8) {
    REQUIRE(kind_of_bytes(header.substr(0, 3) + std::string(5, '\0') + "{}") != FileKind::pickle);
  }
  return 0;
}
