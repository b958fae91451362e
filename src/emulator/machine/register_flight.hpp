// Registers of one warp while wgmma has them: from mma_async until a wait_group covers it, no
// other instruction may touch accumulators or A's fragments. The launch's policy says when the
// results arrive. And those that a tcgen05.ld fills, until tcgen05.wait::ld.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emulator/finding.hpp"
#include "emulator/machine/program.hpp"

namespace microscale::emulator {

/// Why an access is not allowed.
struct RegisterHazard {
  FindingKind kind = FindingKind::missing_wait;
  std::uint32_t index = 0;  // in Program::matrix_registers
  std::uint32_t by = 0;     // the operation in the way; unused by no_fence
  enum class What : std::uint8_t {
    read_while_accumulated,
    written_while_accumulated,
    read_while_fragment,
    written_while_fragment,
    accumulated_while_fragment,
    fragment_while_accumulated,
    no_fence,
    touched_since_fence,
    other_shape_since_fence,
    read_while_loaded,
    written_while_loaded,
  } what = What::no_fence;
};

class RegisterFlight {
 public:
  /// Everything at rest.
  void start(const Program& program);

  /// An operation of the warp's own touches registers.
  std::optional<RegisterHazard> touch(std::uint32_t pc, const OpInfo& info);
  /// A wgmma.mma_async takes its registers; `shape` tells accumulators of different kinds apart.
  /// What they held is kept for it, and they hold `poison` until the results are delivered.
  std::optional<RegisterHazard> issue(std::uint32_t pc, const OpInfo& info, std::uint32_t shape,
                                      const WarpRows& rows);
  void fence() { ++fences_; }
  void commit() { ++committed_; }
  /// wgmma.wait_group with at most `pending` groups left: delivers the others' results.
  void wait(std::uint32_t pending, const WarpRows& rows);

  std::uint32_t open_group() const { return committed_ + 1; }  // of the next mma_async
  /// Groups 1 to this are done once `pending` are left.
  std::uint32_t done_after(std::uint32_t pending) const {
    return committed_ > pending ? committed_ - pending : 0;
  }

  /// Appends where the accumulators of the mma_async at `info` are updated: a row per register, in
  /// order; C before. Results count as computed from now on.
  void compute(const OpInfo& info, std::vector<std::uint32_t*>& rows);
  /// Delivers whatever is computed.
  void deliver(const WarpRows& rows) { deliver_to(~0u, rows); }
  /// A tcgen05.ld has given its registers what they will have: until end_loads() it is kept, and
  /// they hold `poison` where not `at_once`.
  std::optional<RegisterHazard> load(std::uint32_t pc, const OpInfo& info, const WarpRows& rows,
                                     bool at_once);
  /// tcgen05.wait::ld.
  void end_loads(const WarpRows& rows);
  /// A register whose results were not waited for.
  std::optional<RegisterHazard> unwaited() const;

  static constexpr std::uint32_t poison = 0xcbcb'cbcbu;

 private:
  struct State {
    std::uint32_t group = 0;   // of the latest wgmma that has it; done, or 0: none
    std::uint32_t by = 0;      // that wgmma
    std::uint32_t shape = 0;   // of its accumulators
    std::uint32_t fences = 0;  // before `touched`
    std::uint32_t toucher = 0;
    bool fragment = false;  // has it as a part of A
    bool loading = false;   // a tcgen05.ld, `by`, fills it
    enum Result : std::uint8_t { at_rest, awaited, computed } result = at_rest;
    enum Touched : std::uint8_t { nothing, read, written, accumulated } touched = nothing;
  };
  bool flies(const State& state) const { return state.group > done_; }
  void keep(std::uint32_t index, const WarpRows& rows);
  void deliver_to(std::uint32_t group, const WarpRows& rows);
  std::uint32_t* row_of(std::uint32_t index) { return results_.data() + 32 * std::size_t{index}; }

  const Program* program_ = nullptr;
  std::vector<State> states_;  // by the index in Program::matrix_registers
  std::vector<std::uint32_t> results_;
  std::vector<std::uint32_t> loading_;  // indexes of those with State::loading
  std::uint32_t fences_ = 0, committed_ = 0, done_ = 0;
  std::uint32_t reported_ = 0;  // the group whose register was touched
};

/// "reads register %f3, which the wgmma.mma_async at ...": `by` names the operation in the way.
std::string sentence(const RegisterHazard& hazard, const std::string& reg, const std::string& by);

}  // namespace microscale::emulator
