#include "emulator/memory/order.hpp"

#include <algorithm>
#include <utility>

namespace microscale::emulator {

void Clock::set(std::uint32_t slot, std::uint32_t time) {
  if (slot >= time_.size()) time_.resize(slot + 1);
  time_[slot] = std::max(time_[slot], time);
}

void Clock::join(const Clock& other) {
  if (time_.size() < other.time_.size()) time_.resize(other.time_.size());
  for (std::size_t i = 0; i < other.time_.size(); ++i)
    time_[i] = time_[i] < other.time_[i] ? other.time_[i] : time_[i];
}

void Clock::meet(const Clock& other) {
  if (time_.size() > other.time_.size()) time_.resize(other.time_.size());
  for (std::size_t i = 0; i < time_.size(); ++i) time_[i] = std::min(time_[i], other.time_[i]);
}

void join(AcquiredList& into, const AcquiredList& from) {
  for (const Acquired& each : from) {
    auto same = std::find_if(into.begin(), into.end(),
                             [&](const Acquired& have) { return have.variable == each.variable; });
    if (same == into.end())
      into.push_back(each);
    else
      same->version = std::max(same->version, each.version);
  }
}

void meet(AcquiredList& into, const AcquiredList& from) {
  std::erase_if(into, [&](Acquired& each) {
    const auto same = std::find_if(from.begin(), from.end(), [&](const Acquired& other) {
      return other.variable == each.variable;
    });
    if (same == from.end()) return true;
    each.version = std::min(each.version, same->version);
    return false;
  });
}

void Knowledge::join(const Knowledge& other) {
  clock.join(other.clock);
  proxy.join(other.proxy);
  fenced.join(other.fenced);
  near_fenced.join(other.near_fenced);
  tensor.join(other.tensor);
  emulator::join(acquired, other.acquired);
  emulator::join(seen, other.seen);
  emulator::join(fenced_acquired, other.fenced_acquired);
}

void Knowledge::meet(const Knowledge& other) {
  clock.meet(other.clock);
  proxy.meet(other.proxy);
  fenced.meet(other.fenced);
  near_fenced.meet(other.near_fenced);
  tensor.meet(other.tensor);
  emulator::meet(acquired, other.acquired);
  emulator::meet(seen, other.seen);
  emulator::meet(fenced_acquired, other.fenced_acquired);
}

void SyncVariables::publish(std::uint64_t address, std::uint32_t domain, const Clock& clock,
                            const Clock& near_clock, const AcquiredList& acquired) {
  const std::lock_guard guard(mutex_);
  std::unique_ptr<SyncVariable>& variable = variables_[address];
  if (!variable) {
    variable = std::make_unique<SyncVariable>();
    variable->address = address;
  }
  auto& publications = variable->of[domain];
  if (!publications.empty() && publications.back().clock == clock &&
      publications.back().near_clock == near_clock &&
      publications.back().acquired.size() == acquired.size())
    return;
  publications.push_back({++variable->version, clock, near_clock, acquired});
  any_.store(true, std::memory_order_relaxed);
}

std::optional<Acquired> SyncVariables::look(std::uint64_t address) const {
  const std::lock_guard guard(mutex_);
  const auto found = variables_.find(address);
  if (found == variables_.end()) return std::nullopt;
  return Acquired{found->second.get(), found->second->version};
}

void SyncVariables::join_own(const Acquired& acquired, std::uint32_t domain, Clock& into) const {
  const std::lock_guard guard(mutex_);
  const auto found = acquired.variable->of.find(domain);
  if (found == acquired.variable->of.end()) return;
  for (const SyncVariable::Publication& each : found->second)
    if (each.version <= acquired.version) into.join(each.near_clock);
}

bool SyncVariables::known(const AcquiredList& by, std::uint32_t domain, std::uint32_t slot,
                          std::uint32_t time) const {
  const std::lock_guard guard(mutex_);
  AcquiredList reached = by;  // grows by what the publishers themselves had acquired
  std::map<const SyncVariable*, std::uint64_t> visited;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Acquired each = reached[i];
    std::uint64_t& before = visited[each.variable];
    if (before >= each.version) continue;
    const std::uint64_t after = std::exchange(before, each.version);
    if (const auto own = each.variable->of.find(domain); own != each.variable->of.end())
      for (const SyncVariable::Publication& publication : own->second)
        if (publication.version <= each.version && publication.clock[slot] >= time) return true;
    for (const auto& [_, publications] : each.variable->of)
      for (const SyncVariable::Publication& publication : publications)
        if (publication.version > after && publication.version <= each.version)
          for (const Acquired& further : publication.acquired)
            if (const auto been = visited.find(further.variable);
                been == visited.end() || been->second < further.version)
              reached.push_back(further);
  }
  return false;
}

bool SyncVariables::at(const AcquiredList& by, std::uint64_t address) {
  return std::any_of(by.begin(), by.end(),
                     [&](const Acquired& each) { return each.variable->address == address; });
}

}  // namespace microscale::emulator
