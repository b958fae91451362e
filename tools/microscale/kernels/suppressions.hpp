// Findings that are known and let go: a file of lines such as "race kernel.cu:120".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "microscale/emulator.hpp"

namespace microscale {

/// A line of the file: the kind of a finding, or * for any, and where: file.cu:120 (of the finding,
/// or of the call that inlined it), file.cu, or a part of the kernel's name; nothing stands for
/// everywhere.
struct Suppression {
  std::string kind, place;
  std::size_t line = 0;  ///< of the file
};

/// Blank lines and what follows a # are left out. Throws Error{bad_input} with file and line for a
/// kind that no finding has, Error{io}.
std::vector<Suppression> read_suppressions(const std::filesystem::path& path);

/// Takes the findings that a line fits out of the list; returns how many they are.
std::size_t suppress(std::vector<emulator::Finding>& findings,
                     const std::vector<Suppression>& suppressions);

}  // namespace microscale
