// Argument checks that several operations share. Each throws Error{invalid_argument}.
#pragma once

#include <array>
#include <cstdint>

#include "microscale/format.hpp"
#include "microscale/global_scale.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// "operation: name", what messages begin with: without memory of its own, as most calls are right.
class Place {
 public:
  Place(const char* operation, const char* name);
  const char* c_str() const { return text_.data(); }

 private:
  std::array<char, 128> text_;  // longer ones are cut
};

/// The view with the stride that 0 stands for: rows side by side.
template <class View>
View with_row_stride(View view) {
  if (view.row_stride == 0) view.row_stride = view.cols;
  return view;
}

/// Sizes not negative, a stride that holds a row or is 0, data where there are elements.
void check_view(const char* operation, const void* data, std::int64_t rows, std::int64_t cols,
                std::int64_t row_stride);

/// One of those that there are: any number can be made a DType.
void check_dtype(const char* operation, DType type);

/// As above, of a TensorView or MutableTensorView, and its type.
template <class View>
void check_view(const char* operation, const View& view) {
  check_dtype(operation, view.dtype);
  check_view(operation, view.data, view.rows, view.cols, view.row_stride);
}

/// A scale rule that `format` has, and enumerators everywhere else.
void check_numerics(const char* operation, const Numerics& numerics, Format format);

/// `data`, an array of numbers called `what`, at a multiple of `bytes`; null is aligned.
void check_aligned(const char* operation, const char* what, const void* data, std::int64_t bytes);

/// `got` bytes where `wanted` are needed, for the buffer called `what`; `see` says how many.
void check_bytes(const char* operation, const char* what, std::int64_t got, std::int64_t wanted,
                 const char* see = "BlockShape");

/// Finite, positive and normal.
void check_global_scale(const char* operation, float scale);
/// A global scale that a call reads: given, where the call runs, and one per expert only where the
/// call has `experts` of them.
void check_global_scale_place(const char* operation, const GlobalScale& scale, bool on_device,
                              std::int64_t experts = 0);
/// As above, and numbers on the host are finite, positive and normal.
void check_global_scale(const char* operation, const GlobalScale& scale, bool on_device,
                        std::int64_t experts = 0);
/// Of a call with an MX format, which has none: absent, or 1, or in device memory (not read).
void check_no_global_scale(const char* operation, const GlobalScale& scale,
                           const FormatInfo& format);

}  // namespace microscale
