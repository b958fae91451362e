// Checkpoints: a Hugging Face model folder in, a smaller one that other engines load out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "microscale/layer_formats.hpp"
#include "microscale/numerics.hpp"
#include "microscale/statistics.hpp"

namespace microscale {

/// What becomes of one tensor of the input.
enum class Treatment : std::uint8_t {
  quantize,  ///< replaced by codes and scales
  split,     ///< fused 3-D expert weights: one quantized module per expert
  copy,      ///< written unchanged
  drop,      ///< left over from a calibration; not written
};

/// How gate and up lie in fused 3-D expert weights.
enum class ExpertOrder : std::uint8_t {
  halves,       ///< all of gate, then all of up
  interleaved,  ///< gate, up, gate, up, ...: gpt-oss
};

/// What becomes of the inputs of a quantized layer while an engine runs the model.
enum class Activations : std::uint8_t {
  dense,    ///< they stay as they are: weight-only
  dynamic,  ///< quantized to the weights' format when they come; nothing is stored for it
};
std::string_view to_string(Activations activations);  ///< "dense", "dynamic"

struct TensorPlan {
  std::string name;   ///< in the input
  std::string dtype;  ///< as stored: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  Treatment treatment = Treatment::copy;
  std::string reason;  ///< why, in words: "linear weight", "K = 30 is no multiple of 32"
  std::string format;  ///< "nvfp4", ...; empty for what is not quantized
  std::string group;   ///< tensors with the same non-empty group share one NVFP4 global scale
  std::string file;    ///< of the output
  std::optional<double> input_amax;  ///< that the stored scale of its inputs is made of
  std::int64_t bytes_before = 0;
  std::int64_t bytes_after = 0;
};

/// How quantized layers lie in the output: names, scales and the files that describe them.
enum class Container : std::uint8_t {
  compressed_tensors,
  modelopt,
  gguf,     ///< of llama.cpp: one file, made of a GGUF file
  comfyui,  ///< one .safetensors file
  gpt_oss,  ///< as gpt-oss was published: experts in MXFP4, the rest dense
};
std::string_view to_string(Container container);  ///< "compressed-tensors", "modelopt", ...
std::optional<Container> parse_container(std::string_view name);
/// All there are: "compressed-tensors, modelopt, ...".
std::string container_names();
/// By an output's name: gguf if it ends in .gguf, comfyui in .safetensors, else compressed_tensors.
Container container_for(const std::filesystem::path& output);

/// Nothing is quantized: quantized weights keep their codes. Set by convert_model.
struct KeepCodes {
  bool exact = false;                  ///< refuse what would change a value
  bool read_back = false;              ///< all of the output, not a sixteenth of it
  bool cast = false;                   ///< MXFP4 becomes NVFP4 also where the container holds MXFP4
  bool scaled_inputs = false;          ///< every NVFP4 layer has a scale of its inputs
  std::int64_t lost_input_scales = 0;  ///< of layers, where others have none
};

/// An adapter to be added to the weights before they are quantized: W + weight * scaling * B A.
struct LoraUse {
  std::filesystem::path path;  ///< folder that peft saved, or its .safetensors file
  double weight = 1;
};

struct QuantizeModelOptions {
  std::filesystem::path input;  ///< model folder, or one .safetensors or GGUF file
  /// Folder to be made, or the file that a container is that has but one (gguf, comfyui). Must be
  /// neither the input nor inside it.
  std::filesystem::path output;
  Container container = Container::compressed_tensors;
  Format format = Format::nvfp4;
  std::vector<LoraUse> lora;   ///< LoRA adapters, added in this order, before anything else
  std::vector<UseFormat> use;  ///< the first that matches counts; layers that engines fuse and the
                               ///< experts of a layer must agree
  Numerics numerics;  ///< of `format`; others follow the rule where they have it, else search
  std::vector<std::string> include;    ///< if not empty, only these; globs, or "re:" and a regular
  std::vector<std::string> ignore;     ///< expression matched from the start; beyond the defaults
  std::filesystem::path importance;    ///< statistics of each layer's inputs, by module name
  StatisticsUse statistics;            ///< what is done with them
  std::optional<ExpertOrder> experts;  ///< where neither config.json nor the tensors tell
  Activations activations = Activations::dense;  ///< of MXFP4 and MXFP8 layers
  std::filesystem::path input_scales;  ///< NVFP4: the largest magnitude of each layer's input, by
                                       ///< module: JSON or safetensors. Empty: weight-only
  bool allow_incomplete = false;       ///< quantize what is there of a model that lacks parts
  int threads = 0;                     ///< 0: all cores
  std::int64_t max_memory = std::int64_t{1} << 30;  ///< bytes of resident memory to stay under
  std::vector<int> gpus{};  ///< GPUs to quantize on, counted from 0; empty: on the CPU. The same
                            ///< bytes; what GPUs do not offer is done on the CPU. They become
                            ///< the calling thread's current device, as select_device makes them
  bool resume = false;      ///< continue an interrupted run of the same input and options
  std::optional<KeepCodes> keep_codes{};
  Budget budget{};  ///< chooses the formats of layers that `use` does not name; `format` is then
                    ///< the first of its menu with blocks
  std::optional<FormatChoice> choice{};  ///< what it led to; set by quantize_model
};

/// For all layers that no options.use names; last. fp8 of ModelOpt with input scales: fp8_tensor.
void set_format(QuantizeModelOptions& options, WeightFormat format);

struct ConversionPlan {
  std::vector<TensorPlan> tensors;           ///< in the order of the input
  std::vector<std::string> copied_files;     ///< tokenizer and the like
  std::vector<std::string> dropped_files;    ///< left out: other weight formats and the like
  std::vector<std::string> dropped_reasons;  ///< why, of each: "weights in another format"
  std::vector<std::string> notices;          ///< oddities of the input, one sentence each
  std::int64_t bytes_before = 0;             ///< of tensors
  std::int64_t bytes_after = 0;
  std::int64_t disk_needed = 0;  ///< everything that will be written
  std::int64_t disk_free = 0;
  std::string computed_on;               ///< in words: "the CPU", "GPU 0 (NVIDIA H200, sm_90a)"
  std::optional<FormatChoice> choice{};  ///< that options.budget led to
};

/// Called from any one thread at a time, first before the work begins, with the bytes that an
/// earlier run has done; return false to stop (Error{interrupted}; resume later).
using ProgressCallback =
    std::function<bool(std::int64_t bytes_done, std::int64_t bytes_total, std::string_view item)>;

/// What quantize_model would do; reads headers only, and with a budget all weights. Throws Error.
ConversionPlan plan_quantize_model(const QuantizeModelOptions& options,
                                   const ProgressCallback& progress = {});

/// Converts. The output has the same bytes at any thread count and memory limit. No file carries
/// its final name before it is complete, config.json is the last. Throws Error.
ConversionPlan quantize_model(const QuantizeModelOptions& options,
                              const ProgressCallback& progress = {});

struct ConvertModelOptions {
  std::filesystem::path input;   ///< quantized model folder, or one .safetensors or GGUF file
  std::filesystem::path output;  ///< as in QuantizeModelOptions
  Container container = Container::compressed_tensors;
  bool to_nvfp4 = false;  ///< MXFP4 becomes NVFP4 also where the container holds MXFP4
  bool exact = false;     ///< refuse what would change a value
  int threads = 0;        ///< 0: all cores
  std::int64_t max_memory = std::int64_t{1} << 30;  ///< bytes of resident memory to stay under
  bool resume = false;     ///< continue an interrupted run of the same input and options
  bool read_back = false;  ///< read all of the output again to hash it, not a sixteenth of it
};

/// What became of weights whose codes stay; nothing of it where an earlier run had finished.
struct ConvertedModel {
  ConversionPlan plan;
  bool already_done = false;  ///< by an earlier run; its hashes were checked, if it has a manifest
  std::int64_t weights = 0;   ///< matrices in blocks
  std::int64_t blocks = 0;    ///< of 16 or 32 elements, as they are in the output
  std::int64_t cast = 0;      ///< of these, MXFP4 of the input under scales of NVFP4
  std::int64_t searched = 0;  ///< of these, not of the same values: no scale of NVFP4 fits
  double searched_mse = 0;    ///< relative, of the searched blocks alone
  std::uint64_t hash_before = 0;  ///< of the values that the input's blocks stand for
  /// Of those that the output's stand for, as its readers decode it: of the bytes that were
  /// written, a sixteenth of which was read again and hashed once more; with read_back, of all of
  /// them.
  std::uint64_t hash_after = 0;
  bool same_values() const { return hash_before == hash_after; }
};

/// Writes weights that are quantized already into another container, tile by tile, without
/// quantizing them again: names, reciprocals of global scales, the order of nibbles and scales
/// change, codes and block scales do not. MXFP4 becomes NVFP4 where the container has no MXFP4, by
/// the same codes where E4M3 reaches their scale. Weights in other codings are written as BF16
/// values. Reads the output back and compares the values. Throws Error.
ConvertedModel convert_model(const ConvertModelOptions& options,
                             const ProgressCallback& progress = {});

/// What convert_model would do; reads headers and global scales only. Throws Error.
ConversionPlan plan_convert_model(const ConvertModelOptions& options);

struct DequantizeModelOptions {
  std::filesystem::path input;   ///< quantized model folder, or one .safetensors or GGUF file
  std::filesystem::path output;  ///< folder to be made; must be neither the input nor inside it
  DType dtype = DType::bf16;     ///< of the weights written
  int threads = 0;               ///< 0: all cores
  bool allow_nan = false;        ///< write NaN where scales or codes are NaN, instead of refusing
};

/// What a dense model was written without, and why.
struct LeftOut {
  std::string name;  ///< of a file or a tensor of the input
  std::string reason;
};

struct DequantizedModel {
  std::vector<LeftOut> left_out;     ///< buffers of a calibration, weights in another format, ...
  std::vector<std::string> notices;  ///< oddities of the input, one sentence each
};

/// Expands a quantized folder to dense weights under the original names. Reads it twice: nothing is
/// written where a weight cannot be decoded, where scales or codes are NaN (but for allow_nan), or
/// where values would become infinite as F16. Throws Error.
DequantizedModel dequantize_model(const DequantizeModelOptions& options,
                                  const ProgressCallback& progress = {});

struct RepairModelOptions {
  std::filesystem::path input;   ///< quantized model folder
  std::filesystem::path output;  ///< folder to be made; may be empty for a dry run
  int threads = 0;               ///< 0: all cores
  bool dry_run = false;          ///< say what would be done, write nothing
};

struct RepairReport {
  std::vector<std::string> changes;  ///< one sentence each; none: nothing is to be repaired
  std::int64_t found = 0;            ///< errors that verify found
  bool written = false;
  std::int64_t blocks = 0;          ///< of layers that got another global scale, as is the rest
  std::int64_t blocks_inexact = 0;  ///< that stand for other values than before
  std::int64_t scales_changed = 0;  ///< block scales
  std::int64_t codes_changed = 0;
  double relative_change = 0;  ///< squares of the changes, against those of the values
};

/// Writes a quantized folder again as loaders want it: one global scale for layers that engines
/// fuse (block scales take the ratio up; codes change only where E4M3 cannot), the ignore list in
/// the spellings that engines match, without what a calibration left behind, with metadata that
/// transformers reads. The result passes verify_model; a folder with an error that this does not
/// mend is refused (Error{bad_input}). Nothing is written where nothing is wrong. Throws Error.
RepairReport repair_model(const RepairModelOptions& options, const ProgressCallback& progress = {});

struct VerifyModelOptions {
  std::filesystem::path input;  ///< quantized model folder
  int threads = 0;              ///< 0: all cores
};

/// Checks everything a loader relies on. Returns one sentence per problem, none if all is well.
std::vector<std::string> verify_model(const VerifyModelOptions& options);

}  // namespace microscale
