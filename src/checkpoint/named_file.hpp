// Files that the caller named one by one: a report, a page, an array. They lie among files that are
// not ours, so nothing but a regular file of that very name is ever replaced.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/result.hpp"

namespace microscale {

/// Where a file written as `path` comes to lie: absolute, links followed. A failure where it cannot
/// be written or something other than a regular file has the name; ask before the work, not after.
Result<std::filesystem::path> place_of_named_file(const std::filesystem::path& path);

/// Old contents or new ones, never a mixture; a link stays a link, to the new contents.
Status write_named_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace microscale
