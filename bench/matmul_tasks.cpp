#include "matmul_tasks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace microscale::bench {
namespace {

constexpr double microsecond = 1e-6;

MatmulCase task_case(ProductKind kind, std::int64_t m, std::int64_t n, std::int64_t k,
                     std::int64_t batch = 1) {
  return {.kind = kind,
          .m = m,
          .n = n,
          .k = k,
          .weights = Format::nvfp4,
          .input = Format::nvfp4,
          .batch = batch,
          .packed = false,
          .output = DType::f16};
}

MatmulCase group_case(std::vector<std::int64_t> rows, std::int64_t n, std::int64_t k) {
  MatmulCase c = task_case(ProductKind::grouped,
                           std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), n, k);
  c.groups = std::move(rows);
  return c;
}

// The task's M x N x K, M that of all groups; its GEMV has the matrix as A, so its M is our n.
std::string name_of(const std::string& task, const MatmulCase& c) {
  if (c.kind == ProductKind::grouped)
    return fmt::format("{} G{} {}x{}x{}", task, c.groups.size(), c.m, c.n, c.k);
  if (task == "gemv") return fmt::format("{} {}x1x{} L{}", task, c.n, c.k, c.batch);
  return fmt::format("{} {}x{}x{}", task, c.m, c.n, c.k);
}

double geometric_mean(const std::vector<double>& values) {
  double logs = 0;
  for (double value : values) logs += std::log(value);
  return std::exp(logs / static_cast<double>(values.size()));
}

constexpr const char* best_title = "B200 best";
constexpr const char* light_title = "B200 light";

}  // namespace

std::vector<MatmulTask> matmul_tasks(bool quick) {
  using enum ProductKind;
  std::vector<MatmulTask> tasks(4);
  tasks[0] = {.name = "gemv",
              .cases = {task_case(plain, 1, 7168, 16384), task_case(plain, 1, 4096, 7168, 8),
                        task_case(plain, 1, 7168, 2048, 4)},
              .light = {8.622, 17.275, 4.317},
              .mean_light = 8.63,
              .mean_best = 18.55,
              .must_factor = {1.2, 1.2, 1.5}};
  tasks[1] = {.name = "gemm",
              .cases = {task_case(plain, 128, 7168, 16384), task_case(plain, 128, 4096, 7168),
                        task_case(plain, 128, 7168, 2048)},
              .light = {8.994, 2.354, 1.333},
              .mean_light = 3.05,
              .mean_best = 9.98};
  tasks[2] = {.name = "dual",
              .cases = {task_case(gated, 256, 4096, 7168), task_case(gated, 512, 4096, 7168),
                        task_case(gated, 256, 3072, 4096), task_case(gated, 512, 3072, 7168)},
              .light = {4.708, 8.714, 2.125, 6.535},
              .mean_light = 4.88,
              .mean_best = 13.12};
  tasks[3] = {.name = "group",
              .cases = {group_case({80, 176, 128, 72, 64, 248, 96, 160}, 4096, 7168),
                        group_case({40, 76, 168, 72, 164, 148, 196, 160}, 7168, 2048),
                        group_case({192, 320}, 3072, 4096), group_case({128, 384}, 4096, 1536)},
              .light = {18.833, 10.667, 2.406, 1.525},
              .mean_light = 5.21,
              .mean_best = 13.09};
  for (MatmulTask& task : tasks) {
    if (task.must_factor.empty()) {
      task.must_factor.assign(task.cases.size(), 1.25);
      task.must_plus = 4 * microsecond;
    }
    for (double& light : task.light) light *= microsecond;
    task.mean_light *= microsecond;
    task.mean_best *= microsecond;
    for (MatmulCase& c : task.cases) {
      if (quick) make_quick(c);
      c.name = name_of(task.name, c);
    }
  }
  return tasks;
}

std::vector<MatmulCase> cases_of(const std::vector<MatmulTask>& tasks) {
  std::vector<MatmulCase> all;
  for (const MatmulTask& task : tasks) all.insert(all.end(), task.cases.begin(), task.cases.end());
  return all;
}

void add_task_figures(const std::vector<MatmulTask>& tasks, Result& row, bool gpu) {
  for (const MatmulTask& task : tasks)
    for (std::size_t i = 0; i < task.cases.size(); ++i) {
      if (task.cases[i].name != row.name) continue;
      row.beside.push_back({light_title, task.light[i], false});
      if (gpu && row.limit_seconds > 0)
        row.must_seconds = row.limit_seconds * task.must_factor[i] + task.must_plus;
    }
}

std::vector<Result> with_task_means(const std::vector<MatmulTask>& tasks,
                                    const std::vector<Result>& rows) {
  std::vector<Result> all;
  for (const MatmulTask& task : tasks) {
    std::vector<double> times, floors;
    for (const Result& row : rows) {
      const bool ours = std::any_of(task.cases.begin(), task.cases.end(),
                                    [&](const MatmulCase& c) { return c.name == row.name; });
      if (!ours) continue;
      all.push_back(row);
      if (row.seconds > 0) times.push_back(row.seconds);
      if (row.limit_seconds > 0) floors.push_back(row.limit_seconds);
    }
    if (times.size() != task.cases.size()) continue;
    Result mean{.name = task.name + ", geometric mean", .seconds = geometric_mean(times)};
    if (floors.size() == times.size()) mean.limit_seconds = geometric_mean(floors);
    mean.beside = {{light_title, task.mean_light, false}, {best_title, task.mean_best, false}};
    mean.mean = true;
    all.push_back(mean);
  }
  return all;
}

}  // namespace microscale::bench
