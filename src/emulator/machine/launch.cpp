#include "emulator/machine/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "core/threads.hpp"
#include "emulator/machine/findings.hpp"
#include "emulator/machine/grid.hpp"
#include "emulator/machine/object_names.hpp"
#include "emulator/machine/recorder.hpp"
#include "emulator/ptx/names.hpp"

namespace microscale::emulator {
namespace {

Failure refusal(const LaunchRequest& request, const std::string& what) {
  return {ErrorCode::invalid_argument,
          fmt::format("emulator launch of {}: {}", request.kernel, what)};
}

std::string triple(const Extent& extent) {
  return fmt::format("{} x {} x {}", extent.x, extent.y, extent.z);
}

// "u64 x, f32 a": what a kernel is given; a struct is so many bytes.
std::string parameters_of(const ptx::Function& kernel) {
  std::string text;
  for (const ptx::Variable& each : kernel.params) {
    text += text.empty() ? "" : ", ";
    text += 8 * each.bytes == ptx::bits_of(each.type) ? std::string(ptx::name_of(each.type))
                                                      : fmt::format("{} bytes", each.bytes);
    text += fmt::format(" {}", each.name);
  }
  return text.empty() ? "none" : text;
}

// The launch's shape, or why no GPU would take it.
Result<LaunchShape> shape_of(const LaunchRequest& request, const Program& program,
                             const ptx::Function& kernel) {
  LaunchShape shape;
  const Extent &grid = request.grid, &block = request.block;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return refusal(request,
                   fmt::format("a grid of {} blocks; x may be 1 to 2147483647, y and z 1 to 65535",
                               triple(grid)));
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || threads < 1 || threads > 1024)
    return refusal(request, fmt::format("a block of {} threads; at most 1024 in all, and 64 in z",
                                        triple(block)));
  const ptx::Extent &most = program.max_threads, &wanted = program.required_threads;
  if (most.x && static_cast<std::int64_t>(threads) >
                    most.x * std::max<std::int64_t>(1, most.y) * std::max<std::int64_t>(1, most.z))
    return refusal(request, fmt::format("{} threads in a block; the kernel is made for at most {}",
                                        threads, most.x));
  if (wanted.x && static_cast<std::int64_t>(threads) != wanted.x *
                                                            std::max<std::int64_t>(1, wanted.y) *
                                                            std::max<std::int64_t>(1, wanted.z))
    return refusal(request,
                   fmt::format("{} threads in a block; the kernel requires {}", threads, wanted.x));
  const std::int64_t shared = program.shared_bytes + request.dynamic_shared_bytes;
  if (request.dynamic_shared_bytes < 0 || shared > most_shared_bytes)
    return refusal(
        request, fmt::format("{} bytes of shared memory for a block, of which there are {}", shared,
                             most_shared_bytes));
  if (static_cast<std::int64_t>(request.arguments.size()) != program.param_bytes)
    return refusal(
        request, fmt::format("{} bytes of arguments; the kernel's parameters take {}: {}",
                             request.arguments.size(), program.param_bytes, parameters_of(kernel)));
  Extent cluster = request.cluster;
  const ptx::Extent& required = program.required_cluster;
  if (required.x)
    cluster = {static_cast<std::uint32_t>(required.x),
               static_cast<std::uint32_t>(std::max<std::int64_t>(1, required.y)),
               static_cast<std::uint32_t>(std::max<std::int64_t>(1, required.z))};
  if (!cluster.x || !cluster.y || !cluster.z ||
      std::uint64_t{cluster.x} * cluster.y * cluster.z > 16 || grid.x % cluster.x ||
      grid.y % cluster.y || grid.z % cluster.z)
    return refusal(
        request,
        fmt::format(
            "clusters of {} blocks in a grid of {}; they hold at most 16 and must divide it",
            triple(cluster), triple(grid)));
  if (std::uint64_t{grid.x} * grid.y * grid.z > 0xffffffffu)
    return refusal(request, fmt::format("a grid of {} blocks, more than 2^32", triple(grid)));
  const auto copy = [](std::uint32_t(&to)[3], const Extent& from) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z;
  };
  copy(shape.grid, grid);
  copy(shape.block, block);
  copy(shape.cluster, cluster);
  shape.explicit_cluster = required.x != 0 || shape.cluster_blocks() > 1;
  shape.dynamic_shared_bytes = static_cast<std::uint64_t>(request.dynamic_shared_bytes);
  return shape;
}

MemoryOptions memory_options(const LaunchOptions& options) {
  MemoryOptions made;
  made.races = options.races;
  made.equal_stores_race = options.equal_stores_race;
  made.count = options.statistics || options.trace.wanted;
  made.policy = options.completion == Completion::eager    ? AsyncPolicy::eager
                : options.completion == Completion::latest ? AsyncPolicy::latest
                                                           : AsyncPolicy::random;
  made.seed = options.seed;
  return made;
}

std::vector<InstructionCount> instruction_counts(
    const Program& program, const LoadedModule& module, const LaunchMemory& memory,
    const std::vector<std::vector<std::uint64_t>>& counts) {
  std::vector<InstructionCount> list;
  const auto accesses = memory.counters.all();
  for (std::uint32_t pc = 0; pc < program.code.size(); ++pc) {
    InstructionCount count;
    for (const auto& worker : counts)
      if (!worker.empty()) count.warps += worker[2 * pc], count.lanes += worker[2 * pc + 1];
    count.ptx_line = program.info[pc].line;
    count.source = module.source(program.info[pc].source);
    count.opcode = std::string(program.info[pc].opcode);
    count.function = program.functions[program.info[pc].function].name;
    if (const auto found = accesses.find(pc); found != accesses.end()) {
      count.sectors = found->second.sectors;
      count.ideal_sectors = found->second.ideal_sectors;
      count.bank_phases = found->second.phases;
      count.bank_conflicts = found->second.conflicts;
      count.global_requests = found->second.global_requests;
      count.shared_requests = found->second.shared_requests;
      count.sample = found->second.sample;
    }
    list.push_back(std::move(count));
  }
  return list;
}

// What a cooperative launch gives this_grid(): a few words that are zero, where the grid's barrier
// counts. Of programs that ask for it.
class GridWorkspace {
 public:
  GridWorkspace(GlobalMemory& memory, const Program& program) : memory_(memory) {
    constexpr std::uint64_t bytes = 64;
    if (!asks_for_grid(program)) return;
    address_ = memory_.allocate(bytes);
    memory_.fill(address_, 0, bytes);
  }
  ~GridWorkspace() {
    if (address_) memory_.release(address_);
  }
  GridWorkspace(const GridWorkspace&) = delete;
  GridWorkspace& operator=(const GridWorkspace&) = delete;
  std::uint64_t address() const { return address_; }

 private:
  GlobalMemory& memory_;
  std::uint64_t address_ = 0;
};

}  // namespace

bool asks_for_grid(const Program& program) {
  return std::any_of(program.specials.begin(), program.specials.end(), [](const SpecialRow& row) {
    return row.special == ptx::SpecialRegister::envreg1 ||
           row.special == ptx::SpecialRegister::envreg2;
  });
}

Result<LaunchReport> run_launch(GlobalMemory& memory, const LoadedModule& module,
                                const LaunchRequest& request) {
  Result<std::shared_ptr<const Program>> decoded = module.program(request.kernel);
  if (!decoded) return decoded.failure();
  const Program& program = *decoded.value();
  const ptx::Module& text = module.text();
  const Result<LaunchShape> shape =
      shape_of(request, program, text.functions()[*text.find(request.kernel)]);
  if (!shape) return shape.failure();

  const GridWorkspace workspace(memory, program);
  Findings findings;
  const LaunchPlaces places(program, module, shape.value());
  LaunchMemory launch_memory(memory, places, findings, memory_options(request.options));
  launch_memory.constants = module.constants();
  launch_memory.params = request.arguments;
  LaunchState state{.program = program,
                    .shape = shape.value(),
                    .memory = launch_memory,
                    .schedule = request.options.schedule,
                    .seed = request.options.seed,
                    .budget = request.options.instruction_budget,
                    .grid_workspace = workspace.address(),
                    .recorder = nullptr,
                    .printed = {},
                    .keep_going = request.options.keep_going,
                    .executed = 0,
                    .stopped = false,
                    .interrupted = false};
  const bool counted = request.options.statistics || request.options.trace.wanted;
  std::optional<Recorder> recorder;
  if (request.options.trace.wanted)
    state.recorder = &recorder.emplace(program, request.options.trace, launch_memory.counters);

  findings.stop(state.stopped);

  const std::uint64_t clusters = state.shape.blocks() / state.shape.cluster_blocks();
  const int threads = request.options.threads > 0 ? request.options.threads : available_cores();
  std::vector<std::vector<std::uint64_t>> counts(
      std::min<std::uint64_t>(clusters, static_cast<std::uint64_t>(threads)));
  if (counted)
    for (auto& each : counts) each.assign(2 * program.code.size(), 0);
  run_grid(state, counts);
  if (state.interrupted)
    return Failure{ErrorCode::interrupted,
                   fmt::format("emulator launch of {}: stopped by the caller after {} "
                               "warp-instructions",
                               request.kernel, state.executed.load())};

  LaunchReport report;
  report.completed = !findings.fatal();
  report.findings = findings.all();
  name_objects(report.findings, memory, module, request.kernel);
  report.warp_instructions = state.executed;
  report.printed = state.printed.take();
  if (recorder) recorder->finish(report);
  if (counted) report.instructions = instruction_counts(program, module, launch_memory, counts);
  return report;
}

}  // namespace microscale::emulator
