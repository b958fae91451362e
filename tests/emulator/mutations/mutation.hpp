// A fault sown into a good kernel, and the proof that the emulator names it. The kernels are the
// .cu files here, as PTX; a fault is one replacement in that text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "microscale/emulator.hpp"
#include "microscale/error.hpp"
#include "support/paths.hpp"

namespace microscale::emulator::mutations {

/// What became of a PTX text.
struct Trial {
  std::string refusal;  ///< why it was not run at all
  LaunchReport report;
  std::vector<std::string> wrong;  ///< names of the checks of the result that failed

  std::string findings() const {
    std::string text = refusal;
    for (const Finding& each : report.findings) text += to_sentence(each) + "\n";
    return text;
  }
};

/// How a fault must be caught: as a finding of a kind, at a line of the PTX that contains `where`;
/// refused, in words that contain `where`; or because the check named `where` fails on the result.
struct Caught {
  enum class By : std::uint8_t { finding, refusal, check } by;
  FindingKind kind;
  std::string_view where;
};
constexpr Caught finding(FindingKind kind, std::string_view where) {
  return {Caught::By::finding, kind, where};
}
constexpr Caught refusal(std::string_view words) {
  return {Caught::By::refusal, FindingKind::misuse, words};
}
constexpr Caught check(std::string_view name) {
  return {Caught::By::check, FindingKind::misuse, name};
}

struct Fault {
  std::string_view name;
  std::string_view good, bad;  ///< `good` stands once in the kernel's text
  Caught caught;
  std::string_view words = {};  ///< that the finding's message must contain
};

/// Runs a text with made-up input and checks what it computes.
using Run = Trial (*)(const std::string& text, const LaunchOptions& options);

struct Kernel {
  std::string_view file;
  Run run;
};

inline std::string good_text(const Kernel& kernel) {
  const auto path =
      std::filesystem::path(microscale::testing::test_data()) / "emulator/mutations" / kernel.file;
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

inline std::string mutated(std::string text, const Fault& fault) {
  const std::size_t at = text.find(fault.good);
  if (at == std::string::npos || text.find(fault.good, at + 1) != std::string::npos) {
    ADD_FAILURE() << fault.name << ": \"" << fault.good
                  << "\" does not stand in the text exactly once";
    return text;
  }
  return text.replace(at, fault.good.size(), fault.bad);
}

inline std::string line_of(const std::string& text, std::uint32_t number) {
  std::istringstream lines(text);
  std::string line;
  while (number-- && std::getline(lines, line)) {
  }
  return line;
}

/// The opcode that a line of PTX names, behind its guard; of a long one, the beginning.
inline std::string opcode_of(const std::string& line) {
  constexpr std::size_t most = 44;
  std::istringstream words(line);
  std::string word;
  while (words >> word) {
    if (word[0] < 'a' || word[0] > 'z') continue;
    word = word.substr(0, word.find(';'));
    return word.size() > most ? word.substr(0, word.rfind('.', most)) : word;
  }
  return line;
}

/// Loads `text` and launches; the refusal, if it comes to one.
template <class Prepare>
Trial run_text(Memory& memory, const std::string& text, LaunchRequest request,
               const LaunchOptions& options, const Prepare& prepare) {
  Trial trial;
  try {
    const Module module(memory, text);
    request.options = options;
    request.arguments = prepare();
    trial.report = launch(memory, module, request);
  } catch (const Error& error) {
    trial.refusal = error.what();
  }
  return trial;
}

inline LaunchRequest request_for(std::string kernel, Extent grid, Extent block) {
  LaunchRequest request;
  request.kernel = std::move(kernel);
  request.grid = grid;
  request.block = block;
  return request;
}

/// The address of a copy of `values`.
template <class Type>
std::uint64_t upload(Memory& memory, const std::vector<Type>& values) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(Type));
  const std::uint64_t address = memory.allocate(bytes);
  memory.write(address, values.data(), bytes);
  return address;
}

/// `count` values from `address`; what no kernel wrote is 0xEE bytes.
template <class Type>
std::vector<Type> download(const Memory& memory, std::uint64_t address, std::size_t count) {
  std::vector<Type> values(count);
  memory.read(values.data(), address, static_cast<std::int64_t>(count * sizeof(Type)));
  return values;
}

/// The good text computes what it should and gives no finding, in every order of warps and of
/// completions.
inline void expect_clean(const Kernel& kernel) {
  const std::string text = good_text(kernel);
  for (const Schedule schedule : {Schedule::round_robin, Schedule::reverse, Schedule::random})
    for (const Completion completion :
         {Completion::latest, Completion::eager, Completion::random}) {
      LaunchOptions options;
      options.schedule = schedule, options.completion = completion, options.seed = 7,
      options.threads = 1;
      const Trial trial = kernel.run(text, options);
      EXPECT_EQ(trial.findings(), "") << kernel.file;
      EXPECT_TRUE(trial.report.completed) << kernel.file;
      EXPECT_EQ(trial.wrong, std::vector<std::string>{}) << kernel.file;
    }
}

/// "race at `ld.shared.f32` (transpose.cu:18)", or why the text was refused, or which check failed;
/// empty if the fault went by.
inline std::string how_caught(const Trial& trial, const Fault& fault, const std::string& text) {
  switch (fault.caught.by) {
    case Caught::By::refusal:
      return trial.refusal.find(fault.caught.where) == std::string::npos
                 ? ""
                 : "refused: " + std::string(fault.caught.where);
    case Caught::By::check:
      for (const std::string& name : trial.wrong)
        if (name == fault.caught.where) return "wrong result: " + name;
      return "";
    case Caught::By::finding:
      break;
  }
  for (const Finding& each : trial.report.findings) {
    if (each.kind != fault.caught.kind || each.message.find(fault.words) == std::string::npos)
      continue;
    if (line_of(text, each.ptx_line).find(fault.caught.where) == std::string::npos) continue;
    const std::string line = line_of(text, each.ptx_line);
    if (each.kind == FindingKind::endless)
      return name_of(each.kind);  // caught wherever it was by then
    return std::string(name_of(each.kind)) + " at `" + opcode_of(line) + "` (" + each.source + ")";
  }
  return "";
}

/// Sows every fault into the kernel: each is caught as it says, which docs/emulator-mutations.md
/// says too, and by some name in two other orders of warps and of completions.
inline void expect_caught(const Kernel& kernel, std::span<const Fault> faults) {
  std::ostringstream docs;
  docs << std::ifstream(std::filesystem::path(microscale::testing::test_data()) /
                        "../docs/emulator-mutations.md")
              .rdbuf();
  const std::string text = good_text(kernel);
  for (const Fault& fault : faults) {
    SCOPED_TRACE(std::string(kernel.file) + ": " + std::string(fault.name));
    LaunchOptions options;
    options.threads = 1, options.instruction_budget = 2'000'000;
    const std::string bad = mutated(text, fault);
    const Trial trial = kernel.run(bad, options);
    const std::string caught = how_caught(trial, fault, bad);
    std::string wrong;
    for (const std::string& name : trial.wrong) wrong += name + "\n";
    EXPECT_NE(caught, "") << "got:\n" << trial.findings() << "failed checks:\n" << wrong;
    for (const auto& [schedule, completion] : {std::pair{Schedule::reverse, Completion::eager},
                                               std::pair{Schedule::random, Completion::random}}) {
      options.schedule = schedule, options.completion = completion, options.seed = 7;
      const Trial other = kernel.run(bad, options);  // which warp comes first may change the name
      EXPECT_FALSE(other.findings().empty() && other.wrong.empty()) << "goes by in another order";
    }
    const std::string row = "| " + std::string(fault.name) + " | " + caught + " |";
    EXPECT_NE(docs.str().find(row), std::string::npos) << "docs/emulator-mutations.md has no row\n"
                                                       << row;
  }
}

/// Names of checks, and whether each held.
inline void note(Trial& trial, bool holds, std::string name) {
  if (!holds) trial.wrong.push_back(std::move(name));
}

}  // namespace microscale::emulator::mutations
