// ptx profile: where a kernel's instructions go, line by line, as a table, as JSON or as a page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/named_file.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "emulator/kernel_name.hpp"
#include "emulator/occupancy.hpp"
#include "finding_text.hpp"
#include "profile/profile_of.hpp"
#include "ptx_launch.hpp"
#include "profile/kernel_page.hpp"
#include "profile/worst_lines.hpp"
#include "report/table.hpp"
#include "report/units.hpp"
#include "sass/cubin.hpp"

namespace microscale {
namespace {

/// Where the PTX says, from the PTX's folder, beside the PTX, and in `folder`.
void read_sources(KernelProfile& profile, const std::filesystem::path& ptx,
                  const std::filesystem::path& folder) {
  for (SourceFile& file : profile.files) {
    const std::filesystem::path name(file.name), beside = ptx.parent_path();
    for (const std::filesystem::path& path :
         {folder / name.filename(), name, beside / name, beside / name.filename()}) {
      std::error_code error;
      if (!std::filesystem::is_regular_file(path, error)) continue;
      std::ifstream text(path);
      for (std::string line; std::getline(text, line);) file.lines.push_back(line);
      if (!file.lines.empty()) break;
    }
  }
}

std::string line_table(const KernelProfile& profile, const Console& console) {
  Table table({{"line"},
               {"executed", Align::right},
               {"lanes", Align::right},
               {"load", Align::right},
               {"store", Align::right},
               {"conflicts", Align::right},
               {"source", Align::left, true}});
  const auto row = [&](const std::string& place, const LineSum& sum, const std::string& text) {
    table.add_row({place, fmt::format("{}", sum.warps), mean_text(sum.lanes, sum.warps),
                   sector_text(sum.load_sectors, sum.load_ideal, sum.loads),
                   sector_text(sum.store_sectors, sum.store_ideal, sum.stores),
                   mean_text(sum.conflicts, sum.shared),
                   text.substr(std::min(text.size(), text.find_first_not_of(" \t")))});
  };
  for (const LineSum& sum : by_line(profile))
    row(place_of(profile, sum.file, sum.line), sum, sum.text);
  table.add_rule();
  row("all", total(profile), "");
  return table.text(console.out);
}

std::string class_table(const KernelProfile& profile, const Console& console) {
  Table table({{"class"},
               {"in the text", Align::right},
               {"executed", Align::right},
               {"share", Align::right}});
  const LineSum all = total(profile);
  for (const ClassSum& sum : by_class(profile))
    table.add_row(
        {std::string(name_of(sum.which)), fmt::format("{}", sum.instructions),
         fmt::format("{}", sum.warps),
         all.warps
             ? format_percent(static_cast<double>(sum.warps) / static_cast<double>(all.warps), 1)
             : ""});
  return table.text(console.out);
}

/// What the kernel takes of a GPU by its cubin, and how many blocks fit where it was made for.
std::vector<std::pair<std::string, std::string>> resources_of(
    const std::filesystem::path& cubin, const std::string& kernel, const std::string& target,
    const emulator::LaunchRequest& request) {
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  const std::string text = take(read_small_file(cubin, most));
  std::vector<std::pair<std::string, std::string>> list;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  for (const sass::CubinKernel& each : sass::kernels_of({bytes, text.size()})) {
    if (each.name != kernel) continue;
    list.emplace_back(fmt::format("{}", each.registers), "registers a thread");
    list.emplace_back(fmt::format("{}", each.local), "loads and stores of spilled registers");
    const emulator::KernelUse use{
        .registers = each.registers,
        .shared = each.shared_bytes + request.dynamic_shared_bytes,
        .threads = static_cast<int>(request.block.x * request.block.y * request.block.z)};
    for (const emulator::MultiprocessorLimits& gpu : emulator::known_gpus()) {
      if (!target.starts_with(fmt::format("sm_{}{}", gpu.major, gpu.minor))) continue;
      const emulator::Occupancy found = emulator::occupancy(gpu, use);
      std::vector<std::string_view> binding;
      for (const emulator::OccupancyLimit limit : found.binding) binding.push_back(name_of(limit));
      list.emplace_back(format_percent(found.share, 0),
                        fmt::format("of {}'s warps: {} blocks an SM, bound by {}", gpu.name,
                                    found.blocks, fmt::join(binding, ", ")));
    }
  }
  if (list.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--cubin {}: it has no kernel {}; compile it from the same source",
                            cubin.string(), emulator::readable_name(kernel)));
  return list;
}

std::string worst_line_words(const KernelProfile& profile, const WorstLine& line) {
  std::string text = place_of(profile, line.sum.file, line.sum.line) + ": ";
  if (!line.findings.empty())
    text += fmt::format("{} finding{}{}", line.findings.size(), line.findings.size() > 1 ? "s" : "",
                        line.why.empty() ? "" : "; ");
  return text + fmt::format("{} ({} turns wasted)", line.why, format_count(line.wasted));
}

void print(const KernelProfile& profile, Console& console) {
  const int width = console.out.width;
  console.print(
      paragraph(profile.title, width) +
      paragraph(fmt::format("{} {}, {}", profile.ptx_name, profile.target, profile.launch), width) +
      "\n");
  console.print(line_table(profile, console));
  console.print(
      paragraph("executed: by warps. lanes: that took part, of 32. load, store: 32-byte sectors a "
                "request to global memory "
                "/ the least that would do. conflicts: extra turns a request to shared memory.",
                width));
  for (const auto& [figure, what] : profile.resources)
    console.print(paragraph(fmt::format("{}: {}", what, figure), width));
  const std::vector<WorstLine> worst = worst_lines(profile, 5);
  if (!worst.empty()) console.print("\nworst lines first:\n");
  for (const WorstLine& each : worst)
    console.print(paragraph(worst_line_words(profile, each), width));
  console.print("\n" + class_table(profile, console) + "\n");
  const std::vector<std::string> specials = specials_of(profile);
  if (!specials.empty())
    console.print(
        paragraph(fmt::format("special registers: {}", fmt::join(specials, ", ")), width));
  for (const std::string& each : finding_lines(profile.report.findings))
    console.print(printable(each, console.out.utf8) + "\n");
}

void watch(const std::string& text, emulator::TraceRequest& trace) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--watch got '{}'; it takes BLOCK:WARP, numbers from 0", text));
  trace.wanted = true;
  trace.block = static_cast<std::uint32_t>(
      integer_from("--watch BLOCK", text.substr(0, colon), 0, UINT32_MAX));
  trace.warp =
      static_cast<std::uint32_t>(integer_from("--watch WARP", text.substr(colon + 1), 0, 31));
}

void refuse_others_options(const std::string& action, LaunchWords words) {
  LaunchWords none;
  const std::vector<LaunchOption> given = launch_options(words), unset = launch_options(none);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const LaunchOption& option = given[i];
    const bool is_given = option.words ? !option.words->empty() : *option.word != *unset[i].word;
    if (is_given && std::string_view(option.actions).find(action) == std::string_view::npos)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is of ptx {}; leave it out of ptx {}", option.name,
                              option.actions, action));
  }
}

}  // namespace

int run_ptx_profile(const PtxLaunch& launch, const ProfileFiles& files, Console& console) {
  PtxLaunched done = perform(launch);
  const bool clean = done.clean();
  KernelProfile profile = emulator::profile_of(done.text, done.kernel, std::move(done.report));
  profile.title = emulator::readable_name(done.kernel);
  profile.ptx_name = launch.path.filename().string();
  if (!done.target.empty()) profile.target = done.target;
  profile.launch = shape_words(launch.request);
  profile.tool = tool_version();
  profile.watched_block = launch.request.options.trace.block;
  profile.watched_warp = launch.request.options.trace.warp;
  for (const PlacedBuffer& each : done.buffers)
    profile.buffers.push_back({each.name, each.address, each.bytes});
  read_sources(profile, launch.path, files.source);
  if (!files.cubin.empty())
    profile.resources = resources_of(files.cubin, done.kernel, profile.target, launch.request);
  if (!files.html.empty()) {
    take(write_named_file(files.html, kernel_page(profile)));
    console.note(fmt::format("wrote {}", files.html.string()));
  }
  if (console.json)
    console.print_json(nlohmann::ordered_json::parse(to_json(profile, -1)));
  else
    print(profile, console);
  for (const auto* lines : {&done.prints, &done.unwritten, &done.differences})
    if (!console.json)
      for (const std::string& each : *lines)
        console.print(printable(each, console.out.utf8) + "\n");
  return clean ? exit_success : launch.findings_code;
}

int run_ptx(const std::string& action, const std::string& file, const LaunchWords& words,
            int threads, Console& console) {
  const std::vector<std::string> actions = choices_of("ACTION");
  if (std::find(actions.begin(), actions.end(), action) == actions.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no action '{}' of ptx{}; choose {}", action,
                            did_you_mean(action, actions), fmt::join(actions, ", ")));
  refuse_others_options(action, words);
  if (action == "explain") return run_ptx_explain(file, words, console);
  PtxLaunch launch = ptx_launch(file, words, threads);
  check_outputs(launch, words.html);
  if (action == "run") return run_ptx_run(launch, console);
  launch.request.options.statistics = true;
  watch(words.watch, launch.request.options.trace);
  return run_ptx_profile(launch, {words.html, words.source, words.cubin}, console);
}

}  // namespace microscale
