#include "operands.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::python {
namespace {

[[noreturn]] void fail(const Array& array, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", array.name, what));
}

struct Rows {
  std::int64_t rows = 1, cols = 0, stride = 0;
};

Rows rows_of(const Array& array) {
  if (array.rank == 0) fail(array, "the array has no axes; pass one or more");
  Rows found;
  found.cols = array.size(array.rank - 1);
  found.stride = found.cols;
  if (array.elements() == 0) {  // strides mean nothing then
    for (int i = 0; i + 1 < array.rank; ++i) found.rows *= array.size(i);
    return found;
  }
  if (found.cols > 1 && array.stride(array.rank - 1) != 1)
    fail(array, fmt::format("elements of the last axis of the {} are {} apart; pass an array in "
                            "which they lie side by side, for example x.contiguous() or "
                            "numpy.ascontiguousarray(x)",
                            describe(array), array.stride(array.rank - 1)));
  std::int64_t expected = -1;  // of the next axis to the left
  for (int i = array.rank - 2; i >= 0; --i) {
    if (array.size(i) == 1) continue;
    if (expected < 0)
      found.stride = array.stride(i);
    else if (array.stride(i) != expected)
      fail(array, fmt::format("rows of the {} are not equally far apart; pass a contiguous copy",
                              describe(array)));
    expected = array.stride(i) * array.size(i);
    found.rows *= array.size(i);
  }
  if (found.rows <= 1) found.stride = found.cols;
  if (found.stride < found.cols)
    fail(array, fmt::format("rows of the {} are {} elements apart, fewer than they have (an "
                            "expanded or reversed view); pass a contiguous copy",
                            describe(array), found.stride));
  return found;
}

}  // namespace

TensorView matrix_of(const Array& array) {
  const DType type = dense_type(array);
  const Rows rows = rows_of(array);
  return {array.data, type, rows.rows, rows.cols, rows.stride, array.memory};
}

MutableTensorView output_matrix_of(const Array& array) {
  const DType type = dense_type(array);
  const Rows rows = rows_of(array);
  return {array.data, type, rows.rows, rows.cols, rows.stride, array.memory};
}

TensorView row_of(const Array& array, std::int64_t length) {
  const TensorView view = matrix_of(array);
  if (view.rows != 1 || view.cols != length)
    fail(array, fmt::format("the {} must have {} elements in one row", describe(array), length));
  return view;
}

const void* numbers_of(const Array& array, DlType type, std::int64_t count) {
  if (array.type != type || !array.packed())
    fail(array, fmt::format("the {} must be {} without gaps", describe(array), name_of(type)));
  if (count >= 0 && array.elements() != count)
    fail(array, fmt::format("the {} must have {} elements", describe(array), count));
  return array.data;
}

GlobalScale global_scale_of(nb::handle object, const char* name, const Call& call,
                            std::int64_t experts) {
  if (object.is_none()) return {};
  if (nb::isinstance<nb::float_>(object) || nb::isinstance<nb::int_>(object)) {
    if (call.memory() == Memory::device)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: a Python number cannot be read by a GPU; pass a float32 array "
                              "of one element on it",
                              name));
    return GlobalScale(number_of(object, name));
  }
  const Array array = take(object, name);
  call.require_here(array);
  const auto* numbers = static_cast<const float*>(numbers_of(array, float32_type));
  const std::int64_t count = array.elements();
  if (count != 1 && count != experts)
    fail(array, experts == 0
                    ? fmt::format("the {} must have one element", describe(array))
                    : fmt::format("the {} must have one element, or one for each of {} experts",
                                  describe(array), experts));
  if (array.on_device())
    return count == experts ? GlobalScale::per_expert(numbers, Memory::device)
                            : GlobalScale::on_device(numbers);
  return count == 1 ? GlobalScale(*numbers) : GlobalScale::per_expert(numbers);
}

ExpertRows expert_rows_of(nb::handle offsets, nb::handle counts, std::int64_t capacity,
                          const Call& call) {
  if (offsets.is_none() == counts.is_none())
    throw Error(ErrorCode::invalid_argument,
                "offsets, counts: give one of the two, which says which rows each expert has");
  const bool by_offsets = !offsets.is_none();
  const Array array = take(by_offsets ? offsets : counts, by_offsets ? "offsets" : "counts");
  call.require_here(array);
  if (array.rank != 1 || !array.packed() || (array.type != int32_type && array.type != int64_type))
    fail(array,
         fmt::format("the {} must be int32 or int64, of one axis without gaps", describe(array)));
  if (by_offsets && array.size(0) < 1)
    fail(array, "no elements; pass the first row of each expert, and the end of the last");
  ExpertRows rows;
  (by_offsets ? rows.offsets : rows.counts) = array.data;
  rows.type = array.type == int32_type ? OffsetType::i32 : OffsetType::i64;
  rows.experts = array.size(0) - (by_offsets ? 1 : 0);
  rows.capacity = by_offsets ? 0 : capacity;
  return rows;
}

nb::object plain_scale(nb::handle scale) {
  static PyObject* kept = nullptr;
  if (scale.is_none() || PyFloat_CheckExact(scale.ptr())) return nb::borrow(scale);
  const bool number =
      PyFloat_Check(scale.ptr()) || PyLong_Check(scale.ptr()) ||
      PyObject_IsInstance(scale.ptr(), imported(kept, "numpy", "generic").ptr()) == 1;
  if (!number) return nb::borrow(scale);
  const nb::object plain = nb::steal(PyNumber_Float(scale.ptr()));
  if (!plain) throw nb::python_error();
  return plain;
}

std::vector<std::int64_t> shape_from(nb::handle object) {
  const auto size_from = [object](nb::handle size) {
    std::int64_t number = 0;
    if (!nb::try_cast(size, number))
      throw nb::type_error(fmt::format("shape: expected whole numbers, got {}",
                                       nb::cast<std::string>(nb::repr(object)))
                               .c_str());
    return number;
  };
  if (nb::isinstance<nb::int_>(object) || !nb::hasattr(object, "__iter__"))
    return {size_from(object)};
  std::vector<std::int64_t> shape;
  for (const nb::handle size : object) shape.push_back(size_from(size));
  return shape;
}

nb::object text_of(std::string_view text) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

nb::list texts_of(std::span<const std::string> texts) {
  nb::list made;
  for (const std::string& text : texts) made.append(text_of(text));
  return made;
}

nb::object sentence_of(std::string_view sentence) {
  return nb::module_::import_("microscale._spellings").attr("in_python")(text_of(sentence));
}

nb::list sentences_of(std::span<const std::string> sentences) {
  nb::list made;
  for (const std::string& sentence : sentences) made.append(sentence_of(sentence));
  return made;
}

nb::tuple tuple_of(std::span<const std::int64_t> shape) {
  nb::list sizes;
  for (const std::int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

}  // namespace microscale::python
