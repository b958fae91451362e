#include "ptx_source.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "checkpoint/file.hpp"
#include "core/result.hpp"
#include "microscale/error.hpp"
#include "sass/cuda_program.hpp"

namespace microscale {
namespace {

std::string compiled(const std::filesystem::path& source, const std::string& target) {
  const std::filesystem::path nvcc = sass::find_cuda_program("nvcc", "MICROSCALE_NVCC");
  if (nvcc.empty())
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{}: it is CUDA source, and no nvcc was found to compile it; put nvcc of "
                    "the CUDA toolkit on the PATH or name it in MICROSCALE_NVCC, or give "
                    "the PTX that `nvcc -ptx -lineinfo` makes of it elsewhere",
                    source.string()));
  const sass::TemporaryFile ptx("ptx"), out("out"), err("errors");
  const std::string architecture = target.empty() ? "sm_90a" : target;
  const std::vector<std::string> words{
      "-ptx", "-lineinfo", "-arch=" + architecture,
      "-o",   ptx.path(),  std::filesystem::absolute(source).string()};
  const int code = sass::run_program(nvcc, words, out, err);
  if (code == 0) return ptx.text();
  std::string said = err.text() + out.text();
  constexpr std::size_t most = 4000;
  if (said.size() > most) said = said.substr(0, most) + "...";
  throw Error(ErrorCode::bad_input, fmt::format("{}: {} gave exit code {}:\n{}", source.string(),
                                                nvcc.string(), code, said));
}

}  // namespace

std::string ptx_text(const std::filesystem::path& path, const std::string& target) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  std::error_code error;
  if (std::filesystem::is_fifo(path, error)) {
    std::ifstream pipe(path, std::ios::binary);  // what nvcc writes into it, as it comes
    return {std::istreambuf_iterator<char>(pipe), {}};
  }
  std::string text = take(read_small_file(path, most));
  if (text.starts_with("\x7f"
                       "ELF"))
    throw Error(ErrorCode::bad_input,
                fmt::format("{}: it is a cubin, a GPU's own code; give the PTX that `nvcc -ptx "
                            "-lineinfo` makes, or the .cu file",
                            path.string()));
  return path.extension() == ".cu" ? compiled(path, target) : text;
}

}  // namespace microscale
