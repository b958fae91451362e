// The values of a conversion that kept codes, read back from what was written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "checkpoint/model_plan.hpp"
#include "seam/tile_quantizer.hpp"

namespace microscale {

/// The hash of the values that all kept matrices stand for in `output`, by the readers of the
/// container that it is. A worker for each of `buffers`. `read` is told each module; it may throw.
/// Throws Error where a weight is not there as the plan has it.
std::uint64_t hash_of_output(const ModelPlan& plan, const std::filesystem::path& output,
                             const std::vector<TileBuffers>& buffers,
                             const std::function<void(std::string_view module)>& read);

}  // namespace microscale
