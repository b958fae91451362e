// What the tests of src/checkpoint share: a folder that vanishes, files made by hand, failures by
// phrase.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/result.hpp"

namespace microscale::testing {

/// A fresh folder below the system's folder for temporary files, removed with all it holds at the
/// end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "microscale_test_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// Writes a file and the folders it needs.
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  ASSERT_TRUE(file.good()) << path;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The 8 bytes that begin a safetensors file.
inline std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(length >> shift & 0xFF);
  return bytes;
}

/// A safetensors file of any header text and any data, right or wrong.
inline std::string safetensors_file(std::string_view header_json, std::string_view data = "") {
  return length_bytes(header_json.size()) + std::string(header_json) + std::string(data);
}

/// The whole failure message, with `phrase` in it, as an assertion that says what came instead.
template <class T>
::testing::AssertionResult fails_with(const Result<T>& result, std::string_view phrase) {
  if (result) return ::testing::AssertionFailure() << "succeeded; wanted: " << phrase;
  const std::string& message = result.failure().message;
  if (message.find(phrase) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "said: " << message << "\nwanted: " << phrase;
}

/// Success, or the message of the failure.
template <class T>
::testing::AssertionResult succeeds(const Result<T>& result) {
  if (result) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << result.failure().message;
}

}  // namespace microscale::testing
