#include "profile/kernel_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 16> class_names = {
    "integer",      "floating point", "convert",      "compare",      "move",   "load global",
    "store global", "load shared",    "store shared", "other memory", "atomic", "copy",
    "matrix",       "exchange",       "barrier",      "control"};

bool has_source(const KernelProfile& profile) {
  return std::any_of(profile.instructions.begin(), profile.instructions.end(),
                     [](const ProfiledInstruction& each) { return each.file != 0; });
}

bool skipped(const ProfiledInstruction& each) { return each.implied && each.count.warps == 0; }

void add(LineSum& sum, const ProfiledInstruction& each) {
  const emulator::InstructionCount& count = each.count;
  ++sum.instructions;
  sum.warps += count.warps;
  sum.lanes += count.lanes;
  if (each.stores) {
    sum.stores += count.global_requests;
    sum.store_sectors += count.sectors;
    sum.store_ideal += count.ideal_sectors;
  } else {
    sum.loads += count.global_requests;
    sum.load_sectors += count.sectors;
    sum.load_ideal += count.ideal_sectors;
  }
  sum.shared += count.shared_requests;
  sum.conflicts += count.bank_conflicts;
  for (const std::string& special : each.specials)
    if (std::find(sum.specials.begin(), sum.specials.end(), special) == sum.specials.end())
      sum.specials.push_back(special);
}

Json figures(const LineSum& sum) {
  Json json{{"instructions", sum.instructions},
            {"warp_executions", sum.warps},
            {"lane_executions", sum.lanes}};
  if (sum.loads)
    json["global_loads"] = {
        {"requests", sum.loads}, {"sectors", sum.load_sectors}, {"ideal_sectors", sum.load_ideal}};
  if (sum.stores)
    json["global_stores"] = {{"requests", sum.stores},
                             {"sectors", sum.store_sectors},
                             {"ideal_sectors", sum.store_ideal}};
  if (sum.shared) json["shared"] = {{"requests", sum.shared}, {"bank_conflicts", sum.conflicts}};
  if (!sum.specials.empty()) json["special_registers"] = sum.specials;
  return json;
}

}  // namespace

std::string_view name_of(InstructionClass which) {
  return class_names[static_cast<std::size_t>(which)];
}

std::string place_of(const KernelProfile& profile, std::size_t file, std::uint32_t line) {
  if (file == 0) return fmt::format("PTX {}", line);
  const std::string& name = profile.files[file - 1].name;
  const std::size_t slash = name.find_last_of('/');
  const std::string file_name = slash == name.npos ? name : name.substr(slash + 1);
  return line ? fmt::format("{}:{}", file_name, line) : file_name;  // nvcc's line 0: of no line
}

std::vector<LineSum> by_line(const KernelProfile& profile) {
  const bool source = has_source(profile);
  std::map<std::pair<std::size_t, std::uint32_t>, LineSum> sums;
  for (const ProfiledInstruction& each : profile.instructions) {
    if (skipped(each)) continue;
    // Line 0 is nvcc's word for code that belongs to no line.
    const std::size_t file = source ? each.file : 0;
    const std::uint32_t line = source ? each.line : each.count.ptx_line;
    LineSum& sum = sums[{file, line}];
    sum.file = file;
    sum.line = line;
    if (file == 0) {
      sum.text = each.text;
    } else if (const SourceFile& text = profile.files[file - 1];
               line >= 1 && line <= text.lines.size()) {
      sum.text = text.lines[line - 1];
    }
    add(sum, each);
  }
  std::vector<LineSum> list;
  for (auto& [place, sum] : sums) list.push_back(std::move(sum));
  return list;
}

LineSum total(const KernelProfile& profile) {
  LineSum sum;
  for (const ProfiledInstruction& each : profile.instructions)
    if (!skipped(each)) add(sum, each);
  return sum;
}

std::vector<ClassSum> by_class(const KernelProfile& profile) {
  std::vector<ClassSum> list;
  for (std::size_t i = 0; i < class_names.size(); ++i)
    list.push_back({static_cast<InstructionClass>(i), 0, 0});
  for (const ProfiledInstruction& each : profile.instructions) {
    if (skipped(each)) continue;
    ClassSum& sum = list[static_cast<std::size_t>(each.which)];
    ++sum.instructions;
    sum.warps += each.count.warps;
  }
  std::erase_if(list, [](const ClassSum& each) { return each.instructions == 0; });
  std::sort(list.begin(), list.end(), [](const ClassSum& a, const ClassSum& b) {
    return a.warps != b.warps ? a.warps > b.warps : a.which < b.which;
  });
  return list;
}

std::vector<std::string> specials_of(const KernelProfile& profile) {
  std::set<std::string> names;
  for (const ProfiledInstruction& each : profile.instructions)
    names.insert(each.specials.begin(), each.specials.end());
  return {names.begin(), names.end()};
}

std::string mean_text(std::uint64_t sum, std::uint64_t count) {
  return count ? fmt::format("{:.1f}", static_cast<double>(sum) / static_cast<double>(count))
               : std::string();
}

std::string sector_text(std::uint64_t sectors, std::uint64_t ideal, std::uint64_t requests) {
  return requests ? mean_text(sectors, requests) + " / " + mean_text(ideal, requests)
                  : std::string();
}

std::string to_json(const KernelProfile& profile, int indent) {
  Json json{{"kernel", profile.kernel},
            {"name", profile.title},
            {"ptx", profile.ptx_name},
            {"target", profile.target},
            {"launch", profile.launch},
            {"completed", profile.report.completed},
            {"warp_instructions", profile.report.warp_instructions},
            {"special_registers", specials_of(profile)},
            {"total", figures(total(profile))},
            {"lines", Json::array()},
            {"classes", Json::array()},
            {"instructions", Json::array()},
            {"findings", Json::array()}};
  for (const LineSum& sum : by_line(profile)) {
    Json line{{"place", place_of(profile, sum.file, sum.line)}, {"text", sum.text}};
    line.update(figures(sum));
    json["lines"].push_back(std::move(line));
  }
  for (const ClassSum& sum : by_class(profile))
    json["classes"].push_back({{"class", name_of(sum.which)},
                               {"instructions", sum.instructions},
                               {"warp_executions", sum.warps}});
  for (const ProfiledInstruction& each : profile.instructions) {
    if (skipped(each)) continue;
    Json row{{"ptx_line", each.count.ptx_line},
             {"place", place_of(profile, each.file, each.file ? each.line : each.count.ptx_line)},
             {"text", each.text},
             {"class", name_of(each.which)}};
    LineSum sum;
    add(sum, each);
    row.update(figures(sum));
    row.erase("instructions");
    json["instructions"].push_back(std::move(row));
  }
  for (const emulator::Finding& each : profile.report.findings)
    json["findings"].push_back(to_sentence(each));
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace microscale
