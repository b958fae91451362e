// The order of work: small units, and batches of them between which NVFP4's global scales are
// settled.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/model_plan.hpp"

namespace microscale {

/// Bytes of a tensor that one unit copies, at most.
inline constexpr std::int64_t copy_bytes = std::int64_t{4} << 20;

/// One thing for one worker to do.
struct Unit {
  enum class Kind : std::uint8_t {
    header,    // write the header of a shard
    measure,   // find the largest magnitude of a tile
    quantize,  // a tile
    copy,      // a piece of a tensor
    slice,     // a CopiedSlice
  };
  Kind kind = Kind::header;
  std::uint32_t shard = 0;
  std::uint32_t item = 0;  // index among the shard's matrices, copies or slices
  std::int64_t piece = 0;  // tile of the matrix, or piece of the copy
};

/// All global scales that `convert` needs are known once the `measure` units of this batch and of
/// those before it are done. So while one batch is converted, the next can already be measured.
struct Batch {
  std::vector<Unit> measure;
  std::vector<Unit> convert;
};

/// Batches of about `batch_bytes` of input each, shard by shard in the order of the input, without
/// the shards that are `done`. The weights of a batch are read twice in short succession, so that
/// the second time they come from the page cache.
std::vector<Batch> make_schedule(const ModelPlan& plan, const std::vector<bool>& done,
                                 std::int64_t batch_bytes);

}  // namespace microscale
