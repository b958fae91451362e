// A machine that runs PTX on the CPU, with every check on: load a module, launch a kernel, read
// what it noticed and where its instructions went. docs/emulator.md says what it models.
//
//   emulator::Memory memory;
//   emulator::Module module(memory, ptx_text);
//   const std::uint64_t x = memory.allocate(4 * n);
//   memory.write(x, host, 4 * n);
//   const auto report = emulator::launch(memory, module, {.kernel = "scale", .grid = {n / 256},
//   .block = {256},
//                                                         .arguments =
//                                                         emulator::arguments(x, 2.0f)});
//   memory.read(host, x, 4 * n);
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "microscale/emulator_finding.hpp"

namespace microscale::emulator {

/// Global memory: allocations with red zones around, at addresses that kernels are given as
/// pointers.
class Memory {
 public:
  Memory();
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Returns the address of `bytes` uninitialised bytes, aligned to 256; findings call them `name`.
  /// Throws Error{out_of_memory}.
  std::uint64_t allocate(std::int64_t bytes, const std::string& name = "");
  void release(std::uint64_t address);
  /// Throw Error{invalid_argument} where they leave the allocation.
  void write(std::uint64_t to, const void* from, std::int64_t bytes);
  void read(void* to, std::uint64_t from, std::int64_t bytes) const;
  void fill(std::uint64_t to, int byte, std::int64_t bytes);
  /// The first of `bytes` bytes that neither a kernel nor write() has written, from `from` on; -1
  /// if all were. Throws as read does.
  std::int64_t first_unwritten(std::uint64_t from, std::int64_t bytes) const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// A parameter as PTX declares it; a struct is bytes ("b8").
struct KernelParameter {
  std::string name, type;  ///< "k_param_0", "u64"
  std::int64_t offset = 0, bytes = 0, align = 1;
};

/// A variable outside functions; an array of another type than bytes is bytes, too ("b8").
struct ModuleVariable {
  std::string name, type;
  std::int64_t bytes = 0;
};

/// What is known of a kernel before it runs.
struct KernelInfo {
  std::string name;
  std::vector<KernelParameter> parameters;
  std::int64_t argument_bytes = 0;
  std::int64_t shared_bytes = 0;  ///< static
  std::uint32_t max_threads = 0;  ///< of a block, 0 where the kernel does not say
  bool grid_barrier = false;      ///< asks for what only a cooperative launch has
};

/// A PTX text. Its .global variables live in `memory` as long as the module does.
class Module {
 public:
  /// Throws Error{bad_input} with line and column where the text is not PTX, Error{unsupported}
  /// where it is a PTX this machine does not run. `target`: other than the text's own, "sm_90a".
  Module(Memory& memory, std::string text, std::string target = "");
  ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  std::vector<std::string> kernels() const;
  /// Decodes it; throws Error{unsupported}, naming the line, for what the machine or the target has
  /// not.
  KernelInfo info(const std::string& kernel) const;
  /// The address of a .global variable; 0 if there is none of that name.
  std::uint64_t variable(const std::string& name) const;
  /// Those of .global and .const memory.
  std::vector<ModuleVariable> variables() const;
  /// Throw Error{invalid_argument} where there is none of that name, or not as many bytes.
  void write_variable(const std::string& name, const void* from, std::int64_t bytes);
  void read_variable(const std::string& name, void* to, std::int64_t bytes) const;

  struct State;
  State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

struct Extent {
  std::uint32_t x = 1, y = 1, z = 1;
};

/// Which warp of a block goes next when several could.
enum class Schedule : std::uint8_t { round_robin, reverse, random };

/// When asynchronous copies land: at once, when something waits for them, or at random before that.
enum class Completion : std::uint8_t { eager, latest, random };

/// One warp whose every step is kept: what it executed, changed and touched.
struct TraceRequest {
  bool wanted = false;
  std::uint32_t block = 0, warp = 0;  ///< linear number in the grid, x fastest; number in the block
  std::uint32_t most_steps = 1000;    ///< later ones are executed and not kept
};

struct LaunchOptions {
  Schedule schedule = Schedule::round_robin;
  Completion completion = Completion::latest;
  std::uint64_t seed = 0;  ///< of whatever is random
  /// Warp-instructions after which the launch is called endless; 0: never.
  std::uint64_t instruction_budget = 100'000'000'000;
  int threads = 0;    ///< of the host; 0: all cores
  bool races = true;  ///< look for races, missing waits and fences
  /// Whether it is a race when warps store equal bytes to one place by one instruction. Compilers
  /// that give several warps the same data do that (Triton's).
  bool equal_stores_race = true;
  bool statistics = false;  ///< count executions, sectors and bank conflicts of each instruction
  TraceRequest trace = {};  ///< counts as well, as statistics does
  /// Asked now and then, by any thread: false ends the launch with Error{interrupted}.
  std::function<bool()> keep_going = {};
};

struct LaunchRequest {
  std::string kernel;
  Extent grid, block;  ///< in blocks, in threads
  Extent cluster;      ///< in blocks; what the kernel requires, if it does, goes first
  std::int64_t dynamic_shared_bytes = 0;
  std::vector<std::uint8_t> arguments;  ///< laid out as the kernel's parameters; see arguments()
  LaunchOptions options;
};

/// Where the lanes of one warp went, in one execution.
struct AccessSample {
  std::uint32_t block = 0, warp = 0;
  std::uint32_t lanes = 0;  ///< bit i: lane i took part; 0: there is no sample
  int bytes = 0;            ///< of each lane
  bool shared = false;
  std::uint64_t address[32] = {};  ///< of shared memory: offsets in the block's
};

/// One instruction's executions.
struct InstructionCount {
  std::uint32_t ptx_line = 0;
  std::string source;  ///< "file.cu:120"
  std::string opcode;
  std::string function;                               ///< the kernel, or a function it calls
  std::uint64_t warps = 0, lanes = 0;                 ///< executions; lanes that took part, summed
  std::uint64_t sectors = 0, ideal_sectors = 0;       ///< of 32 bytes, to global memory
  std::uint64_t bank_phases = 0, bank_conflicts = 0;  ///< extra passes through shared memory
  std::uint64_t global_requests = 0, shared_requests = 0;  ///< by warps
  AccessSample sample;  ///< by the lowest warp of the lowest block that came, its first
};

/// A register whose name stands in the text.
struct RegisterName {
  std::string name;
  int bits = 32;  ///< 1: a predicate
};

/// What a step wrote: all 32 lanes after it.
struct RegisterValues {
  std::uint32_t index = 0;  ///< in LaunchReport::registers
  std::vector<std::uint64_t> lanes;
};

struct TraceStep {
  std::uint32_t instruction = 0;  ///< index in LaunchReport::instructions
  std::uint32_t here = 0;         ///< lanes that came
  std::uint32_t lanes = 0;        ///< those of them whose guard was true
  std::vector<RegisterValues> written;
  AccessSample access;
};

/// One turn of a warp in the watched block, on a clock of rounds in which all its warps have one.
struct WarpTurn {
  std::uint32_t warp = 0;
  std::uint64_t start = 0, instructions = 0;
  std::string waits;  ///< "warp 2: lanes 0-31 at .. waits for ..", where that ended it; else empty
};

struct LaunchReport {
  bool completed = true;          ///< false after a fatal finding: the launch ended there
  std::vector<Finding> findings;  ///< by PTX line
  std::uint64_t warp_instructions = 0;
  std::string printed;  ///< by printf, in the order in which it came; the first MiB, as CUDA keeps
  std::vector<InstructionCount>
      instructions;                     ///< with options.statistics: all, in the text's order
  std::vector<RegisterName> registers;  ///< with options.trace
  std::vector<TraceStep> trace;
  std::uint64_t trace_steps = 0;   ///< executed by that warp; trace holds the first of them
  std::vector<WarpTurn> timeline;  ///< with options.trace: of the block's warps, the first 4000
};

/// Runs the kernel to its end. Throws Error{invalid_argument} for a launch that no GPU would take.
LaunchReport launch(Memory& memory, const Module& module, const LaunchRequest& request);

/// Kernel arguments one after the other, each aligned to its size, as PTX lays scalars out.
template <class... Types>
std::vector<std::uint8_t> arguments(const Types&... values) {
  std::vector<std::uint8_t> bytes;
  const auto append = [&bytes](const auto& value) {
    const std::size_t begin = (bytes.size() + alignof(decltype(value)) - 1) /
                              alignof(decltype(value)) * alignof(decltype(value));
    bytes.resize(begin + sizeof value);
    std::memcpy(bytes.data() + begin, &value, sizeof value);
  };
  (append(values), ...);
  return bytes;
}

}  // namespace microscale::emulator
