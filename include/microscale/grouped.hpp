// Grouped quantize: the rows of many experts, all in one matrix, in one call, each expert with a
// global scale and a region of block scales of its own.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale {

enum class OffsetType : std::uint8_t { i32, i64 };  ///< of offsets, and of counts

/// Where each expert's rows are, by offsets or by counts: one of the two is given. An expert may be
/// empty; rows that are no expert's are nobody's.
///
/// offsets: expert e has rows [offsets[e], offsets[e + 1]) of the input. Offsets do not decrease.
/// counts: expert e has the first counts[e], 0 to `capacity`, of the rows [e * capacity,
/// (e + 1) * capacity), all of which are in the input (the masked layout of grouped products).
struct ExpertRows {
  const void* offsets = nullptr;  ///< experts + 1 integers; Backend::cuda: device memory, read when
                                  ///< the work runs
  OffsetType type = OffsetType::i32;
  std::int64_t experts = 0;
  const void* counts = nullptr;  ///< `experts` integers, where as for offsets
  std::int64_t capacity = 0;     ///< with counts: rows from expert to expert
};

struct GroupedQuantizeOptions {
  TensorView input;  ///< all experts' rows
  ExpertRows groups;
  Format format = Format::mxfp4;
  Numerics numerics{};
  Layout layout = Layout::row_major;
  const float* global_scales =
      nullptr;                    ///< NVFP4: `experts` decode multipliers; cuda: device memory
  std::uint64_t first_index = 0;  ///< as in QuantizeOptions, of element (0, 0) of the input
};

/// Bytes of the scale buffer that is enough however `rows` rows are shared out among `experts`.
/// row_major: row r's scales lie where those of row r of one matrix would. tiled_128x4: each
/// expert's region is that of a matrix of its rows, padded to a multiple of 128; the regions follow
/// each other, so that of expert e begins grouped_scale_offset bytes into the buffer. An empty
/// expert has none. With counts a region begins where it would if every expert had `capacity` rows,
/// whatever they are.
std::int64_t grouped_scale_bytes(std::int64_t rows, std::int64_t cols, std::int64_t experts,
                                 Format format, Layout layout);

/// First byte of expert `expert`'s region, from offsets in host memory; counts are not read.
/// `experts`: behind the last. Both throw Error.
std::int64_t grouped_scale_offset(const ExpertRows& groups, std::int64_t expert, std::int64_t cols,
                                  Format format, Layout layout);

/// Quantizes each expert's rows as quantize_into would, the same bytes: codes where those of the
/// whole matrix would lie, scales as grouped_scale_bytes says, the padding of each region zeroed.
/// Nothing else is written: not nobody's rows, not what is left of the scale buffer behind a
/// region. Throws Error. Backend::cuda: one launch, no workspace, nothing waited for; offers
/// rounding to nearest even with ScaleRule::search and the rules of one pass (E8M0: all; NVFP4:
/// nearest). Offsets that decrease or leave the input are an error on the host; on the GPU they
/// give unspecified bytes within the buffers. Counts below 0 or above the capacity are an error on
/// the host; the GPU takes the nearer of the two.
void grouped_quantize_into(const GroupedQuantizeOptions& options, std::span<std::uint8_t> codes,
                           std::span<std::uint8_t> scales, const Context& context = {});

}  // namespace microscale
