#include "sass/disassemble.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <vector>

#include "microscale/error.hpp"
#include "sass/cuda_program.hpp"

namespace microscale::sass {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 4> elf_magic{'\x7f', 'E', 'L', 'F'};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path))
    throw Error(ErrorCode::io, fmt::format("disassembling: cannot read {}", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

fs::path find_nvdisasm() { return find_cuda_program("nvdisasm", "MICROSCALE_NVDISASM"); }

std::string_view nvdisasm_advice() {
  return "no nvdisasm found; it comes with the CUDA toolkit, or as the Python package "
         "nvidia-cuda-nvdisasm: put it on the PATH, or name it in MICROSCALE_NVDISASM "
         "(scripts/get_nvdisasm prints one, installed if need be)";
}

Listing disassemble(std::span<const std::uint8_t> cubin, bool files) {
  const fs::path program = find_nvdisasm();
  if (program.empty())
    throw Error(ErrorCode::unsupported,
                fmt::format("disassembling a cubin: {}", nvdisasm_advice()));
  const TemporaryFile input("cubin"), out("sass"), err("errors");
  input.write(cubin);
  std::vector<std::string> arguments{input.path()};
  if (files) arguments.emplace_back("-gi");
  const int code = run_program(program, arguments, out, err);
  if (code != 0) {
    std::string reason = err.text();
    reason = reason.substr(0, reason.find('\n'));
    throw Error(ErrorCode::bad_input, fmt::format("disassembling a cubin: {} gave exit code {}: {}",
                                                  program.string(), code, reason));
  }
  return parse_listing(out.text());
}

std::string assembler_of(std::span<const std::uint8_t> cubin) {
  constexpr std::string_view before = "Cuda compilation tools, release ";
  const auto at = std::search(cubin.begin(), cubin.end(), before.begin(), before.end());
  if (at == cubin.end()) return {};
  const auto first = at + static_cast<std::ptrdiff_t>(before.size());
  return {first, std::find(first, cubin.end(), 0)};
}

Listing listing_of_file(const fs::path& path) {
  const std::string bytes = text_of(path);
  if (bytes.compare(0, elf_magic.size(), elf_magic.data(), elf_magic.size()) != 0)
    return parse_listing(bytes);
  return disassemble({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace microscale::sass
