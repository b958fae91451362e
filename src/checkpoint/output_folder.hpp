// The folder a conversion writes: whether it may be written, what identifies the conversion, and
// the files that are copied into it.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "checkpoint/importance.hpp"
#include "checkpoint/journal.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/model_plan.hpp"
#include "core/result.hpp"

namespace microscale {

/// The output must be neither the input, nor inside it, nor around it, links followed.
Status check_output_place(const std::filesystem::path& input, const std::filesystem::path& output,
                          std::string_view operation = "quantize");

/// A report on the conversion may lie beside the model or in the output folder, but must not take
/// the place of a file of the input or of one that the plan writes.
Status check_report_place(const ModelPlan& plan, const QuantizeModelOptions& options,
                          const std::filesystem::path& report);

/// Input files (name, size, time, header), and every option that changes a byte.
Result<Fingerprint> fingerprint_of(const ModelPlan& plan, const QuantizeModelOptions& options);

/// The same as it is kept with the finished folder: of the input only what a copy of it elsewhere
/// has too (names, sizes, headers, samples of the weights). `read`: false gives a text of the same
/// length without reading weights.
Result<Fingerprint> origin_of(const ModelPlan& plan, const QuantizeModelOptions& options,
                              bool read = true);

/// Bytes of the manifest that the run will write: hashes are not known yet, but how long they are.
Result<std::uint64_t> manifest_size(const ModelPlan& plan, const QuantizeModelOptions& options);

/// The folder of a path that names a file in it.
std::filesystem::path folder_that_holds(const std::filesystem::path& file);

/// Of options whose output is one file and no folder: it must not be there, its folder must, and
/// neither an interrupted run nor other processes can be gone on with.
Status check_file_to_write(const QuantizeModelOptions& options, int ranks);

/// Of a run that goes on with no other: its output must not be there, or hold nothing.
Status check_vacant(const QuantizeModelOptions& options, int ranks);

/// Makes the folder with a new journal; or with options.resume opens the one that is there, handing
/// each finished file to `visit`. Without resume a folder that holds anything is refused.
Result<Journal> open_output_folder(const QuantizeModelOptions& options,
                                   const Fingerprint& fingerprint,
                                   const std::function<Status(FinishedFile)>& visit);

/// Takes away the journal of a run that has failed, if no file was finished, and with `made` the
/// folder too: nothing is there to be resumed, and the same command may come again.
void forget_fruitless_run(const std::filesystem::path& folder, bool made);

/// Takes away all that a run of `plan` may have written into its folder, but for the journal.
void remove_files_of(const ModelPlan& plan, const std::filesystem::path& folder);

/// Copies a file through `buffer` under its final name once it is complete, making folders as
/// needed. Gives its size and hash.
Result<ManifestFile> copy_into_place(const std::filesystem::path& from,
                                     const std::filesystem::path& to,
                                     std::span<std::uint8_t> buffer);

}  // namespace microscale
