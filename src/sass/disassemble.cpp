#include "sass/disassemble.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "microscale/error.hpp"

extern char** environ;

namespace microscale::sass {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 4> elf_magic{'\x7f', 'E', 'L', 'F'};

bool is_program(const fs::path& path) {
  return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
}

Error io_error(const std::string& what) {
  return Error(ErrorCode::io, fmt::format("disassembling: {}: {}", what, std::strerror(errno)));
}

/// A file of its own that disappears with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* purpose) {
    std::error_code none;
    fs::path folder = fs::temp_directory_path(none);
    if (none) folder = "/tmp";
    path_ = (folder / fmt::format("microscale_{}_XXXXXX", purpose)).string();
    descriptor_ = mkstemp(path_.data());
    if (descriptor_ < 0) throw io_error("cannot make " + path_);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    close(descriptor_);
    unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }

  void write(std::span<const std::uint8_t> bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw io_error("cannot write " + path_);
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
  }

 private:
  std::string path_;
  int descriptor_ = -1;
};

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file || fs::is_directory(path))
    throw Error(ErrorCode::io, fmt::format("disassembling: cannot read {}", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The exit code of `program [-gi] file`; what it writes goes into `out` and `err`.
int run(const fs::path& program, bool files, const std::string& file, const TemporaryFile& out,
        const TemporaryFile& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  std::string name = program.string(), argument = file, option = "-gi";
  char* arguments[] = {name.data(), argument.data(), files ? option.data() : nullptr, nullptr};
  pid_t child = 0;
  errno = posix_spawn(&child, name.c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) throw io_error("cannot run " + name);
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw io_error("waiting for " + name);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

fs::path find_nvdisasm() {
  if (const char* named = std::getenv("MICROSCALE_NVDISASM"); named && *named)
    return is_program(named) ? fs::path(named) : fs::path();
  if (const char* path = std::getenv("PATH")) {
    const std::string_view all = path;
    for (std::size_t at = 0; at <= all.size();) {
      const std::size_t end = std::min(all.find(':', at), all.size());
      const fs::path candidate = fs::path(all.substr(at, end - at)) / "nvdisasm";
      if (end > at && is_program(candidate)) return candidate;
      at = end + 1;
    }
  }
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(variable); folder && *folder)
      if (const fs::path candidate = fs::path(folder) / "bin" / "nvdisasm"; is_program(candidate))
        return candidate;
  const fs::path usual = "/usr/local/cuda/bin/nvdisasm";
  return is_program(usual) ? usual : fs::path();
}

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
  const int code = run(program, files, input.path(), out, err);
  if (code != 0) {
    std::string reason = text_of(err.path());
    reason = reason.substr(0, reason.find('\n'));
    throw Error(ErrorCode::bad_input, fmt::format("disassembling a cubin: {} gave exit code {}: {}",
                                                  program.string(), code, reason));
  }
  return parse_listing(text_of(out.path()));
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
