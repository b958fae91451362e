// FP-Quant: "P.qweight" U8 [N, K / 2] of two E2M1 codes a byte, the even one low, "P.scales" U8
// [N, K / 16] (E4M3: NVFP4) or [N, K / 32] (E8M0: MXFP4), "P.weight_global_scale", which divides,
// and "P.forward_hadamard_matrix", which weights were multiplied by before they were rounded.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "checkpoint/classifier.hpp"
#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/kept_codes.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr std::string_view codes_ending = ".qweight";
constexpr std::uint64_t largest_matrix = 128 * 128 * 4;  // bytes

// MXFP4 whose values are divided by a number that is no power of two, rounded once to FP32.
class DividedBlocks final : public StoredWeight {
 public:
  DividedBlocks(WeightFacts facts, float divisor, const ModelFolder& model)
      : StoredWeight(facts), divisor_(divisor) {
    facts.type = StoredType::bf16;
    whole_ = make_row_blocks(std::move(facts), {.format = Format::mxfp4}, model);
  }

  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    std::array<std::uint16_t, 4096> values;
    const auto chunk = static_cast<std::int64_t>(values.size());
    for (std::int64_t done = 0; done < count; done += chunk) {
      const std::int64_t part = std::min(chunk, count - done);
      const std::span<std::uint8_t> bytes{reinterpret_cast<std::uint8_t*>(values.data()),
                                          static_cast<std::size_t>(part * 2)};
      if (Status read = whole_->decode(first + done, part, bytes); !read) return read;
      for (std::int64_t i = 0; i < part; ++i) {
        const float value = load_dense(values.data(), DType::bf16, i) / divisor_;
        store_dense(value, out.data(), DType::f32, done + i);
      }
    }
    return success();
  }

 private:
  std::unique_ptr<StoredWeight> whole_;
  float divisor_;
};

// The numbers of a small float tensor; nothing if it is none.
std::optional<std::vector<float>> numbers_of(const ContainerScan& scan, const ModelTensor* tensor) {
  const auto type = tensor ? dense_type(tensor->entry->type) : std::nullopt;
  if (!type || tensor->entry->bytes() > largest_matrix || scan.planned()) return std::nullopt;
  std::vector<std::uint8_t> bytes(tensor->entry->bytes());
  if (!scan.file_of(*tensor).read_at(tensor->entry->begin, bytes)) return std::nullopt;
  std::vector<float> numbers(bytes.size() / static_cast<std::size_t>(size_of(*type)));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = load_dense(bytes.data(), *type, static_cast<std::int64_t>(i));
  return numbers;
}

bool is_identity(const std::vector<float>& matrix) {
  const auto side = static_cast<std::size_t>(std::lround(std::sqrt(matrix.size())));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if (matrix[i] != (i / side == i % side ? 1.0f : 0.0f)) return false;
  }
  return side * side == matrix.size();
}

// The tensors of one layer, and what is wrong with them: a rule of verify and a sentence.
class Layer {
 public:
  Layer(ContainerScan& scan, const ModelTensor& codes)
      : scan_(scan),
        codes_(codes),
        module_(codes.name().substr(0, codes.name().size() - codes_ending.size())),
        scales_(beside(".scales")),
        global_(beside(".weight_global_scale")),
        turned_(beside(".forward_hadamard_matrix")) {}

  /// Whether it is one of FP-Quant's: others call their codes qweight too.
  bool is_one() const { return scales_ && turned_ && scales_->entry->type == StoredType::u8; }

  void add() {
    const auto& shape = codes_.entry->shape;
    const std::int64_t rows = shape[0], cols = shape[1] * 2;
    const auto blocks_of_scale = [&](std::int64_t block) {
      return cols % block == 0 &&
             scales_->entry->shape == std::vector<std::int64_t>{rows, cols / block};
    };
    const bool nvfp4 = blocks_of_scale(16);
    if (!nvfp4 && !blocks_of_scale(32)) {
      return report("wrong-shape",
                    fmt::format("two codes a byte {} have scales [{}, {}] or [{}, {}], these are "
                                "{}; download the model again",
                                described(*codes_.entry), rows, cols / 16, rows, cols / 32,
                                described(*scales_->entry)));
    }
    const auto matrix = numbers_of(scan_, turned_);
    if (!matrix || !is_identity(*matrix)) {
      return report("not-decoded",
                    "FP-Quant multiplied this weight by forward_hadamard_matrix before it was "
                    "rounded, and values that are turned back are rounded once more; start from "
                    "the full-precision model");
    }
    const auto global = numbers_of(scan_, global_);
    if (!global || global->size() != 1 || !(global->front() > 0) ||
        !std::isnormal(global->front())) {
      return report("missing-scale",
                    "its weight_global_scale is not one positive number; download the model again");
    }
    WeightFacts facts;
    facts.name = module_ + ".weight";
    facts.shape = {rows, cols};
    facts.description = nvfp4 ? "nvfp4 of FP-Quant" : "mxfp4 of FP-Quant";
    facts.parts = parts();
    if (nvfp4) {
      scan_.add(make_row_blocks(std::move(facts), coding_of_stored(global->front(), true),
                                scan_.model()));
    } else if (global->front() == 1.0f) {
      facts.type = StoredType::bf16;
      scan_.add(make_row_blocks(std::move(facts), {.format = Format::mxfp4}, scan_.model()));
    } else {
      scan_.add(std::make_unique<DividedBlocks>(std::move(facts), global->front(), scan_.model()));
    }
  }

 private:
  const ModelTensor* beside(std::string_view ending) const {
    return scan_.find(module_ + std::string(ending));
  }
  void report(std::string_view rule, const std::string& text) {
    scan_.report(rule, codes_, text, parts());
  }
  // Codes and scales first.
  std::vector<const ModelTensor*> parts() const {
    std::vector<const ModelTensor*> all{&codes_, scales_, turned_};
    for (const char* ending :
         {".weight_global_scale", ".backward_hadamard_matrix", ".act_global_scale"}) {
      if (const ModelTensor* part = beside(ending)) all.push_back(part);
    }
    return all;
  }

  ContainerScan& scan_;
  const ModelTensor& codes_;
  const std::string module_;
  const ModelTensor *scales_, *global_, *turned_;
};

}  // namespace

void find_fp_quant_weights(ContainerScan& scan) {
  for (const ModelTensor& codes : scan.model().tensors) {
    const TensorEntry& entry = *codes.entry;
    if (!entry.name.ends_with(codes_ending) || entry.type != StoredType::u8) continue;
    if (entry.shape.size() != 2 || entry.bytes() == 0 || !scan.find(entry.name)) continue;
    if (Layer layer(scan, codes); layer.is_one()) layer.add();
  }
}

}  // namespace microscale
