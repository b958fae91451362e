// gpt-oss's MXFP4 experts: "P_blocks" U8 [E, N, K / 32, 16] and "P_scales" U8 [E, N, K / 32], which
// stand for the dense model's P [E, K, N]: the blocks run down its columns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/column_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/fused_experts.hpp"

namespace microscale {
namespace {

constexpr std::string_view blocks_ending = "_blocks", scales_ending = "_scales";
constexpr std::int64_t block = 32, block_bytes = 16;
constexpr Format format = Format::mxfp4;

class GptOssExperts final : public ColumnWeight {
 public:
  // `stored` is [E, N, K] of the blocks: experts, output and input features.
  GptOssExperts(WeightFacts facts, const ModelFolder& model)
      : ColumnWeight(std::move(facts)),
        codes_file_(&model.shards[codes().shard].file),
        scales_file_(&model.shards[this->facts().parts[1]->shard].file),
        codes_at_(codes().entry->begin),
        scales_at_(this->facts().parts[1]->entry->begin) {}

 private:
  std::optional<BlockCoding> coding_of_lines() const override {
    return BlockCoding{.format = format};
  }

  Status read_line(std::int64_t line, std::int64_t input, std::int64_t count,
                   std::span<std::uint8_t> codes, std::span<std::uint8_t> scales) const override {
    const auto from = static_cast<std::uint64_t>(line * inputs() + input);
    if (Status read = codes_file_->read_at(codes_at_ + from / 2, codes); !read) return read;
    return scales_file_->read_at(scales_at_ + from / block,
                                 scales.first(static_cast<std::size_t>(count / block)));
  }

  Status decode_line(std::int64_t line, std::int64_t input, std::int64_t count,
                     std::uint8_t* out) const override {
    std::array<std::uint8_t, chunk / 2> codes;
    std::array<std::uint8_t, chunk / block> scales;
    const auto some_codes = std::span(codes).first(static_cast<std::size_t>(count / 2));
    const auto some_scales = std::span(scales).first(static_cast<std::size_t>(count / block));
    if (Status read = read_line(line, input, count, some_codes, some_scales); !read) return read;
    decode_blocks({.format = format}, some_codes, some_scales, DType::bf16, out);
    return success();
  }

  const InputFile *codes_file_, *scales_file_;
  std::uint64_t codes_at_, scales_at_;
};

}  // namespace

void find_gpt_oss_weights(ContainerScan& scan) {
  for (const ModelTensor& scales : scan.model().tensors) {
    if (!scales.name().ends_with(scales_ending) || scales.entry->shape.size() != 3) continue;
    const std::string name = scales.name().substr(0, scales.name().size() - scales_ending.size());
    if (!fused_expert_part(name) || scan.find(name + std::string(blocks_ending))) continue;
    scan.report("missing-codes", scales,
                fmt::format("its blocks {} are missing; download the model again",
                            name.substr(name.rfind('.') + 1) + std::string(blocks_ending)),
                {&scales});
  }
  for (const ModelTensor& codes : scan.model().tensors) {
    if (!codes.name().ends_with(blocks_ending) || !scan.find(codes.name())) continue;
    const std::string name = codes.name().substr(0, codes.name().size() - blocks_ending.size());
    const ModelTensor* scales = scan.find(name + std::string(scales_ending));
    const TensorEntry& entry = *codes.entry;
    if (entry.type != StoredType::u8 || entry.shape.size() != 4) continue;
    if (const ModelTensor* dense = scan.find(name)) {
      scan.report(
          "extra-tensor", *dense,
          "the model has blocks of the same weight too, so which of them counts is unclear; "
          "remove one of them",
          {&codes, dense});
      continue;
    }
    if (!scales) {
      scan.report("missing-scale", codes,
                  fmt::format("its scales {} are missing; download the model again",
                              name.substr(name.rfind('.') + 1) + std::string(scales_ending)),
                  {&codes});
      continue;
    }
    const std::vector<std::int64_t> wanted(entry.shape.begin(), entry.shape.end() - 1);
    if (entry.shape[3] != block_bytes || scales->entry->type != StoredType::u8 ||
        scales->entry->shape != wanted) {
      scan.report("wrong-shape", codes,
                  fmt::format("blocks are U8 [experts, rows, blocks, 16] and scales U8 [experts, "
                              "rows, blocks], these are {} and {}; download the model again",
                              described(entry), described(*scales->entry)),
                  {&codes, scales});
      continue;
    }
    if (entry.bytes() == 0) continue;
    const std::int64_t inputs = entry.shape[2] * block;
    scan.add(std::make_unique<GptOssExperts>(WeightFacts{name,
                                                         {entry.shape[0], inputs, entry.shape[1]},
                                                         StoredType::bf16,
                                                         "mxfp4 in gpt-oss's blocks",
                                                         {&codes, scales},
                                                         true},
                                             scan.model()));
  }
}

}  // namespace microscale
