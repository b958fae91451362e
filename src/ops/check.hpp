// Argument checks that several operations share. Each throws Error{invalid_argument}.
#pragma once

#include <cstdint>

#include "microscale/format.hpp"
#include "microscale/numerics.hpp"

namespace microscale {

/// Sizes not negative, a stride that holds a row, data where there are elements.
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
/// The same of `format`; an MX format has none but 1.
void check_global_scale(const char* operation, float scale, const FormatInfo& format);

}  // namespace microscale
