#include "checkpoint/containers/scaled_weight.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "checkpoint/containers/fp8_decode.hpp"
#include "formats/e8m0.hpp"
#include "formats/half.hpp"
#include "formats/integers.hpp"

namespace microscale {
namespace {

// Codes read at once: small enough for the stack and the cache.
constexpr std::int64_t chunk = std::int64_t{1} << 14;

bool is_e8m0(StoredType type) { return type == StoredType::f8_e8m0 || type == StoredType::u8; }

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

// Some scales of a tensor as floats, read where they are wanted.
class ScaleWindow {
 public:
  ScaleWindow(const InputFile& file, const TensorEntry& entry)
      : file_(file),
        entry_(entry),
        bytes_per_scale_(bits_per_element(entry.type) / 8),
        total_(static_cast<std::int64_t>(entry.bytes()) / bytes_per_scale_) {}

  Status move_to(std::int64_t index) {
    if (index >= first_ && index < first_ + count_) return success();
    first_ = index;
    count_ = std::min<std::int64_t>(total_ - index, static_cast<std::int64_t>(values_.size()));
    const auto bytes = std::span(bytes_).first(static_cast<std::size_t>(count_ * bytes_per_scale_));
    Status read =
        file_.read_at(entry_.begin + static_cast<std::uint64_t>(index * bytes_per_scale_), bytes);
    if (!read) return read;
    for (std::int64_t i = 0; i < count_; ++i) values_[static_cast<std::size_t>(i)] = value(i);
    return success();
  }

  float operator[](std::int64_t index) const {
    return values_[static_cast<std::size_t>(index - first_)];
  }

 private:
  float value(std::int64_t i) const {
    const std::uint8_t* at = bytes_.data() + i * bytes_per_scale_;
    if (bytes_per_scale_ == 1) return decode_e8m0(*at);
    if (bytes_per_scale_ == 4) {
      float value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return entry_.type == StoredType::bf16 ? bf16_to_float(bits) : f16_to_float(bits);
  }

  const InputFile& file_;
  const TensorEntry& entry_;
  std::int64_t bytes_per_scale_, total_, first_ = 0, count_ = 0;
  std::array<std::uint8_t, 4096> bytes_;
  std::array<float, 1024> values_;
};

class ScaledWeight final : public StoredWeight {
 public:
  ScaledWeight(WeightFacts facts, const ScaleGrid& grid, const ModelFolder& model)
      : StoredWeight(std::move(facts)),
        grid_(grid),
        codes_file_(&model.shards[codes().shard].file),
        codes_entry_(codes().entry),
        scales_file_(&model.shards[this->facts().parts[1]->shard].file),
        scales_entry_(this->facts().parts[1]->entry),
        decoder_(fp8_decoders(codes_entry_->type).back()) {}

  Status decode(std::int64_t first, std::int64_t count,
                std::span<std::uint8_t> out) const override {
    if (value_bytes() == 4) return decode_as(first, count, reinterpret_cast<float*>(out.data()));
    return decode_as(first, count, reinterpret_cast<std::uint16_t*>(out.data()));
  }

  const ScaleGrid& grid() const { return grid_; }

  Status read_scales(std::int64_t first, std::span<float> out) const {
    ScaleWindow scales(*scales_file_, *scales_entry_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int64_t at = first + static_cast<std::int64_t>(i);
      if (Status moved = scales.move_to(at); !moved) return moved;
      out[i] = scales[at];
    }
    return success();
  }

  // The code of the largest magnitude of each run has its largest value.
  Result<std::optional<float>> largest(std::int64_t first, std::int64_t count) const {
    float amax = 0;
    bool finite = true;
    Status read = for_each_run(
        first, count, [&](const std::uint8_t* codes, std::int64_t length, float factor) {
          std::uint8_t most = 0;
          for (std::int64_t i = 0; i < length; ++i)
            most = std::max(most, static_cast<std::uint8_t>(codes[i] & 0x7F));
          float value = 0;
          decoder_.to_f32(&most, 1, factor, &value);
          finite &= std::isfinite(value);
          amax = std::max(amax, std::fabs(value));
        });
    if (!read) return read.failure();
    return finite ? std::optional(amax) : std::nullopt;
  }

  void will_need(std::int64_t first, std::int64_t count) const override {
    codes_file_->will_need(codes_entry_->begin + static_cast<std::uint64_t>(first),
                           static_cast<std::uint64_t>(count));
  }

 private:
  void decode_run(const std::uint8_t* from, std::int64_t count, float factor, float* to) const {
    decoder_.to_f32(from, count, factor, to);
  }
  void decode_run(const std::uint8_t* from, std::int64_t count, float factor,
                  std::uint16_t* to) const {
    decoder_.to_bf16(from, count, factor, to);
  }

  // Of the scales at the beginning of `row`, counted through all matrices.
  std::int64_t scale_row(std::int64_t row) const {
    const std::int64_t matrix = grid_.shared ? 0 : row / grid_.rows;
    return (matrix * grid_.grid_rows + row % grid_.rows / grid_.block_rows) * grid_.grid_cols;
  }

  template <class Value>
  Status decode_as(std::int64_t first, std::int64_t count, Value* out) const {
    return for_each_run(first, count,
                        [&](const std::uint8_t* codes, std::int64_t length, float factor) {
                          decode_run(codes, length, factor, out);
                          out += length;
                        });
  }

  // Calls use(codes, how many, scale) for codes [first, first + count) in order, as far as they
  // share a scale.
  template <class Use>
  Status for_each_run(std::int64_t first, std::int64_t count, Use use) const {
    std::array<std::uint8_t, chunk> codes;
    ScaleWindow scales(*scales_file_, *scales_entry_);
    std::int64_t row = first / grid_.cols, col = first % grid_.cols;
    std::int64_t scale = scale_row(row);
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t part = std::min(count - done, chunk);
      Status read =
          codes_file_->read_at(codes_entry_->begin + static_cast<std::uint64_t>(first + done),
                               std::span(codes).first(static_cast<std::size_t>(part)));
      if (!read) return read;
      for (std::int64_t i = 0; i < part;) {
        const std::int64_t block = col / grid_.block_cols;
        const std::int64_t edge = std::min(grid_.cols, (block + 1) * grid_.block_cols);
        const std::int64_t run = std::min(part - i, edge - col);
        if (Status moved = scales.move_to(scale + block); !moved) return moved;
        use(codes.data() + i, run, scales[scale + block]);
        i += run;
        col += run;
        if (col < grid_.cols) continue;
        col = 0;
        scale = scale_row(++row);
      }
      done += part;
    }
    return success();
  }

  ScaleGrid grid_;
  const InputFile* codes_file_;
  const TensorEntry* codes_entry_;
  const InputFile* scales_file_;
  const TensorEntry* scales_entry_;
  DecodeFp8 decoder_;
};

}  // namespace

std::string ScaleGrid::description() const {
  const bool all_rows = block_rows >= rows, all_cols = block_cols >= cols;
  if (all_rows && all_cols) {
    return matrices > 1 && !shared ? "one scale per matrix" : "one scale per tensor";
  }
  if (block_rows == 1 && all_cols) return "one scale per row";
  if (block_cols == 1 && all_rows) return "one scale per column";
  return fmt::format("one scale per {} x {} block", block_rows, block_cols);
}

bool is_scale_type(StoredType type) {
  return type == StoredType::f32 || type == StoredType::bf16 || type == StoredType::f16 ||
         is_e8m0(type);
}

std::optional<ScaleGrid> fit_scale_grid(
    const std::vector<std::int64_t>& weight, const std::vector<std::int64_t>& scales,
    const std::optional<std::pair<std::int64_t, std::int64_t>>& block) {
  ScaleGrid grid;
  const bool stack = weight.size() == 3;
  if (stack) grid.matrices = weight[0];
  grid.rows = weight[weight.size() - 2];
  grid.cols = weight[weight.size() - 1];
  // Scales as [matrices, grid_rows, grid_cols].
  std::vector<std::int64_t> shape = scales;
  if (product(shape) == 1) {
    shape.assign(3, 1);
  } else if (stack) {
    while (shape.size() < 3) shape.push_back(1);
  } else {
    if (shape.size() == 1) shape.push_back(1);
    shape.insert(shape.begin(), 1);
  }
  if (shape.size() != 3 || product(shape) == 0) return std::nullopt;
  grid.shared = shape[0] == 1 && grid.matrices > 1;
  if (shape[0] != grid.matrices && !grid.shared) return std::nullopt;
  grid.grid_rows = shape[1];
  grid.grid_cols = shape[2];
  // The block along one dimension: all of it, one element, what config.json says, 128, or the
  // length that divides it.
  const auto block_of = [](std::int64_t size, std::int64_t count,
                           std::int64_t told) -> std::optional<std::int64_t> {
    if (told > 0 && ceil_div(size, told) == count) return count == 1 ? size : told;
    if (count == 1) return size;
    if (count == size) return 1;
    constexpr std::int64_t usual = 128;
    if (ceil_div(size, usual) == count) return usual;
    if (size % count == 0) return size / count;
    return std::nullopt;
  };
  const auto rows = block_of(grid.rows, grid.grid_rows, block ? block->first : 0);
  const auto cols = block_of(grid.cols, grid.grid_cols, block ? block->second : 0);
  if (!rows || !cols) return std::nullopt;
  grid.block_rows = *rows;
  grid.block_cols = *cols;
  return grid;
}

const ScaleGrid* grid_of(const StoredWeight& weight) {
  const auto* scaled = dynamic_cast<const ScaledWeight*>(&weight);
  return scaled ? &scaled->grid() : nullptr;
}

Status read_scales(const StoredWeight& weight, std::int64_t first, std::span<float> out) {
  return dynamic_cast<const ScaledWeight&>(weight).read_scales(first, out);
}

Result<std::optional<float>> largest_magnitude(const StoredWeight& weight, std::int64_t first,
                                               std::int64_t count) {
  const auto* scaled = dynamic_cast<const ScaledWeight*>(&weight);
  if (!scaled || weight.value_bytes() != sizeof(float)) return std::optional<float>();
  return scaled->largest(first, count);
}

std::unique_ptr<StoredWeight> make_scaled_weight(WeightFacts facts, const ScaleGrid& grid,
                                                 const ModelFolder& model) {
  facts.type = is_e8m0(facts.parts[1]->entry->type) ? StoredType::bf16 : StoredType::f32;
  return std::make_unique<ScaledWeight>(std::move(facts), grid, model);
}

}  // namespace microscale
