// Each kernel that the library carries keeps to the budget of tests/sass/budgets.txt, on each of
// the three architectures: instructions, registers, shared memory, what it spills, calls. A budget
// is what the kernel took when the file was written, so nothing grows unseen;
// scripts/renew_sass_budgets writes the file anew, and its difference belongs into the change that
// caused it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "cuda/device/kernel_images.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"
#include "support/paths.hpp"

namespace microscale::testing {
namespace {

constexpr const char* renewal = "`scripts/renew_sass_budgets` writes the file anew";

struct Taken {
  int instructions = 0, registers = 0, shared_bytes = 0, local = 0, calls = 0;
};

struct Budgets {
  std::string assembler;                                    // "13.0, V13.0.88"
  std::map<std::pair<std::string, std::string>, Taken> of;  // architecture and kernel
};

Budgets read_budgets(std::istream& file) {
  Budgets budgets;
  std::string line;
  while (std::getline(file, line)) {
    constexpr std::string_view title = "# assembler: ";
    if (line.starts_with(title)) budgets.assembler = line.substr(title.size());
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string architecture, kernel, more;
    Taken t;
    words >> architecture >> kernel >> t.instructions >> t.registers >> t.shared_bytes >> t.local >>
        t.calls;
    EXPECT_TRUE(words && !(words >> more)) << "budgets.txt: not a budget: " << line;
    EXPECT_TRUE(budgets.of.emplace(std::pair(architecture, kernel), t).second)
        << "budgets.txt: twice: " << line;
  }
  return budgets;
}

const Budgets& budgets() {
  static const Budgets all = [] {
    std::ifstream file(microscale::testing::test_data() + "/sass/budgets.txt");
    return read_budgets(file);
  }();
  return all;
}

/// What is over the budget, in words; empty: nothing. Another assembler than the file's may take a
/// tenth more instructions, and eight more of the rest.
std::string over(const Taken& taken, const Taken& budget, bool same_assembler) {
  std::string text;
  const auto look = [&](const char* what, int has, int may, int more) {
    if (has > may + (same_assembler ? 0 : more))
      text += fmt::format("{}{} {}, budget {}", text.empty() ? "" : "; ", what, has, may);
  };
  look("instructions", taken.instructions, budget.instructions, budget.instructions / 10);
  look("registers", taken.registers, budget.registers, 8);
  look("shared bytes", taken.shared_bytes, budget.shared_bytes, 0);
  look("loads and stores of spilled registers", taken.local, budget.local, 8);
  look("calls", taken.calls, budget.calls, 8);
  return text;
}

/// Whether the budget has become so loose that a kernel could grow unseen: a failure, not a hint,
/// because what a passing test prints is not read, and because a kernel that lost a tenth of its
/// instructions by accident has lost a part of its work.
bool is_loose(const Taken& taken, const Taken& budget) {
  return 10 * taken.instructions < 9 * budget.instructions;
}

Taken taken_by(const sass::CubinKernel& kernel) {
  return {kernel.instructions, kernel.registers, kernel.shared_bytes, kernel.local, kernel.calls};
}

TEST(SassBudgets, are_kept_by_every_kernel) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  std::set<std::pair<std::string, std::string>> carried;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    const bool same = sass::assembler_of(image.cubin.bytes()) == budgets().assembler;
    for (const sass::CubinKernel& kernel : sass::kernels_of(image.cubin.bytes())) {
      const std::string name = fmt::format("{} {}", image.architecture, kernel.name);
      carried.emplace(image.architecture, kernel.name);
      const auto budget = budgets().of.find({std::string(image.architecture), kernel.name});
      if (budget == budgets().of.end()) {
        ADD_FAILURE() << name << " has no budget; " << renewal;
        continue;
      }
      const Taken taken = taken_by(kernel);
      EXPECT_EQ(over(taken, budget->second, same), "")
          << name << " takes more than its budget; if it must, " << renewal;
      EXPECT_FALSE(same && is_loose(taken, budget->second))
          << name << ": instructions " << taken.instructions << ", budget "
          << budget->second.instructions << ": hold on to what was won; " << renewal;
    }
  }
  EXPECT_GT(carried.size(), 900u);
  for (const auto& [key, budget] : budgets().of)
    EXPECT_TRUE(carried.contains(key))
        << "budgets.txt: no kernel is called " << key.first << " " << key.second << "; " << renewal;
}

TEST(SassBudgets, say_what_is_over) {
  const Taken budget{100, 40, 1024, 2, 1};
  EXPECT_EQ(over(budget, budget, true), "");
  EXPECT_EQ(over({101, 40, 1024, 2, 1}, budget, true), "instructions 101, budget 100");
  EXPECT_EQ(over({99, 41, 1040, 3, 2}, budget, true),
            "registers 41, budget 40; shared bytes 1040, budget 1024; loads and stores of spilled "
            "registers 3, budget 2; calls 2, budget 1");
  EXPECT_EQ(over({110, 48, 1024, 10, 9}, budget, false), "");
  EXPECT_EQ(over({111, 48, 1025, 10, 9}, budget, false),
            "instructions 111, budget 100; shared bytes 1025, budget 1024");
  EXPECT_FALSE(is_loose({90, 40, 0, 0, 0}, budget));
  EXPECT_TRUE(is_loose({89, 40, 0, 0, 0}, budget));
}

TEST(SassBudgets, are_read_line_by_line) {
  std::istringstream text("# assembler: 1.2, V1\n# a title\n\nsm_90a k 7 8 9 10 11\n");
  const Budgets read = read_budgets(text);
  EXPECT_EQ(read.assembler, "1.2, V1");
  const Taken& k = read.of.at({"sm_90a", "k"});
  EXPECT_EQ(k.instructions, 7);
  EXPECT_EQ(k.calls, 11);
}

}  // namespace
}  // namespace microscale::testing
