// Programs of the CUDA toolkit, found and run. The one place of the library that runs a program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace microscale::sass {

/// What the environment's `variable` names, else `name` on the PATH, in CUDA_HOME or CUDA_PATH, or
/// in /usr/local/cuda. Empty where there is none.
std::filesystem::path find_cuda_program(std::string_view name, const char* variable);

/// A file of its own that disappears with the object. Throws Error{io}.
class TemporaryFile {
 public:
  explicit TemporaryFile(const char* purpose);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile();

  const std::string& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  void write(std::span<const std::uint8_t> bytes) const;
  std::string text() const;

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// Runs `program` to its end and returns its exit code, 128 + N where signal N ended it; what it
/// writes goes into `out` and `err`. Throws Error{io}.
int run_program(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                const TemporaryFile& out, const TemporaryFile& err);

}  // namespace microscale::sass
