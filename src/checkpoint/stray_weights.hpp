// .safetensors files beside those that make up the model: drafters, adapters, vocoders, which a
// converted model needs too, and the model's own weights once more, which it does not.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_folder.hpp"

namespace microscale {

/// Why a file is left out that harms no loader.
inline constexpr const char* no_tensors = "holds no tensor";

/// Opens the files `names` beside the model, whose tensors are known, and sorts them: one that
/// holds a tensor the model has not is kept (to be copied byte for byte), with a notice where it
/// holds tensors of the model as well; left out are files whose tensors the model has all in
/// the same shapes (the reason says whether with the same values, by their first and last bytes),
/// the model once more in Mistral's names (consolidated*, with about as many elements), and files
/// that cannot be read.
void sort_stray_weights(ModelFolder& model, const std::vector<std::string>& names);

/// Makes the strays shards of the model (`side`), so that what looks at all weights sees them too;
/// they are no longer among other_files. One that holds tensors of the model stays a stray.
void include_side_weights(ModelFolder& model);

/// Whether the file holds an adapter, whose layers no engine looks for in the model itself.
bool is_adapter(const ModelShard& file);

/// A failure where the folder holds nothing but an adapter: its matrices are no layers of a model.
Status refuse_adapter(const ModelFolder& model);

}  // namespace microscale
