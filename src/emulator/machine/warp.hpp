// A warp: rows of registers, the groups of lanes that go together, and the loop that runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/finding.hpp"
#include "emulator/machine/program.hpp"
#include "emulator/machine/register_flight.hpp"
#include "emulator/machine/undefined_values.hpp"
#include "emulator/ops/handler.hpp"

namespace microscale::emulator {

class Block;
class Recorder;
struct UndefinedBytes;

/// Lanes that agree on where they are.
struct Group {
  enum class State : std::uint8_t {
    ready,
    retry,    // its instruction answered Step::wait: merges with lanes that arrive there, or runs
              // again
    blocked,  // at a barrier that somebody else will open; pc is already behind it
    yields,   // has run for long: others first
  };
  std::uint32_t pc = 0, lanes = 0;
  State state = State::ready;
  std::uint8_t barrier = 0;          // where it is blocked
  bool gathers = false;              // in retry: for lanes that are not here yet
  std::uint32_t awaited = 0;         // those lanes
  std::uint32_t absent = 0;          // of them, who have passed the instruction by and ended
  const Op* pending = nullptr;       // the barrier instruction, which may have a result to deliver
  std::vector<std::uint32_t> calls;  // call sites, the innermost last
};

class Warp : public WarpRows {
 public:
  enum class Outcome : std::uint8_t { finished, blocked, quantum, stopped };

  /// `memory` points to row_bytes + masks + call memory (memory_bytes(program)), 64-byte aligned.
  void start(const Program& program, Block& block, std::uint32_t index, std::uint32_t lanes,
             std::uint8_t* memory);
  static std::size_t memory_bytes(const Program& program);

  /// Runs until nothing here can go on, or for about `quantum` instructions.
  Outcome run(std::int64_t quantum);

  Block& block() const { return *block_; }
  const Program& program() const { return *program_; }
  std::uint32_t index() const { return index_; }
  std::uint32_t live() const { return live_; }  // lanes that have not exited
  std::uint32_t active_lanes() const { return active_.lanes; }
  /// Instructions, up to the last call of run; `now` is for a handler: up to its own.
  std::uint64_t executed() const { return executed_; }
  std::uint64_t now() const { return executed_ + (active_.pc - straight_from_); }
  /// An operation at which some lanes stand.
  std::uint32_t place() const;
  std::uint32_t index_of(const Op& op) const {
    return static_cast<std::uint32_t>(&op - program_->code.data());
  }
  Agent agent(const Op& op) const;
  std::uint8_t* call_memory(int lane) const { return call_memory_ + lane * program_->call_bytes; }

  // What control-flow handlers do to the running group; each returns what the handler returns.
  Step branch(std::uint32_t target, std::uint32_t taken) {
    if (const std::uint32_t rest = active_.lanes & ~taken) leave_behind(rest);
    active_.pc = target;
    return Step::jump;
  }
  Step scatter(const std::uint32_t* targets, std::uint32_t lanes);  // a target for each lane
  Step call(const Op& op, std::uint32_t site, std::uint32_t lanes);
  /// `lanes` of the running group stay at its instruction, for another turn.
  void stay_behind(std::uint32_t lanes);
  Step pass();  // goes on behind the instruction when others have had their turn
  Step leave(std::uint32_t lanes);  // ret: from a function, or the kernel
  Step exit(std::uint32_t lanes);
  /// The lanes have arrived at a barrier and go on behind it once it opens. `op` gets the result,
  /// if any.
  Step block_at(std::uint8_t barrier, const Op& op, std::uint32_t lanes);

  /// Opens `barrier` for all groups that wait there; the rest is what bar.red answers. How many
  /// lanes went.
  int open(std::uint8_t barrier, std::uint32_t count = 0, bool all = false, bool any = false);

  /// For instructions that need all living lanes of `mask` together: next when they are here, else
  /// wait.
  Step gather(const Op& op, std::uint32_t mask, std::uint32_t lanes);
  /// For an instruction that waits for what other warps do: false as long as somebody else can go
  /// on, and then it must wait; once true when no warp can.
  bool given_up();
  /// When nothing in the block can go on: lets one group that waits in `gather` go without the
  /// others, after reporting them. False if none waits so.
  bool force();

  /// Reports those of the last OpInfo::late_reads that the lanes never wrote.
  void check_late_reads(const Op& op, std::uint32_t lanes);
  /// For a load: the register at `slot` got bytes in `lanes` that nobody wrote; `message` says so.
  /// The load then answers what carry_on() answers.
  void became_undefined(const Op& op, Slot slot, std::uint32_t lanes, const UndefinedBytes& bytes);
  /// Goes on behind the running instruction, by way of the loop that looks after undefined values.
  Step carry_on() { return branch(active_.pc + 1, active_.lanes); }
  /// Reports an access to a register that wgmma has, or had without a fence.
  void report_hazard(const Op& op, const RegisterHazard& hazard);
  /// Reports at `op`, in the name of a lane. Answers Step::stop if fatal, else next.
  Step report(const Op& op, FindingKind kind, int lane, std::string message, bool fatal = false);

  /// "warp 2: lanes 3-31 at PTX line 40 (bar.sync)", for every group that waits.
  std::string waiting() const;

  RegisterFlight& flight() { return flight_; }

  std::uint64_t cluster_phase = 0;  // of barrier.cluster, when this warp arrived last

 private:
  template <bool watched, bool undefined>
  Outcome run_groups(std::int64_t quantum);
  Step run_checked(const Op& op, std::uint32_t lanes);
  void leave_behind(std::uint32_t lanes);
  bool pick();
  void absorb(Group& other);
  void merge();
  void find_merge_point();
  bool release_warp_barrier();
  void note_absent(std::uint32_t lanes);
  void report_absent(const Op& op, std::uint32_t lanes, std::uint32_t mask, std::uint32_t absent);
  void check_registers(const Op& op, std::uint32_t lanes);
  void check_hazards(const Op& op, std::uint32_t lanes);
  bool reads_undefined(std::uint32_t lanes) const;
  void begin_undefined();
  std::uint32_t undefined_lanes(const Op& op, std::uint32_t lanes, std::uint32_t& origin);
  std::uint32_t unselected(const Op& op, std::uint32_t lanes) const;
  void tell_undefined(const Op& op, std::uint32_t origin);
  Step run_undefined(const Op& op, std::uint32_t lanes);
  std::uint32_t register_at(const Op& op, Slot slot) const;
  void check_reads(const Op& op, std::uint32_t lanes, std::size_t from, std::size_t to);
  void fill_specials();
  void keep_frame(const ProgramFunction& function, int lane);
  void restore_frame(const ProgramFunction& function, int lane);

  const Program* program_ = nullptr;
  Block* block_ = nullptr;
  Recorder* recorder_ = nullptr;  // of this warp's steps, if somebody watches it
  std::uint32_t index_ = 0, live_ = 0;
  Group active_;
  std::vector<Group> others_;
  std::uint32_t merge_pc_ = ~0u;  // the next place ahead where another group stands
  std::uint64_t executed_ = 0;
  RegisterFlight flight_;
  std::uint32_t straight_from_ = 0;  // pc; what was executed from there on is not in executed_ yet
  std::uint32_t* written_ = nullptr;
  std::uint8_t* call_memory_ = nullptr;
  bool forced_ = false;  // the next gather lets everybody pass
  bool passes_ = false;  // this turn ends with the instruction
  // Of each lane what functions had when they called what may come back to them, the last at the
  // end; empty until one does.
  std::vector<std::vector<std::uint8_t>> frames_;
  std::unique_ptr<UndefinedValues> undefined_;  // null until there is one
};

/// "lane 3", "lanes 0-3, 7".
std::string lane_list(std::uint32_t lanes);

}  // namespace microscale::emulator
