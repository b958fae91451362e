// explain occupancy: how many blocks of a kernel one SM holds, and which limit binds.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "console.hpp"
#include "emulator/occupancy.hpp"
#include "kernel_commands.hpp"
#include "report/table.hpp"

namespace microscale {

using emulator::KernelUse, emulator::MultiprocessorLimits, emulator::Occupancy,
    emulator::OccupancyLimit;

namespace {

struct ExplainOccupancyCommand {
  emulator::KernelUse use;
  std::string gpu;
};

ExplainOccupancyCommand command_from(const std::vector<std::string>& words,
                                     const OccupancyWords& options) {
  if (!words.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("explain occupancy takes options only, not '{}'", words.front()));
  if (options.registers.empty() || options.threads.empty())
    throw Error(ErrorCode::invalid_argument,
                "explain occupancy needs --regs and --threads, as in: explain occupancy --regs 128 "
                "--shared 48K --threads 256 --gpu b200");
  ExplainOccupancyCommand command;
  command.gpu = options.gpu.empty() ? "h200" : options.gpu;
  command.use.registers = static_cast<int>(integer_from("--regs", options.registers, 1, 255));
  command.use.threads = static_cast<int>(integer_from("--threads", options.threads, 1, 1024));
  command.use.shared = shared_bytes_from(options.shared);
  return command;
}

}  // namespace

int run_explain_occupancy(const std::vector<std::string>& words, const OccupancyWords& options,
                          Console& console) {
  const ExplainOccupancyCommand command = command_from(words, options);
  const MultiprocessorLimits& limits = emulator::limits_of(command.gpu);
  const KernelUse& use = command.use;
  const Occupancy o = occupancy(limits, use);
  std::vector<std::string> binding;
  for (const OccupancyLimit limit : o.binding) binding.emplace_back(name_of(limit));
  if (console.json) {
    nlohmann::ordered_json allowed;
    for (std::size_t i = 0; i < o.allowed.size(); ++i)
      allowed[std::string(name_of(static_cast<OccupancyLimit>(i)))] = o.allowed[i];
    console.print_json({{"gpu", limits.name},
                        {"registers", use.registers},
                        {"shared_bytes", use.shared},
                        {"threads", use.threads},
                        {"blocks_per_sm", o.blocks},
                        {"warps_per_sm", o.warps},
                        {"threads_per_sm", o.blocks * use.threads},
                        {"occupancy", o.share},
                        {"blocks_allowed_by", allowed},
                        {"binding", binding}});
    return exit_success;
  }
  console.print(console.bold(paragraph(
      fmt::format(
          "{} (compute capability {}.{}, {} SMs): {} threads of {} registers and {} bytes of "
          "shared memory a block",
          limits.name, limits.major, limits.minor, limits.multiprocessors, use.threads,
          use.registers, use.shared),
      console.out.width)));
  Table table({{"limit", Align::left}, {"of an SM", Align::right}, {"blocks", Align::right}});
  const std::string has[4] = {fmt::format("{} warps", limits.warps),
                              fmt::format("{} blocks", limits.blocks),
                              fmt::format("{}", MultiprocessorLimits::registers),
                              fmt::format("{} KiB", limits.shared / 1024)};
  for (std::size_t i = 0; i < o.allowed.size(); ++i) {
    const auto limit = static_cast<OccupancyLimit>(i);
    table.add_row({std::string(name_of(limit)), has[i], std::to_string(o.allowed[i])});
  }
  console.print(table.text(console.out));
  console.print(paragraph(
      o.blocks == 0
          ? fmt::format("It cannot be launched: too much for one block by {}",
                        fmt::join(binding, " and "))
          : fmt::format("{} resident block{}, {} of {} warps ({:.1f} %), {} threads; bound by {}",
                        o.blocks, o.blocks == 1 ? "" : "s", o.warps, limits.warps, 100 * o.share,
                        o.blocks * use.threads, fmt::join(binding, " and ")),
      console.out.width));
  return exit_success;
}

}  // namespace microscale
