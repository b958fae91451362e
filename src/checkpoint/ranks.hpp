// Processes that convert one model together over one file system, each with shards of its own:
// ranks, as MPI calls them. What they write does not depend on how many there are.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_plan.hpp"

namespace microscale {

/// This process among them. Where a rank fails, mpirun ends the others, so that none waits
/// forever.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;   // 0 to count() - 1; 0 begins and ends the output
  virtual int count() const = 0;  // 1 or more
  /// What rank 0 passes; every rank waits until it is there.
  virtual std::string from_first(const std::string& text) = 0;
  /// Waits until every rank has come here.
  virtual void wait_for_all() = 0;
};

/// A process by itself.
Ranks& one_rank();

/// Which of `count` ranks converts each shard: the largest first, each to the rank that has the
/// fewest bytes so far. Of shards that are done, -1.
std::vector<int> share_out(const ModelPlan& plan, const std::vector<bool>& done, int count);

}  // namespace microscale
