#include "checkpoint/containers/block_weight.hpp"

#include <algorithm>
#include <cstring>

#include "formats/elements.hpp"
#include "microscale/quantize.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

// Read and decoded at once: small enough for the stack and the cache.
constexpr std::int64_t chunk = std::int64_t{1} << 14;
constexpr std::int64_t smallest_block = 16;
constexpr std::int64_t largest_block = 32;

void decode_dividing(const BlockCoding& coding, std::span<const std::uint8_t> codes,
                     std::span<const std::uint8_t> scales, DType dtype, void* out) {
  const std::int64_t block = info(coding.format).block;
  std::array<float, 256> steps;
  for (std::size_t scale = 0; scale < steps.size(); ++scale) {
    steps[scale] = E4M3::decode(static_cast<std::uint8_t>(scale)) / coding.divisor;
  }
  const auto count = static_cast<std::int64_t>(codes.size()) * 2;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint8_t pair = codes[static_cast<std::size_t>(i / 2)];
    const auto code = static_cast<std::uint8_t>(i % 2 ? pair >> 4 : pair & 15);
    const float step = steps[scales[static_cast<std::size_t>(i / block)]];
    store_dense(E2M1::decode(code) * step, out, dtype, i);
  }
}

// Codes and scales that lie row by row in the files, as compressed-tensors and ModelOpt have them.
class RowBlocks final : public BlockWeight {
 public:
  RowBlocks(WeightFacts facts, const BlockCoding& coding, const ModelFolder& model)
      : BlockWeight(std::move(facts), coding),
        codes_file_(&model.shards[this->facts().parts[0]->shard].file),
        scales_file_(&model.shards[this->facts().parts[1]->shard].file),
        codes_at_(this->facts().parts[0]->entry->begin),
        scales_at_(this->facts().parts[1]->entry->begin) {}

  Status read_blocks(std::int64_t first, std::int64_t count, std::span<std::uint8_t> codes,
                     std::span<std::uint8_t> scales) const override {
    const FormatInfo& format = info(blocks()->format);
    if (!codes.empty()) {
      Status read =
          codes_file_->read_at(codes_at_ + static_cast<std::uint64_t>(code_bytes(format, first)),
                               codes.first(static_cast<std::size_t>(code_bytes(format, count))));
      if (!read) return read;
    }
    return scales_file_->read_at(scales_at_ + static_cast<std::uint64_t>(first / format.block),
                                 scales.first(static_cast<std::size_t>(count / format.block)));
  }

  void will_need(std::int64_t first, std::int64_t count) const override {
    const FormatInfo& format = info(blocks()->format);
    codes_file_->will_need(codes_at_ + static_cast<std::uint64_t>(code_bytes(format, first)),
                           static_cast<std::uint64_t>(code_bytes(format, count)));
  }

 private:
  const InputFile *codes_file_, *scales_file_;
  std::uint64_t codes_at_, scales_at_;
};

}  // namespace

StoredType value_type_of(Format format) {
  return info(format).e8m0_scale ? StoredType::bf16 : StoredType::f32;
}

void decode_blocks(const BlockCoding& coding, std::span<const std::uint8_t> codes,
                   std::span<const std::uint8_t> scales, DType dtype, void* out) {
  if (coding.divisor != 0) return decode_dividing(coding, codes, scales, dtype, out);
  const std::int64_t count = static_cast<std::int64_t>(scales.size()) * info(coding.format).block;
  BlockTensorView view;
  view.shape.rows = 1;
  view.shape.cols = count;
  view.shape.format = coding.format;
  view.codes = codes;
  view.scales = scales;
  view.global_scale = coding.multiplier;
  dequantize(view, {.data = out, .dtype = dtype, .rows = 1, .cols = count, .row_stride = count},
             {.threads = 1});
}

BlockWeight::BlockWeight(WeightFacts facts, const BlockCoding& coding)
    : StoredWeight(std::move(facts)), coding_(coding) {}

Status BlockWeight::decode(std::int64_t first, std::int64_t count,
                           std::span<std::uint8_t> out) const {
  const FormatInfo& format = info(coding_.format);
  const std::int64_t block = format.block, size = value_bytes();
  const DType dtype = size == 2 ? DType::bf16 : DType::f32;
  std::array<std::uint8_t, chunk> codes;
  std::array<std::uint8_t, chunk / smallest_block> scales;
  alignas(float) std::array<std::uint8_t, largest_block * sizeof(float)> cut;
  const auto decode_whole = [&](std::int64_t at, std::int64_t part, void* to) {
    const auto some_codes =
        std::span(codes).first(static_cast<std::size_t>(code_bytes(format, part)));
    const auto some_scales = std::span(scales).first(static_cast<std::size_t>(part / block));
    if (Status read = read_blocks(at, part, some_codes, some_scales); !read) return read;
    decode_blocks(coding_, some_codes, some_scales, dtype, to);
    return success();
  };
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t at = first + done, lead = at % block;
    std::int64_t part = std::min(count - done, chunk);
    std::uint8_t* to = out.data() + done * size;
    if (lead == 0 && part >= block) {
      part -= part % block;
      if (Status decoded = decode_whole(at, part, to); !decoded) return decoded;
    } else {  // the end or the beginning of a block
      part = std::min(part, block - lead);
      if (Status decoded = decode_whole(at - lead, block, cut.data()); !decoded) return decoded;
      std::memcpy(to, cut.data() + lead * size, static_cast<std::size_t>(part * size));
    }
    done += part;
  }
  return success();
}

std::unique_ptr<StoredWeight> weight_of_module(const QuantizedModule& module,
                                               const ModelFolder& model) {
  WeightFacts facts;
  facts.name = module.name + ".weight";
  facts.shape = {module.rows, module.cols};
  facts.type = value_type_of(module.format);
  facts.description = info(module.format).name;
  for (const ModelTensor* part :
       {module.codes, module.scales, module.global_scale, module.input_scale}) {
    if (part) facts.parts.push_back(part);
  }
  return make_row_blocks(
      std::move(facts),
      {module.format, module.multiplier, module.must_divide ? module.stored_global : 0.0f}, model);
}

std::unique_ptr<StoredWeight> make_row_blocks(WeightFacts facts, const BlockCoding& coding,
                                              const ModelFolder& model) {
  return std::make_unique<RowBlocks>(std::move(facts), coding, model);
}

}  // namespace microscale
