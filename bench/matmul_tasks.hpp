// The four NVFP4 tasks of "Twelve Attempts at an FP4 Kernel" in all their shapes: operands as the
// tasks give them (nothing packed beforehand, a scale for 16 elements, no global scale, FP16 out),
// but random over the whole range of codes and scales, which the tasks' own data avoid.
#pragma once

#include <string>
#include <vector>

#include "matmul_cases.hpp"
#include "result.hpp"

namespace microscale::bench {

struct MatmulTask {
  std::string name;  // "gemv"
  std::vector<MatmulCase> cases;
  std::vector<double>
      light;  // speed of light of each case on a B200, in seconds, as the task states it
  double mean_light = 0;  // geometric means over the cases: that,
  double mean_best = 0;   // and the best known entry
  // On Hopper, what each case must stay below: factor times the floor, plus seconds.
  std::vector<double> must_factor{};
  double must_plus = 0;
};

/// `quick` as in matmul_cases.hpp.
std::vector<MatmulTask> matmul_tasks(bool quick);
std::vector<MatmulCase> cases_of(const std::vector<MatmulTask>& tasks);

/// Beside a row of a case of `tasks`: the B200's. `gpu`: also the time it must stay below.
void add_task_figures(const std::vector<MatmulTask>& tasks, Result& row, bool gpu);
/// Adds after the last row of each task that is complete in `rows` the geometric means of its times
/// and of its floors, beside the B200's.
std::vector<Result> with_task_means(const std::vector<MatmulTask>& tasks,
                                    const std::vector<Result>& rows);

}  // namespace microscale::bench
