// What a file system knows of a file beside its bytes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace microscale {

/// Bytes that a file takes up on its disk; 0 where there is none.
std::uint64_t allocated_bytes(const std::filesystem::path& path);

/// Lets those execute `copy` who may execute `original` and read `copy`, and nobody read it who may
/// not read `original`. Its owner may write to it. Where there are no permissions nothing.
void take_permissions(const std::filesystem::path& original, const std::filesystem::path& copy);

}  // namespace microscale
