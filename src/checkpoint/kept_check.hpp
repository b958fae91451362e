// The values of a conversion that kept codes, as readers of what was written have them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "checkpoint/tile_hashes.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale {

struct OutputToCheck {
  const std::filesystem::path& path;  // folder or file
  const TileHashes& written;          // what this run wrote
  bool read_back = false;             // all of it
};

/// The hash of the values that all kept matrices stand for in `output`, by the readers of the
/// container that it is. They say of each matrix by which scale it is decoded. Tiles that this run
/// wrote for that scale have the hash of the bytes that were written, but for one in sixteen,
/// spread over the model; these, and all others, are read and hashed again. A worker for each of
/// `buffers`. `read` is told each module that is read; it may throw.
/// Throws Error where a weight is not there as the plan has it, or a tile has other values.
std::uint64_t hash_of_output(const ModelPlan& plan, const OutputToCheck& output,
                             const std::vector<TileBuffers>& buffers,
                             const std::function<void(std::string_view module)>& read);

}  // namespace microscale
