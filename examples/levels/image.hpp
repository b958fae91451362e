// Kernels that lie as files beside the program that runs them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace levels {

/// A file whole; empty where there is none.
inline std::vector<std::uint8_t> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Of a ladder, for "90a", as "ptx" or "cubin". Throws std::runtime_error where there is none.
inline std::vector<std::uint8_t> image_beside_program(const std::string& ladder,
                                                      const std::string& architecture,
                                                      const std::string& kind) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::string path = folder / (ladder + ".sm_" + architecture + "." + kind);
  std::vector<std::uint8_t> bytes = bytes_of_file(path);
  if (bytes.empty()) throw std::runtime_error("cannot read " + path);
  return bytes;
}

}  // namespace levels
