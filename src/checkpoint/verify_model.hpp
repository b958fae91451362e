// Everything a loader relies on, checked: docs/verify.md lists the rules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "checkpoint/finding.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/quantization_config.hpp"
#include "checkpoint/quantized_folder.hpp"
#include "checkpoint/verify_source.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

struct VerifyOptions {
  int threads = 0;                    // 0: all cores
  int tensor_parallel = 0;            // a degree to judge; 0: none
  std::filesystem::path source = {};  // the model it was made of; empty: not compared
};

/// Into how many parts tensor parallelism may cut the layers.
struct ParallelAnswer {
  int degree = 0;                    // that was asked for
  int largest = 0;                   // that works, up to `degree`
  std::vector<int> works;            // of 1 ... 64, and up to `degree`
  std::vector<int> unpadded;         // of these, those whose parts fit the tiles of all kernels
  std::vector<std::string> unknown;  // quantized modules whose role is not known, so not judged
};

struct VerifyReport {
  Findings findings;         // errors and warnings, in a fixed order
  std::int64_t tensors = 0;  // looked at, as stored
  std::int64_t modules = 0;  // quantized ones that are whole
  std::uint64_t bytes = 0;   // read
  bool readable = false;     // the folder could be opened at all
  std::optional<ParallelAnswer> parallel;
  std::optional<SourceAnswer> source;

  std::int64_t errors() const;
  std::int64_t warnings() const;
};

/// Reads all of the model. What is wrong with the model is a
/// finding; throws Error only for what kept it from being looked at (no such path, read errors) and
/// Error{interrupted} when `progress` says to stop.
VerifyReport verify_checkpoint(const std::filesystem::path& path, const VerifyOptions& options = {},
                               const ProgressCallback& progress = {});

// The parts, each adding to `findings`.

/// Names, metadata and leftovers: what headers and the list of files tell. `is_folder`: not a
/// single file, so config.json is to be expected.
void verify_files(const QuantizedFolder& folder, bool is_folder, Findings& findings);
/// All that headers, config and small tensors tell, in the order of docs/verify.md; a planned
/// folder is checked as far as it is known.
void verify_headers(const QuantizedFolder& folder, Findings& findings);
/// What describes the quantization of a folder, and the file that does.
struct Description {
  const char* file = "config.json";  // or "hf_quant_config.json"
  QuantizationConfig config;
};
/// Nothing for a dense model, and for one whose description cannot be read, which is a finding.
std::optional<Description> read_description(const QuantizedFolder& folder, Findings& findings);
/// The description (null: none) against the modules: formats, targets, ignore list, activation
/// scales. What cannot be decoded is described.
void verify_config(const QuantizedFolder& folder, const Description* description,
                   Findings& findings);
/// Stored scales of activations: finite, positive, and not upside down. Part of verify_groups.
void verify_input_scales(const QuantizedFolder& folder, Findings& findings);
/// Scales of the key-value cache: finite, positive, in pairs, one element each.
void verify_kv_cache(const ModelFolder& model, const QuantizationConfig* config,
                     Findings& findings);
/// Modules that are quantized although engines or the arithmetic want them dense, and ignore
/// entries that name the layer into which engines fuse quantized ones.
void verify_kept(const QuantizedFolder& folder, const QuantizationConfig* config,
                 Findings& findings);
/// Modules that loaders fuse, and experts: all alike.
void verify_groups(const QuantizedFolder& folder, Findings& findings);
/// Which layers a tensor-parallel degree would cut inside a block or a head.
ParallelAnswer verify_tp(const QuantizedFolder& folder, int degree, Findings& findings);
/// The manifest in a folder; nothing where there is none, or none that can be read.
std::optional<Manifest> read_manifest(const std::filesystem::path& root, Findings& findings);
/// Tensors and other files against it. `hashes`: of model.tensors.
void verify_manifest(const ModelFolder& model, const Manifest& manifest, const TensorHashes& hashes,
                     Findings& findings);
/// Reads all tensors and holds their hashes against it; throws as verify_checkpoint.
Findings verify_tensor_hashes(const ModelFolder& model, const Manifest& manifest, int threads,
                              const ProgressCallback& progress);
/// Bytes of each tensor, for TensorHashes.
std::vector<std::uint64_t> lengths_of(const ModelFolder& model);
/// Scales and codes, byte by byte; non-finite values of dense tensors. Hashes all of model.tensors
/// on the way, unless `hashes` is null.
void verify_values(const QuantizedFolder& folder, int threads, const ProgressCallback& progress,
                   Findings& findings, TensorHashes* hashes = nullptr);

}  // namespace microscale
