// Everything about a conversion that is known before a weight is read: which matrices are
// quantized, which share a global scale, and where each byte of each output file goes. So tiles can
// be computed and written in any order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/containers/container_writer.hpp"
#include "checkpoint/dense_view.hpp"
#include "checkpoint/lora_adapter.hpp"
#include "checkpoint/matrix_slice.hpp"
#include "checkpoint/model_folder.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/treatments.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// Codes of the input that go into the output: as they are, or as another format.
struct KeptBlocks {
  BlockCoding coding;          // of the input
  BlockCoding written;         // of the output; NVFP4 that was MXFP4 has no number yet
  float stored_global = 1.0f;  // what the tensor of the global scale holds
  bool same_global = true;     // for every block scale the same FP32 number as before
  bool cast() const { return coding.format != written.format; }
};

/// A matrix to be quantized, and where its parts go.
struct QuantizedMatrix {
  MatrixSlice slice;
  std::size_t tensor = 0;    // of ModelPlan::tensors
  DType dtype = DType::f32;  // of the elements that are read
  WeightFormat format = WeightFormat::nvfp4;
  std::size_t group = 0;           // of ModelPlan::groups; NVFP4 only
  std::int64_t first_tile = 0;     // tiles of the same tensor in the matrices before this one
  std::int64_t first_element = 0;  // elements of the same
  LayerPlaces at;
  std::optional<KeptBlocks> kept{};  // of options.keep_codes
  bool fp32_scales = false;          // of rows; else BF16
  double input_amax = 0;             // 0: no scale of its inputs is written
};

/// A slice of a tensor that is written unchanged: the bias of an expert.
struct CopiedSlice {
  MatrixSlice slice;
  std::size_t tensor = 0;
  std::uint64_t at = 0;
};

/// A tensor that is written unchanged, wholly; of a computed one the values, as BF16.
struct CopiedTensor {
  std::size_t tensor = 0;
  std::uint64_t at = 0;
};

/// A tensor of which every byte is known before any weight is read.
struct ConstantTensor {
  std::uint64_t at = 0;
  std::string bytes;
};

/// One output file. Of a folder its input has the same index in model.shards, and its name.
struct ShardPlan {
  std::string name;
  SafetensorsLayout layout;               // of a GGUF file: its header, and tensors as U8
  std::vector<QuantizedMatrix> matrices;  // in the order of the input's bytes
  std::vector<CopiedSlice> slices;
  std::vector<CopiedTensor> copies;
  std::vector<ConstantTensor> constants;
};

/// A matrix by shard and index.
struct MatrixId {
  std::size_t shard = 0, matrix = 0;
};

struct ModelPlan {
  bool one_file = false;  // options.output is the only file that is written, and no folder
  ModelFolder model;      // the files as they are
  std::vector<LoraAdapter> adapters;  // that the view points to
  DenseView view;                     // what they stand for
  Format format = Format::nvfp4;
  std::vector<TensorTreatment> tensors;       // parallel to summary.tensors
  std::vector<ShardPlan> shards;              // parallel to model.shards, or one
  std::vector<std::int64_t> tiles;            // of each tensor, all its matrices together
  std::vector<std::vector<MatrixId>> groups;  // NVFP4 matrices under one global scale
  std::string config_text;                    // of the output
  std::vector<std::pair<std::string, std::string>> other_texts;  // names and texts beside it
  std::string index_text;                                        // of the output; empty: no index
  ConversionPlan summary;
};

/// What the matrices become, each once: the options' own format first.
std::vector<WeightFormat> formats_in(const ModelPlan& plan);

/// Reads headers only. Checks the options as far as they do not need the output folder.
Result<ModelPlan> make_model_plan(const QuantizeModelOptions& options);

}  // namespace microscale
