#include "emulator/machine/assignment.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "emulator/machine/undefined_values.hpp"

namespace microscale::emulator {
namespace {

using Bits = std::vector<std::uint64_t>;  // a bit for each register of a function

bool has(const Bits& bits, std::uint32_t i) { return bits[i / 64] >> (i % 64) & 1; }
void add(Bits& bits, std::uint32_t i) { bits[i / 64] |= std::uint64_t{1} << (i % 64); }

/// Straight runs of operations, and which run may follow which.
struct Run {
  std::uint32_t begin = 0, end = 0;
  std::vector<std::uint32_t> next;
  Bits before;  // written on every path to here
  bool reached = false;
};

class Paths {
 public:
  Paths(const Program& program, const ProgramFunction& function)
      : program_(program), function_(function), words_((function.registers.size() + 63) / 64) {}

  // For each operation, hands the set of registers that are surely written before it to `look`.
  template <class Look>
  void walk(Look look) {
    split();
    std::vector<std::uint32_t> work{0};
    runs_[0].before.assign(words_, 0);
    runs_[0].reached = true;
    while (!work.empty()) {
      Run& run = runs_[work.back()];
      work.pop_back();
      Bits after = run.before;
      for (std::uint32_t pc = run.begin; pc < run.end; ++pc) write(after, pc);
      for (const std::uint32_t next : run.next)
        if (meet(runs_[next], after)) work.push_back(next);
    }
    for (Run& run : runs_) {
      if (!run.reached) run.before.assign(words_, 0);
      for (std::uint32_t pc = run.begin; pc < run.end; ++pc) {
        look(pc, run.before);
        write(run.before, pc);
      }
    }
  }

 private:
  void write(Bits& bits, std::uint32_t pc) const {
    if (program_.code[pc].guard != always) return;  // some lanes may not
    for (const std::uint32_t reg : program_.info[pc].writes)
      add(bits, reg - function_.first_register);
  }

  static bool meet(Run& run, const Bits& from) {
    if (!run.reached) {
      run.reached = true;
      run.before = from;
      return true;
    }
    bool changed = false;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint64_t both = run.before[i] & from[i];
      changed |= both != run.before[i];
      run.before[i] = both;
    }
    return changed;
  }

  // Where an operation may send a thread, beside the next one; whether the next one is possible.
  bool targets(std::uint32_t pc, std::vector<std::uint32_t>& to) const {
    static const Handler branch = find_handler("bra"), indexed = find_handler("brx");
    static const Handler leaves[] = {find_handler("ret"), find_handler("exit"),
                                     find_handler("trap")};
    const Op& op = program_.code[pc];
    const bool guarded = op.guard != always;
    if (op.run == branch)
      to.push_back(op.extra);
    else if (op.run == indexed)
      to = program_.branch_tables[op.extra];
    else if (std::find(std::begin(leaves), std::end(leaves), op.run) == std::end(leaves))
      return true;
    return guarded;
  }

  void split() {
    const std::uint32_t count = function_.end - function_.begin;
    std::vector<std::uint32_t> run_of(count + 1, 0);
    std::vector<bool> starts(count + 1, false);
    starts[0] = true;
    for (std::uint32_t pc = function_.begin; pc < function_.end; ++pc) {
      std::vector<std::uint32_t> to;
      const bool falls = targets(pc, to);
      for (const std::uint32_t target : to) starts[target - function_.begin] = true;
      if (!to.empty() || !falls) starts[pc + 1 - function_.begin] = true;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (starts[i])
        runs_.push_back(
            {.begin = function_.begin + i, .end = 0, .next = {}, .before = {}, .reached = false});
      run_of[i] = static_cast<std::uint32_t>(runs_.size() - 1);
      runs_.back().end = function_.begin + i + 1;
    }
    for (Run& run : runs_) {
      std::vector<std::uint32_t> to;
      const bool falls = targets(run.end - 1, to);
      for (const std::uint32_t target : to) run.next.push_back(run_of[target - function_.begin]);
      if (falls && run.end < function_.end) run.next.push_back(run_of[run.end - function_.begin]);
    }
  }

  const Program& program_;
  const ProgramFunction& function_;
  const std::size_t words_;
  std::vector<Run> runs_;
};

}  // namespace

void mark_unproven(Program& program) {
  Bits looked((program.register_count + 63) / 64, 0);  // registers with a read that is not proven
  for (const ProgramFunction& function : program.functions) {
    Paths(program, function).walk([&](std::uint32_t pc, const Bits& written) {
      OpInfo& info = program.info[pc];
      info.sources.assign(info.reads.begin(),
                          info.reads.end() - static_cast<std::ptrdiff_t>(info.late_reads));
      if (decides_something(info.opcode)) program.code[pc].flags |= decides;
      std::vector<std::uint32_t> left;
      std::uint32_t guards = 0, late = 0;
      const std::size_t first_late = info.reads.size() - info.late_reads;
      for (std::size_t i = 0; i < info.reads.size(); ++i) {
        if (has(written, info.reads[i] - function.first_register)) continue;
        left.push_back(info.reads[i]);
        guards += i < info.guard_reads;
        late += i >= first_late;
        add(looked, info.reads[i]);
      }
      info.reads = std::move(left);
      info.guard_reads = guards;
      info.late_reads = late;
      if (!info.reads.empty()) program.code[pc].flags |= checks_reads;
    });
  }
  program.tracked.resize(program.register_count);
  for (std::uint32_t reg = 0; reg < program.register_count; ++reg)
    program.tracked[reg] = has(looked, reg);
  for (std::size_t pc = 0; pc < program.code.size(); ++pc) {
    OpInfo& info = program.info[pc];
    if (std::any_of(info.writes.begin(), info.writes.end(),
                    [&](std::uint32_t reg) { return has(looked, reg); }))
      program.code[pc].flags |= tracks_writes;
  }
}

}  // namespace microscale::emulator
