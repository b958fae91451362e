// New arrays for results, from the allocator of the framework whose array came first.
#include <fmt/format.h>

#include <new>

#include "arrays.hpp"
#include "device_array.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

void set_error(void*, const char* kind, const char* message) {
  const bool memory = std::string_view(kind ? kind : "").find("emory") != std::string_view::npos;
  PyErr_SetString(memory ? PyExc_MemoryError : PyExc_RuntimeError, message ? message : "");
}

nb::object make_exchanged(const Array& like, DlType type, std::span<const std::int64_t> shape,
                          Array& made) {
  DlTensor prototype;
  prototype.device = {like.on_device() ? dl_cuda : dl_cpu, like.on_device() ? like.ordinal : 0};
  prototype.ndim = static_cast<int>(shape.size());
  prototype.dtype = type;
  prototype.shape = const_cast<std::int64_t*>(shape.data());
  DlManagedTensor* tensor = nullptr;
  if (like.exchange->allocate(&prototype, &tensor, nullptr, set_error) != 0) {
    if (!PyErr_Occurred()) throw std::bad_alloc();
    throw nb::python_error();
  }
  made.data = static_cast<std::uint8_t*>(tensor->tensor.data) + tensor->tensor.byte_offset;
  void* object = nullptr;
  if (like.exchange->to_object(tensor, &object) != 0) throw nb::python_error();
  return nb::steal<nb::object>(static_cast<PyObject*>(object));
}

nb::object make_by_helper(const char* helper, const Array& like, DlType type,
                          std::span<const std::int64_t> shape) {
  nb::list sizes;
  for (const std::int64_t size : shape) sizes.append(size);
  return nb::module_::import_("microscale._arrays")
      .attr(helper)(nb::tuple(sizes), name_of(type), like.on_device() ? like.ordinal : -1);
}

struct NumpyType {
  DlType type;
  const char* stored;  // numpy's name of what is taken
  bool viewed;         // as a type of ml_dtypes, where that is
};

NumpyType numpy_type(DlType type) {
  static constexpr NumpyType every[] = {
      {float32_type, "f4", false},    {uint8_type, "u1", false},
      {float16_type, "f2", false},    {int32_type, "i4", false},
      {bfloat16_type, "u2", true},    {float8_e4m3_type, "u1", true},
      {float8_e5m2_type, "u1", true}, {float8_e8m0_type, "u1", true},
      {int64_type, "i8", false},      {uint16_type, "u2", false},
      {{2, 64, 1}, "f8", false},      {{0, 8, 1}, "i1", false},
      {{0, 16, 1}, "i2", false},      {{1, 32, 1}, "u4", false},
      {{1, 64, 1}, "u8", false},      {{5, 64, 1}, "c8", false},
      {{5, 128, 1}, "c16", false},    {{6, 8, 1}, "?", false},
      {{17, 4, 2}, "u1", false}};
  for (const NumpyType& known : every)
    if (known.type == type) return known;
  throw Error(ErrorCode::unsupported,
              fmt::format("result: numpy has no numbers of the type {}", name_of(type)));
}

/// numpy.empty, large arrays at a multiple of 64 bytes: what begins there is written past the
/// cache. ml_dtypes' types as views of the integers that were taken.
nb::object make_numpy(DlType type, std::span<const std::int64_t> shape, Array& made) {
  static PyObject *kept_empty = nullptr, *kept_view_as = nullptr;
  const nb::handle empty = imported(kept_empty, "numpy", "empty");
  const nb::handle view_as = imported(kept_view_as, "microscale._arrays", "view_as");
  const NumpyType kind = numpy_type(type);
  constexpr std::int64_t alignment = 64, large = 64 * 1024;
  std::int64_t bytes = type.bits / 8 * type.lanes;
  nb::list sizes;
  for (const std::int64_t size : shape) {
    sizes.append(size);
    bytes *= size;
  }
  nb::object object;
  if (bytes < large) {
    object = empty(nb::tuple(sizes), kind.stored);
  } else {
    object = empty(bytes + alignment, "u1");
    const auto at = reinterpret_cast<std::uintptr_t>(take(object, made.name, Access::write).data);
    const auto first = static_cast<std::int64_t>(-at % alignment);
    object = object[nb::slice(nb::int_(first), nb::int_(first + bytes), nb::none())];
    object = object.attr("view")(kind.stored).attr("reshape")(nb::tuple(sizes));
  }
  made.data = take(object, made.name, Access::write).data;
  return kind.viewed ? nb::object(view_as(object, name_of(type))) : object;
}

}  // namespace

nb::object make_array(const Array& like, DlType type, std::span<const std::int64_t> shape,
                      Array& made) {
  made = Array{};
  made.name = "result";
  made.type = type;
  made.rank = static_cast<int>(shape.size());
  made.framework = like.framework;
  made.exchange = like.exchange;
  made.memory = like.memory;
  made.ordinal = like.ordinal;
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
    made.shape[i] = shape[i];
    made.strides[i] = stride;
  }
  nb::object object;
  if (like.exchange) {
    object = make_exchanged(like, type, shape, made);
  } else if (like.framework == Framework::torch || like.framework == Framework::cupy) {
    object = make_by_helper(like.framework == Framework::torch ? "empty_tensor" : "empty_cupy",
                            like, type, shape);
    made.data = take(object, made.name, Access::write).data;
  } else if (like.on_device()) {
    object = new_device_array(like.ordinal, type, shape);
    made.data = nb::inst_ptr<DeviceArray>(object)->buffer.data();
    made.framework = Framework::device_array;
  } else {
    object = make_numpy(type, shape, made);
    made.framework = Framework::numpy;
  }
  made.source = object;
  return object;
}

nb::object make_bytes(const Array& like, std::int64_t bytes, Array& made) {
  constexpr std::int64_t alignment = 64;
  const std::int64_t exact[] = {bytes};
  nb::object object = make_array(like, uint8_type, exact, made);
  const auto over = [&] {
    return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(made.data) % alignment);
  };
  if (over() == 0) return object;
  const std::int64_t more[] = {bytes + alignment};
  object = make_array(like, uint8_type, more, made);
  const std::int64_t first = over() == 0 ? 0 : alignment - over();
  const nb::object part = object[nb::slice(nb::int_(first), nb::int_(first + bytes), nb::none())];
  made = take(part, "result", Access::write);
  return part;
}

}  // namespace microscale::python
