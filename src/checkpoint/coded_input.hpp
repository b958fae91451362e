// A model whose weights are quantized already, as the input of quantize: what is said about it, and
// what of it does not go into the output.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/dense_view.hpp"
#include "checkpoint/model_folder.hpp"
#include "core/result.hpp"
#include "microscale/checkpoint.hpp"

namespace microscale {

/// ModelOpt's description of quantized weights, beside config.json; a dense model has it not.
inline constexpr const char* modelopt_config = "hf_quant_config.json";
/// ComfyUI's, in the metadata of a file.
inline constexpr const char* comfyui_metadata = "_quantization_metadata";

/// "FP8 E4M3, one scale per 128 x 128 block (14 weights); nvfp4 (3 weights)"; empty for a dense
/// model, and where no values were rounded to codes.
std::string codings_in_words(const DenseView& view);

/// What the user must know before the result is judged, one sentence each: that the weights are
/// quantized already, then the oddities of the model.
std::vector<std::string> notices_of(const ModelFolder& model, const DenseView& view);

/// A failure where config.json, or a file beside it, says that the weights are quantized, and none
/// could be decoded: of another tool, or dense after all.
Status refuse_described(const ModelFolder& model, const DenseView& view,
                        const Classifier& classifier);

/// A failure where what computed weights stand for is lost or turned (verify_scales.hpp), and where
/// all of them have the format that all layers are to get: quantizing them again could only lose.
Status check_coded_input(const ModelFolder& model, const DenseView& view,
                         const QuantizeModelOptions& options);

/// Takes what describes the input's quantization from the files to be copied.
void leave_out_descriptions(ModelFolder& model);

}  // namespace microscale
