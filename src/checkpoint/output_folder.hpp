// The folder a whole model is written into: refused where something could be lost, and marked as
// unfinished until everything in it is complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"

namespace microscale {

/// Written first, removed last, so that a run that was stopped can be told from somebody's files.
/// Its contents say what was being written from what.
inline constexpr const char* unfinished_marker = "unfinished.partial";

/// One line per shard with size and time of change: the same text only for an unchanged input.
std::string fingerprint(std::string_view operation, const ModelFolder& input);

/// Makes `output`, or takes an empty folder, or one that an unfinished run with the same
/// fingerprint left; and marks it. Refuses anything else, and an output that is the input or inside
/// the input folder. `operation` begins the messages: "dequantize".
Status begin_output(std::string_view operation, const std::filesystem::path& input,
                    const std::filesystem::path& output, const std::string& fingerprint);

/// Removes the marker.
Status finish_output(const std::filesystem::path& output);

/// Fails when the disk that will hold `output` has not that many bytes free.
Status check_room(std::string_view operation, const std::filesystem::path& output,
                  std::uint64_t bytes);

/// Copies one file; `to` appears only once it is complete. Its folder is made if need be.
Status copy_file_atomically(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace microscale
