#include "emulator/ptx/symbols.hpp"

namespace microscale::emulator::ptx {
void Symbols::close() {
  Scope& scope = scopes_[depth_--];
  for (const std::string_view name : scope.symbols) symbols_.find(name)->second.pop_back();
  for (const std::string_view name : scope.ranges) ranges_.find(name)->second.pop_back();
  inner_ranges_ -= scope.ranges.size();
  scope.symbols.clear();
  scope.ranges.clear();
}

bool Symbols::declare(std::string_view name, Kind kind, std::uint32_t index) {
  auto& stack = symbols_[name];
  if (!stack.empty() && stack.back().depth == depth_) return false;
  stack.push_back({kind, index, depth_});
  scopes_[depth_].symbols.push_back(name);
  return true;
}

bool Symbols::declare_range(std::string_view prefix, std::uint64_t count, Type type) {
  auto& stack = ranges_[prefix];
  if (!stack.empty() && stack.back().depth == depth_) return false;
  stack.push_back({count, type, depth_});
  scopes_[depth_].ranges.push_back(prefix);
  inner_ranges_ += depth_ > 0;
  return true;
}

// The innermost range that holds the name, of those in scopes from `above` on.
const Symbols::Range* Symbols::range_of(std::string_view name, std::uint32_t above) const {
  // A prefix may end in digits itself (`%r1<5>`), so every split of the trailing number is tried.
  const Range* best = nullptr;
  std::uint64_t number = 0, unit = 1;
  for (std::size_t split = name.size(); split > 1 && name.size() - split < 18;) {
    const char c = name[--split];
    if (c < '0' || c > '9') break;
    number += unit * static_cast<std::uint64_t>(c - '0');
    unit *= 10;
    if (c == '0' && split + 1 < name.size()) continue;  // no leading zeros
    const auto found = ranges_.find(name.substr(0, split));
    if (found == ranges_.end()) continue;
    for (auto range = found->second.rbegin(); range != found->second.rend(); ++range) {
      if (range->depth < above || (best != nullptr && range->depth <= best->depth)) break;
      if (number >= range->count) continue;
      best = &*range;
      break;
    }
  }
  return best;
}

const Symbols::Symbol* Symbols::find(std::string_view name) {
  const auto found = symbols_.find(name);
  const Symbol* exact =
      found == symbols_.end() || found->second.empty() ? nullptr : &found->second.back();
  const bool shadowed = inner_ranges_ > 0;  // an inner range may hide an outer name
  if (exact != nullptr && !shadowed) return exact;
  const Range* range = range_of(name, exact == nullptr ? 0 : exact->depth + 1);
  if (range == nullptr) return exact;
  // The register belongs to the range's scope, which may be further out than the current one.
  const auto index = static_cast<std::uint32_t>(registers_.size());
  registers_.push_back({name, range->type});
  const Symbol symbol{Kind::reg, index, range->depth};
  auto& stack = symbols_[name];
  stack.push_back(symbol);
  scopes_[range->depth].symbols.push_back(name);
  return &stack.back();
}

}  // namespace microscale::emulator::ptx
