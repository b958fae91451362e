#include "checkpoint/file_facts.hpp"

#include <sys/stat.h>

namespace microscale {

std::uint64_t allocated_bytes(const std::filesystem::path& path) {
  constexpr std::uint64_t unit = 512;  // of st_blocks, whatever the file system's own is
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  return static_cast<std::uint64_t>(status.st_blocks) * unit;
}

void take_permissions(const std::filesystem::path& original, const std::filesystem::path& copy) {
  struct stat theirs {
  }, ours{};
  if (::stat(original.c_str(), &theirs) != 0 || ::lstat(copy.c_str(), &ours) != 0) return;
  const mode_t executable = theirs.st_mode & 0111 & ((ours.st_mode & 0444) >> 2);
  const mode_t mode = ((ours.st_mode & 0777) | executable) & (theirs.st_mode | 0600);
  if (S_ISREG(ours.st_mode) && mode != (ours.st_mode & 0777)) ::chmod(copy.c_str(), mode);
}

}  // namespace microscale
