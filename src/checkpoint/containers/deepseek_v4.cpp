// DeepSeek V4's experts: "P.weight" I8 [N, K / 2] of two E2M1 codes a byte, the even one low, and
// "P.scale" F8_E8M0 [N, K / 32]. Its other layers are FP8 in blocks, which fp8_weights.cpp reads.
#include <fmt/format.h>

#include <array>

#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

constexpr Format format = Format::mxfp4;
// As published, and as tools rename it.
constexpr std::array<std::string_view, 3> scale_endings{".scale", ".weight_scale",
                                                        ".weight_scale_inv"};

const ModelTensor* scale_of(const ContainerScan& scan, std::string_view module) {
  for (const std::string_view ending : scale_endings) {
    const ModelTensor* scale = scan.find(std::string(module).append(ending));
    if (scale && scale->entry->type == StoredType::f8_e8m0) return scale;
  }
  return nullptr;
}

}  // namespace

void find_deepseek_v4_weights(ContainerScan& scan) {
  for (const ModelTensor& codes : scan.model().tensors) {
    const TensorEntry& entry = *codes.entry;
    if (entry.type != StoredType::i8 || entry.shape.size() != 2 || entry.bytes() == 0) continue;
    if (!entry.name.ends_with(".weight") || !scan.find(entry.name)) continue;
    const ModelTensor* scale = scale_of(scan, module_of(entry.name));
    if (!scale) continue;  // INT8, and what else is kept in I8
    const std::int64_t rows = entry.shape[0], cols = entry.shape[1] * 2;
    const std::int64_t block = info(format).block;
    if (cols % block != 0 || scale->entry->shape != std::vector<std::int64_t>{rows, cols / block}) {
      scan.report("wrong-shape", *scale,
                  fmt::format("two codes a byte {} have scales [{}, {}], this is {}; download the "
                              "model again",
                              described(entry), rows, cols / block, described(*scale->entry)),
                  {&codes, scale});
      continue;
    }
    scan.add(make_row_blocks({entry.name,
                              {rows, cols},
                              value_type_of(format),
                              "mxfp4 in DeepSeek V4's layout",
                              {&codes, scale}},
                             {.format = format}, scan.model()));
  }
}

}  // namespace microscale
