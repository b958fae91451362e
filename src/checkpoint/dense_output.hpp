// The folder that dequantize writes: refused where something could be lost, and marked as
// unfinished until everything in it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// Written first, removed last, so that what a stopped run left can be told from somebody's files.
/// It says what was being written from what.
inline constexpr const char* dequantize_marker = "dequantize.partial";

/// The file in a model folder that shows that the run writing it, of quantize or dequantize, has
/// not finished.
std::optional<std::string> unfinished_run(const ModelFolder& model);

/// Whether begin_dense_output would take `output`, but for the room on the disk; writes nothing.
Status check_dense_output(const ModelFolder& input, bool input_is_folder,
                          const std::filesystem::path& output);

/// Makes `output`, or takes an empty folder, or what an unfinished dequantize of the same unchanged
/// input left; checks that `bytes` more fit on the disk; and sets the marker. Refuses anything
/// else, and an output that is the input, inside it or around it. (`input_is_folder`: not a single
/// file, beside which the output may well be.)
Status begin_dense_output(const ModelFolder& input, bool input_is_folder,
                          const std::filesystem::path& output, std::uint64_t bytes);

/// Removes the marker.
Status finish_dense_output(const std::filesystem::path& output);

}  // namespace microscale
