// What a launch noticed: equal places counted once. And the names of places.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "emulator/finding.hpp"
#include "emulator/machine/launch_state.hpp"
#include "emulator/machine/loaded_module.hpp"

namespace microscale::emulator {

class Findings : public FindingSink {
 public:
  void add(Finding finding, bool fatal) override;
  bool fatal() const { return fatal_; }
  /// `flag` is set with the first fatal one.
  void stop(std::atomic<bool>& flag) { stop_ = &flag; }
  /// By PTX line, then kind.
  std::vector<Finding> all() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, FindingKind>, Finding> findings_;
  std::atomic<bool> fatal_{false};
  std::atomic<bool>* stop_ = nullptr;
};

/// Names from a program and the shape of its launch.
class LaunchPlaces : public Places {
 public:
  LaunchPlaces(const Program& program, const LoadedModule& module, const LaunchShape& shape)
      : program_(program), module_(module), shape_(shape) {}
  Finding at(const Agent& agent, int lane) const override;
  std::string name(std::uint32_t instruction) const override;
  std::string opcode(std::uint32_t instruction) const override;

 private:
  const Program& program_;
  const LoadedModule& module_;
  const LaunchShape& shape_;
};

}  // namespace microscale::emulator
