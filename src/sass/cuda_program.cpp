#include "sass/cuda_program.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "microscale/error.hpp"

extern char** environ;

namespace microscale::sass {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
  return access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
}

Error io_error(const std::string& what) {
  return Error(ErrorCode::io,
               fmt::format("running a program of CUDA: {}: {}", what, std::strerror(errno)));
}

}  // namespace

fs::path find_cuda_program(std::string_view name, const char* variable) {
  if (const char* named = std::getenv(variable); named && *named)
    return is_program(named) ? fs::path(named) : fs::path();
  if (const char* path = std::getenv("PATH")) {
    const std::string_view all = path;
    for (std::size_t at = 0; at <= all.size();) {
      const std::size_t end = std::min(all.find(':', at), all.size());
      const fs::path candidate = fs::path(all.substr(at, end - at)) / name;
      if (end > at && is_program(candidate)) return candidate;
      at = end + 1;
    }
  }
  for (const char* home : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* folder = std::getenv(home); folder && *folder)
      if (const fs::path candidate = fs::path(folder) / "bin" / name; is_program(candidate))
        return candidate;
  const fs::path usual = fs::path("/usr/local/cuda/bin") / name;
  return is_program(usual) ? usual : fs::path();
}

TemporaryFile::TemporaryFile(const char* purpose) {
  std::error_code none;
  fs::path folder = fs::temp_directory_path(none);
  if (none) folder = "/tmp";
  path_ = (folder / fmt::format("microscale_{}_XXXXXX", purpose)).string();
  descriptor_ = mkstemp(path_.data());
  if (descriptor_ < 0) throw io_error("cannot make " + path_);
}

TemporaryFile::~TemporaryFile() {
  close(descriptor_);
  unlink(path_.c_str());
}

void TemporaryFile::write(std::span<const std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw io_error("cannot write " + path_);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

std::string TemporaryFile::text() const {
  std::ifstream file(path_, std::ios::binary);
  if (!file) throw io_error("cannot read " + path_);
  return {std::istreambuf_iterator<char>(file), {}};
}

int run_program(const fs::path& program, const std::vector<std::string>& arguments,
                const TemporaryFile& out, const TemporaryFile& err) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  std::vector<std::string> words{program.string()};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  errno = posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) throw io_error("cannot run " + program.string());
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw io_error("waiting for " + program.string());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace microscale::sass
