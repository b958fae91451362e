// A tensor of a dense model as llama.cpp holds it: rows in the order of its rotary embedding, norms
// with 1 added, in another type. What is quantized goes there tile by tile (gguf_container.hpp).
#pragma once

#include "checkpoint/containers/stored_weight.hpp"
#include "checkpoint/dense_view.hpp"

namespace microscale {

/// What becomes of the values.
struct GgufRelaying {
  std::int64_t head_rows = 0;  // rows of a head that are put in rotary order; 0: they stay
  bool plus_one = false;
  StoredType type = StoredType::f32;  // F32, BF16 or F16, that they are written as

  /// Whether `tensor` lies so already.
  bool leaves(const DenseTensor& tensor) const;
};

class GgufRelaidWeight final : public StoredWeight {
 public:
  /// `base` has elements of F32, BF16 or F16, or is of another container; `part`: the tensor of the
  /// model that it comes from. All that it points to must outlive this.
  GgufRelaidWeight(const DenseTensor& base, const ModelTensor& part, const GgufRelaying& relaying);

  Status decode(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const override;

 private:
  Status decode_run(std::int64_t first, std::int64_t count, std::span<std::uint8_t> out) const;

  DenseTensor base_;
  GgufRelaying relaying_;
};

/// Where row `row` of a tensor goes whose heads have `head_rows` rows: of each, rows of the first
/// half and of the second in turn. The way back of stored_row in gguf_plan.hpp.
inline std::int64_t rotary_row(std::int64_t row, std::int64_t head_rows) {
  if (head_rows == 0) return row;
  const std::int64_t half = head_rows / 2, inside = row % head_rows;
  return row - inside + inside % half * 2 + inside / half;
}

/// Which row of it stands there then.
inline std::int64_t row_in_rotary_order(std::int64_t place, std::int64_t head_rows) {
  if (head_rows == 0) return place;
  const std::int64_t half = head_rows / 2, inside = place % head_rows;
  return place - inside + inside % 2 * half + inside / 2;
}

}  // namespace microscale
