// Arrays as the library's views.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "arrays.hpp"
#include "call.hpp"
#include "microscale/grouped.hpp"
#include "microscale/numerics.hpp"
#include "microscale/tensor.hpp"

namespace microscale::python {

/// A matrix whose rows are all lines along the last axis. Error where they are not equally far
/// apart, or the last axis has gaps.
TensorView matrix_of(const Array& array);
MutableTensorView output_matrix_of(const Array& array);
/// One row of `length` numbers (a bias, weights of a norm).
TensorView row_of(const Array& array, std::int64_t length);
/// Packed numbers of one type, `count` of them where that is not negative.
const void* numbers_of(const Array& array, DlType type, std::int64_t count = -1);

/// None: absent. A number, or an array of one FP32 number or, where the call has them, one per
/// expert. On the host an array of one is read now; on a GPU when the work runs.
GlobalScale global_scale_of(nb::handle object, const char* name, const Call& call,
                            std::int64_t experts = 0);

/// A global scale as it is kept: numbers of any kind as Python's floats, arrays as they are.
nb::object plain_scale(nb::handle scale);

/// The experts of `offsets` or `counts` (None: not given) and `capacity`.
ExpertRows expert_rows_of(nb::handle offsets, nb::handle counts, std::int64_t capacity,
                          const Call& call);

Format format_from(std::string_view name);
Layout layout_from(std::string_view name);
std::string_view name_of(Layout layout);

/// Keywords of all that quantizes; None: the format's default.
struct NumericWords {
  nb::handle scale_rule, rounding, compat, nan, inf, zero_code;
  std::uint64_t seed = 0;
};
Numerics numerics_from(const NumericWords& words, Format format);
Compat compat_from(std::string_view name);

/// A tuple of Python integers, or an iterable of them.
std::vector<std::int64_t> shape_from(nb::handle object);
nb::tuple tuple_of(std::span<const std::int64_t> shape);
/// A string of what should be UTF-8; bytes of a broken file or of a path that are none, escaped.
nb::object text_of(std::string_view text);
nb::list texts_of(std::span<const std::string> texts);
/// What the library says, in Python's words.
nb::object sentence_of(std::string_view sentence);
nb::list sentences_of(std::span<const std::string> sentences);

}  // namespace microscale::python
