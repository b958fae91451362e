#include "emulator/machine/register_flight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace microscale::emulator {

using What = RegisterHazard::What;

void RegisterFlight::start(const Program& program) {
  program_ = &program;
  states_.assign(program.matrix_registers.size(), {});
  results_.resize(32 * states_.size());
  loading_.clear();
  fences_ = committed_ = done_ = reported_ = 0;
}

std::optional<RegisterHazard> RegisterFlight::touch(std::uint32_t pc, const OpInfo& info) {
  std::optional<RegisterHazard> found;
  for (const MatrixUse& use : info.matrix) {
    State& state = states_[use.index];
    if (state.loading && !found)
      found = {FindingKind::missing_wait, use.index, state.by,
               use.write ? What::written_while_loaded : What::read_while_loaded};
    if (flies(state) && state.group != reported_) {
      reported_ = state.group;  // one finding of each group
      found = {FindingKind::missing_wait, use.index, state.by,
               state.fragment
                   ? (use.write ? What::written_while_fragment : What::read_while_fragment)
                   : (use.write ? What::written_while_accumulated : What::read_while_accumulated)};
    }
    const bool written = use.write || (state.touched == State::written && state.fences == fences_);
    state.touched = written ? State::written : State::read;
    state.fences = fences_;
    state.toucher = pc;
  }
  return found;
}

std::optional<RegisterHazard> RegisterFlight::issue(std::uint32_t pc, const OpInfo& info,
                                                    std::uint32_t shape, const WarpRows& rows) {
  std::optional<RegisterHazard> found;
  const auto report = [&](FindingKind kind, const MatrixUse& use, std::uint32_t by, What what) {
    if (!found) found = {kind, use.index, by, what};
  };
  if (fences_ == 0) {
    report(FindingKind::missing_fence, info.matrix.front(), pc, What::no_fence);
    fences_ = 1;  // said once
  }
  for (const MatrixUse& use : info.matrix) {
    State& state = states_[use.index];
    const bool fresh = state.touched != State::nothing && state.fences == fences_;
    if (flies(state) && state.fragment == use.write) {
      report(FindingKind::missing_wait, use, state.by,
             use.write ? What::accumulated_while_fragment : What::fragment_while_accumulated);
    } else if (fresh && state.touched == State::accumulated) {
      if (!use.write || state.shape != shape)
        report(FindingKind::missing_fence, use, state.by, What::other_shape_since_fence);
    } else if (fresh && (state.touched == State::written || use.write)) {
      report(FindingKind::missing_fence, use, state.toucher, What::touched_since_fence);
    }
    state.group = open_group();
    state.by = pc;
    state.fragment = !use.write;
    state.touched = use.write ? State::accumulated : State::nothing;
    state.fences = fences_;
    state.shape = shape;
    if (use.write) keep(use.index, rows);
  }
  return found;
}

void RegisterFlight::keep(std::uint32_t index, const WarpRows& rows) {
  State& state = states_[index];
  if (state.result == State::at_rest) {
    std::uint32_t* reg = rows.row32(program_->matrix_registers[index].slot);
    std::copy_n(reg, warp_lanes, row_of(index));
    std::fill_n(reg, warp_lanes, poison);
  }
  state.result = State::awaited;
}

void RegisterFlight::compute(const OpInfo& info, std::vector<std::uint32_t*>& rows) {
  for (const MatrixUse& use : info.matrix) {
    if (!use.write) continue;
    states_[use.index].result = State::computed;
    rows.push_back(row_of(use.index));
  }
}

void RegisterFlight::deliver_to(std::uint32_t group, const WarpRows& rows) {
  for (std::uint32_t i = 0; i < states_.size(); ++i) {
    if (states_[i].result != State::computed || states_[i].group > group) continue;
    states_[i].result = State::at_rest;
    std::copy_n(row_of(i), warp_lanes, rows.row32(program_->matrix_registers[i].slot));
  }
}

std::optional<RegisterHazard> RegisterFlight::load(std::uint32_t pc, const OpInfo& info,
                                                   const WarpRows& rows, bool at_once) {
  std::optional<RegisterHazard> found;
  for (const MatrixUse& use : info.matrix) {
    if (!use.write) continue;
    State& state = states_[use.index];
    if (state.loading && !found)
      found = {FindingKind::missing_wait, use.index, state.by, What::written_while_loaded};
    if (!state.loading) loading_.push_back(use.index);
    state.loading = true;
    state.by = pc;
    std::uint32_t* reg = rows.row32(program_->matrix_registers[use.index].slot);
    std::copy_n(reg, warp_lanes, row_of(use.index));
    if (!at_once) std::fill_n(reg, warp_lanes, poison);
  }
  return found;
}

void RegisterFlight::end_loads(const WarpRows& rows) {
  for (const std::uint32_t index : loading_) {
    states_[index].loading = false;
    std::copy_n(row_of(index), warp_lanes, rows.row32(program_->matrix_registers[index].slot));
  }
  loading_.clear();
}

void RegisterFlight::wait(std::uint32_t pending, const WarpRows& rows) {
  done_ = std::max(done_, done_after(pending));
  deliver_to(done_, rows);
}

std::optional<RegisterHazard> RegisterFlight::unwaited() const {
  for (std::uint32_t i = 0; i < states_.size(); ++i)
    if (flies(states_[i]) && !states_[i].fragment)
      return RegisterHazard{FindingKind::missing_wait, i, states_[i].by,
                            What::read_while_accumulated};
  return std::nullopt;
}

std::string sentence(const RegisterHazard& hazard, const std::string& reg, const std::string& by) {
  const auto waits = [&](const char* does, const char* has) {
    return fmt::format(
        "{} register {}, {} the wgmma.mma_async at {}: no wgmma.wait_group for it stands between",
        does, reg, has, by);
  };
  const auto loads = [&](const char* does) {
    return fmt::format(
        "{} register {}, which the tcgen05.ld at {} fills: no tcgen05.wait::ld stands between",
        does, reg, by);
  };
  constexpr const char* accumulates = "the accumulator of";
  constexpr const char* fragment = "part of A of";
  switch (hazard.what) {
    case What::read_while_accumulated:
      return waits("reads", accumulates);
    case What::written_while_accumulated:
      return waits("writes", accumulates);
    case What::read_while_fragment:
      return waits("reads", fragment);
    case What::written_while_fragment:
      return waits("writes", fragment);
    case What::accumulated_while_fragment:
      return waits("accumulates in", fragment);
    case What::fragment_while_accumulated:
      return waits("takes A from", accumulates);
    case What::read_while_loaded:
      return loads("reads");
    case What::written_while_loaded:
      return loads("writes");
    case What::no_fence:
      return "is the warp's first, and no wgmma.fence stands before it";
    case What::touched_since_fence:
      return fmt::format(
          "takes register {}, which the warp touched at {}: no wgmma.fence stands "
          "between",
          reg, by);
    case What::other_shape_since_fence:
      return fmt::format(
          "takes register {}, in which the wgmma.mma_async at {} accumulated in "
          "another shape: no wgmma.fence stands between",
          reg, by);
  }
  return {};
}

}  // namespace microscale::emulator
