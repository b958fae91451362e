// What a file system knows of a file beside its bytes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace microscale {

/// Bytes that a file takes up on its disk; 0 where there is none.
std::uint64_t allocated_bytes(const std::filesystem::path& path);

/// Takes permissions of `original` over to `copy`: users who may execute that and read the copy may
/// execute the copy, and users who may not read that may not read the copy. Its owner may write to
/// it. Does nothing where the file system has no permissions.
void take_permissions(const std::filesystem::path& original, const std::filesystem::path& copy);

}  // namespace microscale
