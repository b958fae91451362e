// Any bytes as an importance matrix of llama.cpp, GGUF or the binary form before that. Of what is
// accepted every number lies inside of the file, for names and widths of all kinds.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "checkpoint/imatrix.hpp"
#include "require.hpp"

namespace {

using namespace microscale;

void check_accepted(const Imatrix& imatrix, std::uint64_t size) {
  REQUIRE(!imatrix.empty());
  for (const char* module :
       {"model.layers.0.self_attn.q_proj", "model.layers.3.mlp.experts.2.up_proj",
        "model.layers.3.mlp.experts.4294967295.up_proj", "lm_head", ""}) {
    for (const std::int64_t cols : {std::int64_t{1}, std::int64_t{32}, std::int64_t{1} << 20}) {
      const auto begin = imatrix.find(module, cols);
      if (!begin) {
        REQUIRE(!begin.failure().message.empty());
      } else if (begin.value()) {
        const std::uint64_t bytes = static_cast<std::uint64_t>(cols) * sizeof(float);
        REQUIRE(bytes <= size && *begin.value() <= size - bytes);
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A file in memory, the same one each time.
  static const int descriptor = ::memfd_create("imatrix", 0);
  REQUIRE(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0);
  REQUIRE(::pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  const auto file = InputFile::open("/proc/self/fd/" + std::to_string(descriptor));
  REQUIRE(file);
  const auto imatrix = Imatrix::open(file.value());
  if (!imatrix) {
    REQUIRE(!imatrix.failure().message.empty());
  } else if (imatrix.value()) {
    check_accepted(*imatrix.value(), size);
  }
  return 0;
}
