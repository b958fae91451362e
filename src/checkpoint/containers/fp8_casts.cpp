// Diffusion models that were cast to FP8 as they are, without a scale (ComfyUI's fp8_e4m3fn): every
// code is its value.
#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/containers/containers.hpp"
#include "checkpoint/kept_layers.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

bool is_fp8(StoredType type) { return type == StoredType::f8_e4m3 || type == StoredType::f8_e5m2; }

template <class Codec>
std::array<std::uint16_t, 256> values_of() {
  std::array<std::uint16_t, 256> values;
  for (std::size_t code = 0; code < values.size(); ++code) {
    values[code] = float_to_bf16(Codec::decode(static_cast<std::uint8_t>(code)));
  }
  return values;
}

class CastWeight final : public StoredWeight {
 public:
  CastWeight(WeightFacts facts, const InputFile& file)
      : StoredWeight(std::move(facts)),
        file_(&file),
        values_(codes().entry->type == StoredType::f8_e4m3 ? values_of<E4M3>()
                                                           : values_of<E5M2>()) {}

  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    std::array<std::uint8_t, 8192> codes_read;
    for (std::int64_t done = 0; done < count;) {
      const auto part = std::min<std::int64_t>(count - done, codes_read.size());
      const auto some = std::span(codes_read).first(static_cast<std::size_t>(part));
      const auto at = codes().entry->begin + static_cast<std::uint64_t>(first + done);
      if (Status read = file_->read_at(at, some); !read) return read;
      std::uint8_t* to = out.data() + done * 2;
      for (const std::uint8_t code : some) {
        std::memcpy(to, &values_[code], 2);
        to += 2;
      }
      done += part;
    }
    return success();
  }

  void will_need(std::int64_t first, std::int64_t count) const override {
    file_->will_need(codes().entry->begin + static_cast<std::uint64_t>(first),
                     static_cast<std::uint64_t>(count));
  }

 private:
  const InputFile* file_;
  std::array<std::uint16_t, 256> values_;  // BF16 holds them all
};

// A model whose weights have scales somewhere is no cast, even where one of them lacks its own.
// A norm's own "scale" is none (Flux).
bool has_scales(const ContainerScan& scan) {
  constexpr std::array<std::string_view, 6> endings{"weight_scale", "weight_scale_inv",
                                                    "scale_weight", "scaled_fp8",
                                                    "comfy_quant",  "input_scale"};
  const auto is_scale = [&](const ModelTensor& tensor) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return tensor.name().ends_with(ending); });
  };
  const std::vector<ModelTensor>& tensors = scan.model().tensors;
  return std::any_of(tensors.begin(), tensors.end(), is_scale);
}

}  // namespace

void find_fp8_casts(ContainerScan& scan) {
  const std::vector<ModelTensor>& tensors = scan.model().tensors;
  const bool any = std::any_of(tensors.begin(), tensors.end(),
                               [](const auto& tensor) { return is_fp8(tensor.entry->type); });
  if (!any || scan.planned() || has_scales(scan)) return;
  std::vector<std::string_view> names;
  for (const ModelTensor& tensor : tensors) names.push_back(tensor.name());
  if (!LayerRules(names, ModelFacts{}).diffusion()) return;
  for (const ModelTensor& tensor : tensors) {
    const TensorEntry& entry = *tensor.entry;
    if (!is_fp8(entry.type) || entry.bytes() == 0 || !scan.find(entry.name)) continue;
    const char* codes = entry.type == StoredType::f8_e4m3 ? "FP8 E4M3" : "FP8 E5M2";
    scan.add(std::make_unique<CastWeight>(WeightFacts{entry.name,
                                                      entry.shape,
                                                      StoredType::bf16,
                                                      std::string(codes) + ", cast without a scale",
                                                      {&tensor}},
                                          scan.file_of(tensor)));
  }
}

}  // namespace microscale
