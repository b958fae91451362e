// The streaming converter: a model folder of any size through buffers of bounded size into a
// quantized one, restartable at any moment.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/finished_run.hpp"
#include "checkpoint/ranks.hpp"
#include "checkpoint/tile_quantizer.hpp"
#include "microscale/checkpoint.hpp"
#include "report/model_report.hpp"

namespace microscale {

struct Conversion {
  ConversionPlan plan;
  ModelReport report;  // of the whole model, also when part of it was converted by an earlier run;
                       // of other ranks than 0, of its own shards
  FinishedRun finished{};        // done by an earlier run: nothing was measured by this one
  std::uint64_t hash_after = 0;  // with options.keep_codes: of the values in the output
};

/// As quantize_model in microscale/checkpoint.hpp. Throws Error.
/// With other ranks, each of which calls it with the same options (threads, memory and GPUs may
/// differ): each converts shards of its own, rank 0 writes everything else. Progress is of this
/// rank's shards.
Conversion convert_model(const QuantizeModelOptions& options, const ProgressCallback& progress = {},
                         Ranks& ranks = one_rank());

/// With other processors than options.gpus names.
Conversion convert_model(const QuantizeModelOptions& options, const ProgressCallback& progress,
                         const TileQuantizerFactory& quantizers, Ranks& ranks = one_rank());

/// With formats that are settled: of options without a budget, or with the choice that it led to.
Conversion convert_settled(const QuantizeModelOptions& options, const ProgressCallback& progress,
                           const TileQuantizerFactory& quantizers, Ranks& ranks);

}  // namespace microscale
