// Grouped quantize: one call quantizes the rows of many experts, all in one matrix. Each expert has
// its own global scale and its own region of block scales.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

enum class OffsetType : std::uint8_t { i32, i64 };  ///< of offsets, and of counts

/// Which rows each expert has, by offsets or by counts; set one of the two. An expert may have no
/// rows, and a row may have no expert.
///
/// offsets: expert e has rows [offsets[e], offsets[e + 1]) of the input. Offsets do not decrease.
/// counts: expert e has the first counts[e] (0 to `capacity`) of the rows [e * capacity,
/// (e + 1) * capacity), all of which are in the input (the masked layout of grouped products).
struct ExpertRows {
  const void* offsets = nullptr;  ///< experts + 1 integers in the memory of the operands;
                                  ///< Backend::cuda reads them when the work runs
  OffsetType type = OffsetType::i32;
  std::int64_t experts = 0;
  const void* counts = nullptr;  ///< `experts` integers, likewise
  std::int64_t capacity = 0;     ///< with counts: rows from expert to expert
};

struct GroupedQuantizeOptions {
  TensorView input;  ///< all experts' rows
  ExpertRows groups;
  Format format = Format::nvfp4;
  Numerics numerics{};
  Layout layout = Layout::row_major;
  GlobalScale global_scale{};     ///< NVFP4: required; on Backend::cuda one per expert
  std::uint64_t first_index = 0;  ///< as in QuantizeOptions, of element (0, 0) of the input
};

/// Returns the bytes of a scale buffer that suffice however `rows` rows are shared among `experts`.
/// row_major: row r's scales lie where those of row r of one matrix would. tiled_128x4: each expert
/// has the scales of a matrix of its rows, padded to a multiple of 128. These regions follow each
/// other; that of expert e begins grouped_scale_offset bytes into the buffer, and an expert without
/// rows has none. With counts, regions lie as if every expert had `capacity` rows.
std::int64_t grouped_scale_bytes(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                 Format format, Layout layout);

/// Returns the first byte of the region of `expert`, or for `expert` = experts the byte after the
/// last region. Offsets must be in host memory; counts are not read. Both throw Error.
std::int64_t grouped_scale_offset(const ExpertRows& groups, std::int64_t expert, std::int64_t cols,
                                  Format format, Layout layout);

/// Quantizes each expert's rows to the bytes of quantize_into. `codes` and `scales` are in the
/// input's memory: codes where those of the whole matrix would lie, scales as grouped_scale_bytes
/// says, the padding of each region zeroed. Nothing else is written: neither rows without an expert
/// nor the rest of the scale buffer. Throws Error.
///
/// Backend::cuda runs one launch without a workspace. It offers rounding to nearest even with
/// ScaleRule::search and the rules of one pass (E8M0: all; NVFP4: nearest). Offsets that decrease
/// or leave the input are an error on the host; on a GPU they give unspecified bytes within the
/// buffers. Counts below 0 or above the capacity are an error on the host; a GPU takes the nearer
/// of the two.
void grouped_quantize_into(const GroupedQuantizeOptions& options, std::span<std::uint8_t> codes,
                           std::span<std::uint8_t> scales, const Context& context = {});

}  // namespace microscale
