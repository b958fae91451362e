// ComfyUI's files: a layer P is marked by "P.comfy_quant", U8 of JSON {"format": "nvfp4"}, or
// listed in the metadata of the file. NVFP4 and MXFP8 have their scales in 128x4 tiles and both
// sides padded; the even element of a byte is its high nibble.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/config_json.hpp"
#include "checkpoint/containers/block_weight.hpp"
#include "checkpoint/containers/containers.hpp"
#include "checkpoint/containers/scaled_weight.hpp"
#include "checkpoint/json.hpp"
#include "formats/integers.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view marker = ".comfy_quant";
constexpr const char* metadata_key = "_quantization_metadata";
constexpr std::uint64_t longest_marker = 4096;  // bytes

// Blocks whose scales lie in tiles; [rows, cols] of [padded rows, padded cols].
class TiledBlocks final : public BlockWeight {
 public:
  TiledBlocks(WeightFacts facts, const BlockCoding& coding, std::int64_t padded_cols,
              const ModelFolder& model)
      : BlockWeight(std::move(facts), coding),
        cols_(this->facts().shape[1]),
        padded_cols_(padded_cols),
        codes_file_(&model.shards[codes().shard].file),
        scales_file_(&model.shards[this->facts().parts[1]->shard].file),
        codes_at_(codes().entry->begin),
        scales_at_(this->facts().parts[1]->entry->begin) {}

  Status read_blocks(std::int64_t first, std::int64_t count, std::span<std::uint8_t> codes,
                     std::span<std::uint8_t> scales) const override {
    const std::int64_t block = info(blocks()->format).block;
    for (std::int64_t done = 0; done < count;) {
      const std::int64_t row = (first + done) / cols_, col = (first + done) % cols_;
      // Part of a row, or rows whose scales lie in the same tiles.
      const bool whole = col == 0 && count - done >= cols_;
      const std::int64_t band = tiled_128x4::tile_lines - row % tiled_128x4::tile_lines;
      const std::int64_t rows = whole ? std::min(band, (count - done) / cols_) : 1;
      const std::int64_t cols = whole ? cols_ : std::min(count - done, cols_ - col);
      if (!codes.empty()) {
        const FormatInfo& format = info(blocks()->format);
        Status read =
            read_codes(row, rows, col, cols,
                       codes.subspan(static_cast<std::size_t>(code_bytes(format, done)),
                                     static_cast<std::size_t>(code_bytes(format, rows * cols))));
        if (!read) return read;
      }
      Status read = read_scales(row, rows, col / block, cols / block,
                                scales.data() + static_cast<std::ptrdiff_t>(done / block));
      if (!read) return read;
      done += rows * cols;
    }
    return success();
  }

  void will_need(std::int64_t first, std::int64_t count) const override {
    const FormatInfo& format = info(blocks()->format);
    codes_file_->will_need(
        codes_at_ + static_cast<std::uint64_t>(code_bytes(format, first / cols_ * padded_cols_)),
        static_cast<std::uint64_t>(code_bytes(format, count / cols_ * padded_cols_)));
  }

 private:
  Status read_codes(std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols,
                    std::span<std::uint8_t> to) const {
    const FormatInfo& format = info(blocks()->format);
    const std::int64_t runs = padded_cols_ == cols ? 1 : rows;
    const std::size_t run = to.size() / static_cast<std::size_t>(runs);
    for (std::int64_t i = 0; i < runs; ++i) {
      const std::int64_t at = (row + i) * padded_cols_ + col;
      Status read =
          codes_file_->read_at(codes_at_ + static_cast<std::uint64_t>(code_bytes(format, at)),
                               to.subspan(static_cast<std::size_t>(i) * run, run));
      if (!read) return read;
    }
    if (format.code_bits == 4) {
      for (std::uint8_t& pair : to) pair = static_cast<std::uint8_t>(pair << 4 | pair >> 4);
    }
    return success();
  }

  // Blocks [from, from + count) of rows that have them in the same tiles: four bytes of each tile
  // are a row's. Tiles are read a stretch at once.
  Status read_scales(std::int64_t row, std::int64_t rows, std::int64_t from, std::int64_t count,
                     std::uint8_t* to) const {
    using namespace tiled_128x4;
    constexpr std::int64_t stretch = 32;  // tiles
    const std::int64_t per_row = padded_cols_ / info(blocks()->format).block;
    std::array<std::uint8_t, stretch * tile_bytes> tiles;
    for (std::int64_t at = from; at < from + count;) {
      const std::int64_t last = std::min(from + count, (at / tile_blocks + stretch) * tile_blocks);
      // The whole tiles: where a row lies in them is no order of rows.
      const std::int64_t first_block = at / tile_blocks * tile_blocks;
      const std::int64_t begin = offset(row / tile_lines * tile_lines, first_block, per_row);
      const std::int64_t size = (last - first_block + tile_blocks - 1) / tile_blocks * tile_bytes;
      Status read = scales_file_->read_at(scales_at_ + static_cast<std::uint64_t>(begin),
                                          std::span(tiles).first(static_cast<std::size_t>(size)));
      if (!read) return read;
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t block = at; block < last; ++block) {
          to[i * count + block - from] =
              tiles[static_cast<std::size_t>(offset(row + i, block, per_row) - begin)];
        }
      }
      at = last;
    }
    return success();
  }

  std::int64_t cols_, padded_cols_;
  const InputFile *codes_file_, *scales_file_;
  std::uint64_t codes_at_, scales_at_;
};

class Finder {
 public:
  explicit Finder(ContainerScan& scan) : scan_(scan) {}

  void run() {
    std::map<std::string, std::string> formats;  // of each layer
    for (const ModelShard& shard : scan_.model().shards) read_metadata(shard, formats);
    for (const ModelTensor& tensor : scan_.model().tensors) {
      if (tensor.name().ends_with(marker)) read_marker(tensor, formats);
    }
    for (const auto& [module, format] : formats) look_at(module, format);
  }

 private:
  // {"layers": {"blocks.0.attn.q": {"format": "nvfp4"}}}
  static void read_metadata(const ModelShard& shard, std::map<std::string, std::string>& formats) {
    for (const auto& [key, text] : shard.header.metadata) {
      if (key != metadata_key) continue;
      const auto tree = parse_json(text);
      if (!tree || !tree.value().is_object()) continue;
      const Json* layers = member(tree.value(), "layers");
      if (!layers || !layers->is_object()) continue;
      for (const auto& [layer, facts] : layers->items()) {
        if (facts.is_object()) formats[layer] = text_member(facts, "format");
      }
    }
  }

  void read_marker(const ModelTensor& tensor, std::map<std::string, std::string>& formats) {
    if (scan_.planned() || !scan_.find(tensor.name())) return;
    const std::string module = tensor.name().substr(0, tensor.name().size() - marker.size());
    std::string text(std::min(tensor.entry->bytes(), longest_marker), '\0');
    auto* bytes = reinterpret_cast<std::uint8_t*>(text.data());
    if (!scan_.file_of(tensor).read_at(tensor.entry->begin, {bytes, text.size()})) text.clear();
    const auto tree = parse_json(text);
    if (!tree || !tree.value().is_object() || text_member(tree.value(), "format").empty()) {
      refuse("unknown-format", tensor, "the marker is no JSON object that names a format",
             parts_of(module));
      return;
    }
    if (const Json* rotated = member(tree.value(), "convrot");
        rotated && !(rotated->is_boolean() && !rotated->get<bool>())) {
      refuse("unknown-format", tensor,
             "its weight was rotated before it was quantized (convrot), which is not undone here",
             parts_of(module));
      return;
    }
    formats[module] = text_member(tree.value(), "format");
  }

  void look_at(const std::string& module, const std::string& format) {
    const std::vector<const ModelTensor*> parts = parts_of(module);
    const ModelTensor* weight = scan_.find(module + ".weight");
    if (!weight) return;  // listed in the metadata of a part of the model, or refused above
    const ModelTensor* scale = scan_.find(module + ".weight_scale");
    if (format != "nvfp4" && format != "mxfp8" && format != "float8_e4m3fn" &&
        format != "float8_e5m2") {
      refuse("unknown-format", *weight,
             fmt::format("its format is {}; known here are nvfp4, mxfp8, float8_e4m3fn and "
                         "float8_e5m2",
                         in_quotes(format)),
             parts);
    } else if (const ModelTensor* smooth = scan_.find(module + ".pre_quant_scale")) {
      refuse("unknown-format", *smooth,
             "inputs are multiplied by it and the weight was divided, which is not undone here",
             parts);
    } else if (!scale) {
      refuse("missing-scale", *weight, "its scales (weight_scale) are missing", parts);
    } else if (format == "nvfp4" || format == "mxfp8") {
      add_blocks(module, format == "nvfp4" ? Format::nvfp4 : Format::mxfp8_e4m3, *weight, *scale,
                 parts);
    } else {
      add_fp8(module, format, *weight, *scale, parts);
    }
  }

  void add_fp8(const std::string& module, const std::string& format, const ModelTensor& weight,
               const ModelTensor& scale, const std::vector<const ModelTensor*>& parts) {
    const TensorEntry& entry = *weight.entry;
    const bool e4m3 = format == "float8_e4m3fn";
    const bool fits = entry.type == (e4m3 ? StoredType::f8_e4m3 : StoredType::f8_e5m2) &&
                      is_scale_type(scale.entry->type) && entry.shape.size() == 2 &&
                      entry.bytes() > 0;
    const auto grid = fits ? fit_scale_grid(entry.shape, scale.entry->shape, {}) : std::nullopt;
    if (!grid) return contradict(weight, scale, format, parts);
    scan_.add(make_scaled_weight(
        {module + ".weight", entry.shape, StoredType::f32,
         fmt::format("ComfyUI's FP8 {}, {}", e4m3 ? "E4M3" : "E5M2", grid->description()), parts},
        *grid, scan_.model()));
  }

  void add_blocks(const std::string& module, Format format, const ModelTensor& weight,
                  const ModelTensor& scale, const std::vector<const ModelTensor*>& parts) {
    const FormatInfo& facts = info(format);
    const TensorEntry& codes = *weight.entry;
    const bool nvfp4 = format == Format::nvfp4;
    if (codes.shape.size() != 2 || codes.bytes() == 0 ||
        codes.type != (nvfp4 ? StoredType::u8 : StoredType::f8_e4m3)) {
      return contradict(weight, scale, std::string(facts.name), parts);
    }
    const std::int64_t rows = codes.shape[0], cols = codes.shape[1] * 8 / facts.code_bits;
    const std::int64_t per_row = cols / facts.block;
    const bool type_fits =
        nvfp4 ? scale.entry->type == StoredType::f8_e4m3 : bits_per_element(scale.entry->type) == 8;
    if (cols % facts.block != 0 || !type_fits ||
        scale.entry->bytes() != static_cast<std::uint64_t>(tiled_128x4::bytes(rows, per_row))) {
      return contradict(weight, scale, std::string(facts.name), parts);
    }
    BlockCoding coding{.format = format};
    if (nvfp4 && !read_multiplier(module, weight, parts, coding.multiplier)) return;
    scan_.add(std::make_unique<TiledBlocks>(WeightFacts{module + ".weight",
                                                        {true_rows(module, rows), cols},
                                                        value_type_of(format),
                                                        fmt::format("ComfyUI's {}", facts.name),
                                                        parts},
                                            coding, cols, scan_.model()));
  }

  bool read_multiplier(const std::string& module, const ModelTensor& weight,
                       const std::vector<const ModelTensor*>& parts, float& multiplier) {
    const ModelTensor* global = scan_.find(module + ".weight_scale_2");
    if (!global || global->entry->type != StoredType::f32 ||
        global->entry->bytes() != sizeof(float)) {
      refuse("missing-global-scale", weight,
             "its scale weight_scale_2 (F32, one number) is missing", parts);
      return false;
    }
    if (scan_.planned()) return true;
    std::array<std::uint8_t, sizeof(float)> bytes{};
    const Status read = scan_.file_of(*global).read_at(global->entry->begin, bytes);
    std::memcpy(&multiplier, bytes.data(), sizeof multiplier);
    if (read && multiplier > 0 && std::isfinite(multiplier)) return true;
    refuse("global-scale-value", *global,
           read ? fmt::format("the scale of the tensor is {}, not a positive number", multiplier)
                : read.failure().message,
           parts);
    return false;
  }

  // Rows are padded to a multiple of 16 or 32; the bias, where there is one, tells how many count.
  std::int64_t true_rows(const std::string& module, std::int64_t rows) const {
    constexpr std::int64_t most_padding = 32;
    const ModelTensor* bias = scan_.find(module + ".bias");
    if (!bias || bias->entry->shape.size() != 1) return rows;
    const std::int64_t told = bias->entry->shape[0];
    return told > 0 && told <= rows && rows - told < most_padding ? told : rows;
  }

  // Codes, scales, and everything else that only such a layer has.
  std::vector<const ModelTensor*> parts_of(const std::string& module) const {
    std::vector<const ModelTensor*> parts;
    for (const std::string_view ending :
         {".weight", ".weight_scale", ".weight_scale_2", ".comfy_quant", ".input_scale"}) {
      const ModelTensor* part = scan_.find(module + std::string(ending));
      if (part) parts.push_back(part);
    }
    return parts;
  }

  void contradict(const ModelTensor& weight, const ModelTensor& scale, const std::string& format,
                  const std::vector<const ModelTensor*>& parts) {
    refuse("wrong-shape", weight,
           fmt::format("it is marked as {}, but {} with scales of {} are no such codes", format,
                       described(*weight.entry), described(*scale.entry)),
           parts);
  }

  void refuse(std::string_view rule, const ModelTensor& at, const std::string& text,
              const std::vector<const ModelTensor*>& parts) {
    scan_.report(rule, at, text + "; download the file again, or take the full-precision model",
                 parts);
  }

  ContainerScan& scan_;
};

}  // namespace

void find_comfyui_weights(ContainerScan& scan) { Finder(scan).run(); }

}  // namespace microscale
