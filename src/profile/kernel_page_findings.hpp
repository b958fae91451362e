// The parts of the kernel page about what is wrong, each linked with the source lines: findings by
// cause, and the lines to look at first.
#pragma once

#include <set>
#include <string>

#include "profile/kernel_profile.hpp"

namespace microscale {

/// "line-1-14": the id of a source line's row.
std::string line_id(std::size_t file, std::uint32_t line);

/// The findings of each cause in one item, "finding-0" the first; `shown`: ids of rows that the
/// page has, and links lead to.
std::string findings_list(const KernelProfile& profile, const std::set<std::string>& shown);
/// A mark in front of a line's text, with a link for each finding there; empty without.
std::string finding_marks(const KernelProfile& profile, const LineSum& line);
std::string worst_lines_list(const KernelProfile& profile, const std::set<std::string>& shown);

}  // namespace microscale
