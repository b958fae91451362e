// `quantize --resume` on a folder that an earlier run has written to the end: nothing is left to
// do, unless a file was lost since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// Whether the output folder holds something, and no journal of a run to go on with.
bool looks_finished(const QuantizeModelOptions& options);

/// Bytes on the disk of what an earlier run has written of what the plan writes, finished or not.
std::uint64_t held_bytes(const ModelPlan& plan, const QuantizeModelOptions& options);

struct FinishedRun {
  bool done = false;                  // the folder was finished by an earlier run
  bool hashes_checked = false;        // of all weights, against the manifest
  std::vector<std::string> mended{};  // files that were lost since, and are there again
  std::vector<std::string> notes{};   // files that somebody changed, one sentence each
};

/// Of such a folder: when every file of weights in it has the size and the header that the plan
/// gives it, and the manifest says that it was made of this input with these options, writes what
/// is missing of the rest (config.json, the index, files that are copied) and reads the weights
/// against the manifest. A failure when the weights are not of this plan, or are spoiled. A
/// config.json that somebody edited stays as it is, and other files of text.
Result<FinishedRun> mend_finished_run(const ModelPlan& plan, const QuantizeModelOptions& options,
                                      const ProgressCallback& progress = {});

}  // namespace microscale
