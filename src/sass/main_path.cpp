#include "sass/main_path.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>

#include "sass/counts.hpp"

namespace microscale::sass {
namespace {

constexpr int unreachable = 1 << 28;

/// Where control goes from each instruction.
class Flow {
 public:
  explicit Flow(const Function& function) : code_(function.code) {}

  int size() const { return static_cast<int>(code_.size()); }
  const Instruction& at(int i) const { return code_[static_cast<std::size_t>(i)]; }

  std::vector<int> after(int i) const {
    const Instruction& now = at(i);
    const std::string_view base = now.base();
    std::vector<int> next;
    const bool jumps = base == "BRA" || base == "JMP";
    if (jumps && now.target >= 0) next.push_back(now.target);
    const bool ends =
        base == "EXIT" || base == "RET" || base == "BRX" || base == "BRXU" || base == "KILL";
    if ((!jumps && !ends) || is_conditional(now)) next.push_back(i + 1);
    std::erase_if(next, [this](int n) { return n >= size(); });
    return next;
  }

  static bool is_conditional(const Instruction& i) {
    if (!i.predicate.empty() || has_modifier(i.opcode, "DIV") || has_modifier(i.opcode, "CONV"))
      return true;
    std::string_view o = i.operands;  // "BRA.U !UP0, `(.L_x_2)"
    if (!o.empty() && o[0] == '!') o.remove_prefix(1);
    if (!o.empty() && o[0] == 'U') o.remove_prefix(1);
    return o.size() > 1 && o[0] == 'P' && (o[1] == 'T' || (o[1] >= '0' && o[1] <= '9'));
  }

 private:
  const std::vector<Instruction>& code_;
};

/// Instructions of a called function, on its shortest way back.
class Callees {
 public:
  explicit Callees(const Flow& flow) : flow_(flow) {}

  int instructions(int entry) {
    if (entry < 0) return unreachable;
    if (const auto it = known_.find(entry); it != known_.end()) return it->second;
    known_[entry] = unreachable;  // a function that calls itself is not followed
    std::unordered_map<int, int> least{{entry, 0}};
    std::priority_queue<std::pair<int, int>, std::vector<std::pair<int, int>>, std::greater<>>
        queue;
    queue.emplace(0, entry);
    while (!queue.empty()) {
      const auto [sum, i] = queue.top();
      queue.pop();
      if (sum > least[i]) continue;
      const Instruction& now = flow_.at(i);
      const int here = sum + 1 + (now.base() == "CALL" ? instructions(now.target) : 0);
      if (now.base() == "RET") return known_[entry] = here;
      for (const int next : flow_.after(i)) {
        const auto [it, fresh] = least.emplace(next, here);
        if (!fresh && it->second <= here) continue;
        it->second = here;
        queue.emplace(here, next);
      }
    }
    return unreachable;
  }

 private:
  const Flow& flow_;
  std::map<int, int> known_;
};

/// The longest way from a branch to where its ways meet again, if that is within short_detour.
struct Detour {
  int end = -1;           // -1: none
  std::vector<int> code;  // from the branch on, without `end`
};

Detour detour_from(const Flow& flow, int branch) {
  const std::vector<int> ways = flow.after(branch);
  if (ways.size() < 2 || flow.at(branch).base() != "BRA") return {};
  const int first = std::max(ways[0], ways[1]);
  if (std::min(ways[0], ways[1]) <= branch) return {};
  for (int end = first; end < std::min(first + 3 * short_detour, flow.size()); ++end) {
    std::map<int, std::pair<int, int>> longest{
        {branch, {0, -1}}};  // instructions before, from where
    bool closed = true;
    for (auto it = longest.begin(); it != longest.end() && it->first < end && closed; ++it) {
      const auto [i, place] = *it;
      const std::string_view base = flow.at(i).base();
      closed = place.first <= short_detour && base != "CALL" && base != "EXIT" && base != "RET" &&
               base != "BRX";
      for (const int next : flow.after(i)) {
        if (next <= i || next > end) closed = false;
        const auto [found, fresh] = longest.emplace(next, std::pair{place.first + 1, i});
        if (!fresh && found->second.first < place.first + 1) found->second = {place.first + 1, i};
      }
    }
    if (!closed || !longest.contains(end) || longest[end].first > short_detour + 1) continue;
    Detour detour{.end = end, .code = {}};
    for (int i = longest[end].second; i >= 0; i = longest[i].second) detour.code.push_back(i);
    std::reverse(detour.code.begin(), detour.code.end());
    return detour;
  }
  return {};
}

/// A place in the code and how much of the work is done.
struct State {
  int at = 0;
  std::int64_t loaded = 0, stored = 0, converted = 0;
  bool waited = false;  // at a barrier
  auto operator<=>(const State&) const = default;
};

constexpr int the_end = -1;  // State::at behind EXIT with all work done

struct Arrival {
  int instructions = unreachable;
  State from;
  int exit = -1;  // of the_end: where the path ends
  bool start = false;
};

class Search {
 public:
  Search(const Function& function, const Work& work)
      : flow_(function), callees_(flow_), work_(work), wants_barrier_(has_barrier(function)) {
    for (int i = 0; i < flow_.size(); ++i) detours_.push_back(detour_from(flow_, i));
  }

  std::optional<MainPath> run() {
    reach({}, {.instructions = 0, .from = {}, .start = true});
    while (!queue_.empty()) {
      const auto [sum, state] = queue_.top();
      queue_.pop();
      if (sum > best_[state].instructions || is_dominated(state)) continue;
      if (state.at == the_end) return path_to(state);
      follow(state, sum);
    }
    return std::nullopt;
  }

 private:
  static bool has_barrier(const Function& function) {
    return std::any_of(function.code.begin(), function.code.end(),
                       [](const Instruction& i) { return i.base() == "BAR"; });
  }

  void reach(const State& state, const Arrival& arrival) {
    Arrival& best = best_[state];
    if (best.instructions <= arrival.instructions) return;
    best = arrival;
    queue_.emplace(arrival.instructions, state);
  }

  /// Whether a shorter way came to the same place with as much done. Else remembers this one.
  bool is_dominated(const State& state) {
    std::vector<State>& others = seen_[state.at];
    for (const State& other : others)
      if (other.loaded >= state.loaded && other.stored >= state.stored &&
          other.converted >= state.converted && other.waited >= state.waited)
        return true;
    others.push_back(state);
    return false;
  }

  /// From `state` along the straight line to the next parting, and the states behind that.
  void follow(const State& state, int sum) {
    State now = state;
    while (true) {
      const Detour& detour = detours_[static_cast<std::size_t>(now.at)];
      if (detour.end >= 0) {
        for (const int i : detour.code) do_work(now, flow_.at(i));
        sum += static_cast<int>(detour.code.size());
        now.at = detour.end;
        return reach(now, {.instructions = sum, .from = state});
      }
      const Instruction& i = flow_.at(now.at);
      do_work(now, i);
      ++sum;
      if (i.base() == "CALL") sum = std::min(unreachable, sum + callees_.instructions(i.target));
      if (sum >= unreachable) return;
      if (i.base() == "EXIT" && is_done(now)) {
        State end = now;
        end.at = the_end;
        return reach(end, {.instructions = sum, .from = state, .exit = now.at});
      }
      const std::vector<int> next = flow_.after(now.at);
      if (next.size() == 1 && next[0] == now.at + 1) {
        ++now.at;
        continue;
      }
      for (const int n : next) {
        State there = now;
        there.at = n;
        reach(there, {.instructions = sum, .from = state});
      }
      return;
    }
  }

  void do_work(State& state, const Instruction& i) const {
    const std::string_view base = i.base();
    if (base == "LDG" || base == "LDGSTS")
      state.loaded = std::min(work_.load_bytes, state.loaded + access_bytes(i.opcode));
    if (base == "STG")
      state.stored = std::min(work_.store_bytes, state.stored + access_bytes(i.opcode));
    if (base == "BAR") state.waited = true;
    for (const Evidence& evidence : work_.evidence)
      if (base == evidence.base && has_modifier(i.opcode, evidence.modifier)) {
        state.converted = std::min(work_.converted, state.converted + evidence.elements);
        break;
      }
  }

  bool is_done(const State& state) const {
    return state.loaded >= work_.load_bytes && state.stored >= work_.store_bytes &&
           state.converted >= work_.converted && (state.waited || !wants_barrier_);
  }

  /// Backwards over the states, and forwards again along the line of each.
  MainPath path_to(const State& end) {
    const int exit = best_[end].exit;
    std::vector<State> states{best_[end].from};
    while (!best_[states.back()].start) states.push_back(best_[states.back()].from);
    std::reverse(states.begin(), states.end());
    MainPath path{.code = {}, .instructions = best_[end].instructions};
    for (const State& state : states) {
      for (int i = state.at;; ++i) {
        const Detour& detour = detours_[static_cast<std::size_t>(i)];
        if (detour.end >= 0) {
          path.code.insert(path.code.end(), detour.code.begin(), detour.code.end());
          break;
        }
        path.code.push_back(i);
        const std::vector<int> next = flow_.after(i);
        const bool straight = next.size() == 1 && next[0] == i + 1;
        if (!straight || (i == exit && &state == &states.back())) break;
      }
    }
    return path;
  }

  Flow flow_;
  Callees callees_;
  const Work& work_;
  bool wants_barrier_;
  std::vector<Detour> detours_;
  std::map<State, Arrival> best_;
  std::unordered_map<int, std::vector<State>> seen_;  // by place, the shortest way first
  std::priority_queue<std::pair<int, State>, std::vector<std::pair<int, State>>, std::greater<>>
      queue_;
};

}  // namespace

std::optional<MainPath> main_path(const Function& function, const Work& work) {
  if (function.code.empty()) return std::nullopt;
  return Search(function, work).run();
}

}  // namespace microscale::sass
