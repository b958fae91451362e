// The faults that docs/bugs-found.md tells of, in small kernels: each is found, where the document
// says, and the same kernel without it is clean. The document's words are held to what happens.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "emulator/causes.hpp"
#include "emulator/kernel_name.hpp"
#include "microscale/emulator.hpp"
#include "support/paths.hpp"

namespace microscale::emulator {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(microscale::testing::test_data()) / path).rdbuf();
  EXPECT_FALSE(text.str().empty()) << path;
  return text.str();
}

struct Ran {
  LaunchReport report;
  std::vector<float> out;
};

/// Of `in`, n floats from 1 on, and `out` (which an in-place kernel has as its only buffer).
Ran run(const std::string& kernel, std::uint32_t blocks, std::uint32_t threads, int n, int elements,
        const std::vector<std::uint8_t> (*arguments_of)(std::uint64_t in, std::uint64_t out,
                                                        int n)) {
  static const std::string text = text_of("emulator/bugs_found/bugs.ptx");
  Memory memory;
  const Module module(memory, text);
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) + 1;
  const auto bytes = static_cast<std::int64_t>(4 * values.size());
  const std::uint64_t in = memory.allocate(bytes, "in"), out = memory.allocate(bytes, "out");
  memory.write(in, values.data(), bytes);
  LaunchRequest request;
  request.kernel = kernel_of(module.kernels(), kernel, "kernel");
  request.grid.x = blocks;
  request.block.x = threads;
  request.arguments = arguments_of(in, out, n);
  Ran ran{launch(memory, module, request), values};
  memory.read(ran.out.data(), out, bytes);
  return ran;
}

const std::vector<std::uint8_t> in_out_n(std::uint64_t in, std::uint64_t out, int n) {
  return arguments(in, out, n);
}
const std::vector<std::uint8_t> in_out(std::uint64_t in, std::uint64_t out, int) {
  return arguments(in, out);
}
const std::vector<std::uint8_t> in_n(std::uint64_t in, std::uint64_t, int n) {
  return arguments(in, n);
}

struct Bug {
  const char* kernel;
  std::uint32_t threads;
  int n, elements;
  const std::vector<std::uint8_t> (*arguments_of)(std::uint64_t, std::uint64_t, int);
  FindingKind kind;
  const char* line;    // of bugs.cu, what stands there
  const char* object;  // begins so; "" where the machine has no name for it
};
const Bug bugs[] = {
    {"softmax_row", 128, 128, 128, in_out_n, FindingKind::race, "part[warp] = sum;", "part"},
    {"add_next", 64, 64, 64, in_n, FindingKind::race, "y[i] = sum;", "in"},
    {"two_tiles", 64, 0, 512, in_out, FindingKind::race, "__pipeline_memcpy_async(", "tile"},
    // Where it is read, or where it decides something.
    {"fetch_ahead", 32, 4, 128, in_out_n, FindingKind::uninitialised_memory, "", ""},
    {"last_four", 2, 6, 6, in_out_n, FindingKind::out_of_bounds, "mine[from_end] =", ""}};

/// What stands in bugs.cu at a place "bugs.cu:14".
std::string source_line(const std::string& place) {
  std::istringstream text(text_of("emulator/bugs_found/bugs.cu"));
  const std::size_t colon = place.rfind(':');
  if (place.substr(0, colon) != "bugs.cu") return place;
  std::string line;
  for (int number = std::stoi(place.substr(colon + 1)); number-- && std::getline(text, line);) {
  }
  return line;
}

TEST(BugsFound, are_named_at_their_line) {
  for (const Bug& bug : bugs) {
    const Ran ran = run(std::string(bug.kernel) + "<false>", 1, bug.threads, bug.n, bug.elements,
                        bug.arguments_of);
    ASSERT_FALSE(ran.report.findings.empty()) << bug.kernel;
    std::string said;
    bool found = false;
    for (const Finding& each : ran.report.findings) {
      said += to_sentence(each) + "\n";
      const std::string place = each.inlined_at.empty() ? each.source : each.inlined_at;
      found |= each.kind == bug.kind && each.object.rfind(bug.object, 0) == 0 &&
               source_line(place).find(bug.line) != std::string::npos;
    }
    EXPECT_TRUE(found) << bug.kernel << "\n" << said;
    if (*bug.line) {
      EXPECT_EQ(by_cause(ran.report.findings).size(), 1u) << bug.kernel << "\n" << said;
    }
  }
}

TEST(BugsFound, are_gone_where_they_are_mended) {
  for (const Bug& bug : bugs) {
    const Ran ran = run(std::string(bug.kernel) + "<true>", 1, bug.threads, bug.n, bug.elements,
                        bug.arguments_of);
    for (const Finding& each : ran.report.findings) ADD_FAILURE() << to_sentence(each);
  }
}

TEST(BugsFound, a_wrong_index_shows_in_the_numbers_of_inputs_that_differ) {
  const Ran wrong = run("scale_all<false>", 4, 32, 128, 128, in_out_n);
  const Ran right = run("scale_all<true>", 4, 32, 128, 128, in_out_n);
  EXPECT_TRUE(wrong.report.findings.empty()) << to_sentence(wrong.report.findings.at(0));
  EXPECT_TRUE(right.report.findings.empty());
  std::size_t same = 0;
  for (std::size_t i = 0; i < 128; ++i) {
    EXPECT_EQ(right.out[i], 2 * (static_cast<float>(i % 7) + 1));
    same += wrong.out[i] == right.out[i];
  }
  EXPECT_LT(same, 64u) << "those where the wrong element is equal";
}

TEST(BugsFound, are_all_in_the_document) {
  const std::string document = text_of("../docs/bugs-found.md");
  for (const Bug& bug : bugs) {
    EXPECT_NE(document.find(std::string("`") + bug.kernel + "`"), std::string::npos) << bug.kernel;
    EXPECT_NE(document.find(name_of(bug.kind)), std::string::npos) << bug.kernel;
  }
  EXPECT_NE(document.find("`scale_all`"), std::string::npos);
}

}  // namespace
}  // namespace microscale::emulator
