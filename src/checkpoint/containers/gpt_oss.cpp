// gpt-oss's MXFP4 experts: "P_blocks" U8 [E, N, K / 32, 16] and "P_scales" U8 [E, N, K / 32], which
// stand for the dense model's P [E, K, N]: the blocks run down its columns.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/fused_experts.hpp"
#include "formats/half.hpp"
#include "formats/integers.hpp"

namespace microscale {
namespace {

constexpr std::string_view blocks_ending = "_blocks", scales_ending = "_scales";
constexpr std::int64_t block = 32, block_bytes = 16;
constexpr Format format = Format::mxfp4;

class GptOssExperts final : public StoredWeight {
 public:
  // `stored` is [E, N, K] of the blocks: experts, output and input features.
  GptOssExperts(WeightFacts facts, const ModelFolder& model)
      : StoredWeight(std::move(facts)),
        outputs_(this->facts().shape[2]),
        inputs_(this->facts().shape[1]),
        codes_file_(&model.shards[codes().shard].file),
        scales_file_(&model.shards[this->facts().parts[1]->shard].file),
        codes_at_(codes().entry->begin),
        scales_at_(this->facts().parts[1]->entry->begin) {}

  // A run of the dense tensor goes through all output features at one input feature. So the blocks
  // of a patch, all outputs x some inputs, are decoded row by row and put in their places.
  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    const std::int64_t per_expert = inputs_ * outputs_;
    for (std::int64_t at = first, end = first + count; at < end;) {
      const std::int64_t expert = at / per_expert, input = at % per_expert / outputs_;
      const std::int64_t begin = input / block * block;
      const std::int64_t inputs = std::min(chunk, inputs_ - begin);
      const std::int64_t patch = (expert * inputs_ + begin) * outputs_;
      const std::int64_t stop = std::min(end, patch + inputs * outputs_);
      if (Status read = decode_patch(expert, begin, at, stop, out.data() - first * 2); !read) {
        return read;
      }
      at = stop;
    }
    return success();
  }

  // Rows of a slice are output features, which lie block after block in the file.
  Status read_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> out,
                   std::span<std::uint8_t> scratch) const override {
    if (slice.col_step != outputs_ || tile.col % block != 0 || tile.cols % block != 0) {
      return StoredWeight::read_tile(slice, tile, out, scratch);
    }
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const std::int64_t element = slice.element(tile.row + row, tile.col);
      const std::int64_t expert = element / (inputs_ * outputs_);
      const std::int64_t input = element / outputs_ % inputs_, output = element % outputs_;
      std::uint8_t* to = out.data() + row * tile.cols * std::int64_t{sizeof(std::uint16_t)};
      Status read = decode_row(expert * outputs_ + output, input, tile.cols, to);
      if (!read) return read;
    }
    return success();
  }

  std::optional<BlockCoding> coding_of(const MatrixSlice& slice) const override {
    if (slice.col_step != outputs_ || slice.cols != inputs_) return std::nullopt;
    return BlockCoding{.format = format};
  }

  Status read_block_tile(const MatrixSlice& slice, const Tile& tile, std::span<std::uint8_t> codes,
                         std::span<std::uint8_t> scales) const override {
    const auto row_codes = static_cast<std::size_t>(tile.cols / 2);
    const auto row_scales = static_cast<std::size_t>(tile.cols / block);
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      const std::int64_t element = slice.element(tile.row + row, tile.col);
      const std::int64_t stored = element / (inputs_ * outputs_) * outputs_ + element % outputs_;
      const auto at = static_cast<std::size_t>(row);
      Status read = read_row(stored, tile.col, tile.cols, codes.subspan(at * row_codes, row_codes),
                             scales.subspan(at * row_scales, row_scales));
      if (!read) return read;
    }
    return success();
  }

 private:
  static constexpr std::int64_t chunk = 8192;  // elements

  Status read_row(std::int64_t row, std::int64_t input, std::int64_t count,
                  std::span<std::uint8_t> codes, std::span<std::uint8_t> scales) const {
    const auto from = static_cast<std::uint64_t>(row * inputs_ + input);
    if (Status read = codes_file_->read_at(codes_at_ + from / 2, codes); !read) return read;
    return scales_file_->read_at(scales_at_ + from / block,
                                 scales.first(static_cast<std::size_t>(count / block)));
  }

  // Inputs [input, input + count) of a row of the stored matrices, whole blocks, as BF16.
  Status decode_row(std::int64_t row, std::int64_t input, std::int64_t count,
                    std::uint8_t* to) const {
    std::array<std::uint8_t, chunk / 2> codes;
    std::array<std::uint8_t, chunk / block> scales;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min(chunk, count - done);
      const auto some_codes = std::span(codes).first(static_cast<std::size_t>(part / 2));
      const auto some_scales = std::span(scales).first(static_cast<std::size_t>(part / block));
      Status read = read_row(row, input + done, part, some_codes, some_scales);
      if (!read) return read;
      decode_blocks({.format = format}, some_codes, some_scales, DType::bf16, to + done * 2);
      done += part;
    }
    return success();
  }

  // Elements [at, stop) of the dense tensor, all of one expert and of at most `chunk` inputs from
  // `begin` on, to where `tensor` would have them.
  Status decode_patch(std::int64_t expert, std::int64_t begin, std::int64_t at, std::int64_t stop,
                      std::uint8_t* tensor) const {
    const std::int64_t base = (expert * inputs_ + begin) * outputs_;
    const std::int64_t inputs = ceil_div(ceil_div(stop - base, outputs_), block) * block;
    std::array<std::uint16_t, chunk> values;
    for (std::int64_t output = 0; output < outputs_; ++output) {
      // The inputs whose element at this output is wanted.
      const std::int64_t low =
          at - base > output ? ceil_div(at - base - output, outputs_) : std::int64_t{0};
      const std::int64_t high = stop - base > output ? ceil_div(stop - base - output, outputs_) : 0;
      if (low >= high) continue;
      Status read = decode_row(expert * outputs_ + output, begin, inputs,
                               reinterpret_cast<std::uint8_t*>(values.data()));
      if (!read) return read;
      std::uint8_t* to = tensor + (base + low * outputs_ + output) * 2;
      for (std::int64_t input = low; input < high; ++input, to += outputs_ * 2) {
        std::memcpy(to, &values[static_cast<std::size_t>(input)], 2);
      }
    }
    return success();
  }

  std::int64_t outputs_, inputs_;
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
