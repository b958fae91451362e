// MXFP4 from one thread a block to the shipped kernel: checks every level against the CPU, then
// times it.
#include <cstdio>
#include <exception>
#include <map>

#include "../quantize_runs.hpp"
#include "ladder.hpp"
#include "two_hops_run.hpp"

namespace {

using namespace levels;
using namespace microscale;

Problem mxfp4(DType input, std::int64_t rows, std::int64_t cols) {
  return {Format::mxfp4, ScaleRule::floor, input, rows, cols};
}

/// Every level that takes `input`, in order.
std::vector<Level> ladder(DType input) {
  std::vector<Level> all;
  for (const auto& some : {thread_per_block_levels(), warp_per_block_levels(), four_lanes_levels()})
    for (const Level& level : some)
      if (level.input == input) all.push_back(level);
  return all;
}

bool named(const Level& level, const char* encoder) {
  return level.name.ends_with(std::string(", ") + encoder);
}

void check_all(const Bench& bench) {
  int checked = 0;
  for (DType input : {DType::f16, DType::f32})
    for (const Level& level : ladder(input))
      if (!level.blackwell || bench.blackwell())
        check_level(level, Format::mxfp4, ScaleRule::floor), ++checked;
  for (const Level& level : two_lanes_nvfp4_levels())
    if (!level.blackwell || bench.blackwell())
      check_level(level, Format::nvfp4, ScaleRule::nearest), ++checked;
  std::printf("%d levels give the CPU's bytes\n", checked);
}

void rows(const Bench& bench, const std::vector<Level>& some, const SharedBuffers& buffers) {
  for (const Level& level : some) {
    if (level.blackwell && !bench.blackwell())
      bench.row_not_measured(level.name);
    else
      bench.row(level_case(level, buffers));
  }
  bench.row(shipped_case(buffers));
}

/// The same levels at sizes that do and do not fit the L2.
void sizes(const Bench& bench) {
  std::printf(
      "\nFP16 to MXFP4 by size: us (TB/s)\n\n"
      "| level | 16 Mi, the same 42 MB again | 16 Mi | 64 Mi | 100 Mi |\n|---|---|---|---|---|\n");
  std::map<std::string, std::vector<std::string>> cells;
  std::vector<std::string> order;
  for (int column = 0; column < 4; ++column) {
    const std::int64_t side = column < 2 ? 4096 : column == 2 ? 8192 : 10240;
    const Problem problem = mxfp4(DType::f16, side, side);
    const SharedBuffers buffers = column == 0 ? buffers_for(problem, 1) : buffers_for(problem);
    std::vector<Case> cases;
    for (const Level& level : ladder(DType::f16))
      if (named(level, "7 thresholds") || named(level, "bit arithmetic"))
        cases.push_back(level_case(level, buffers));
    cases.push_back(shipped_case(buffers));
    for (const Case& c : cases) {
      const double us = bench.microseconds(c);
      char cell[48];
      std::snprintf(cell, sizeof cell, "%.1f (%.2f)", us, static_cast<double>(c.bytes) / us / 1e6);
      if (column == 0) order.push_back(c.name);
      cells[c.name].push_back(cell);
    }
  }
  for (const std::string& name : order) {
    std::printf("| %s |", name.c_str());
    for (const std::string& cell : cells[name]) std::printf(" %s |", cell.c_str());
    std::printf("\n");
  }
}

/// FP32, the four sizes that were measured first on another machine, with their mean.
void four_sizes(const Bench& bench) {
  std::printf(
      "\nFP32 to MXFP4: us\n\n| level | 1024 x 1024 | 2048 x 2048 | 4096 x 8192 | 8192 x 4096 | "
      "mean |\n"
      "|---|---|---|---|---|---|\n");
  std::vector<SharedBuffers> buffers;
  for (const auto& [r, c] : {std::pair{1024, 1024}, {2048, 2048}, {4096, 8192}, {8192, 4096}})
    buffers.push_back(buffers_for(mxfp4(DType::f32, r, c)));
  const auto line = [&](const auto& case_of) {
    double sum = 0;
    std::printf("| %s |", case_of(buffers[0]).name.c_str());
    for (const SharedBuffers& b : buffers) {
      const double us = bench.microseconds(case_of(b));
      std::printf(" %.1f |", us);
      sum += us;
    }
    std::printf(" %.1f |\n", sum / 4);
  };
  for (const Level& level : ladder(DType::f32))
    line([&](const SharedBuffers& b) { return level_case(level, b); });
  line(shipped_case);
}

}  // namespace

int main(int argc, char** argv) try {
  const Bench bench(argc, argv);
  if (!bench.profiling()) check_all(bench);
  if (bench.checking_only()) return 0;
  const SharedBuffers half = buffers_for(mxfp4(DType::f16, 8192, 8192));
  bench.table("FP16 to MXFP4, 64 Mi elements");
  rows(bench, ladder(DType::f16), half);
  bench.table("FP16 to NVFP4, 64 Mi elements, global scale given");
  rows(bench, two_lanes_nvfp4_levels(),
       buffers_for({Format::nvfp4, ScaleRule::nearest, DType::f16, 8192, 8192}));
  two_hops(bench, half);
  if (bench.profiling()) return 0;
  sizes(bench);
  four_sizes(bench);
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_mxfp4_quantize: %s\n", error.what());
  return 1;
}
