#include "device_array.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "call.hpp"
#include "core/backend_name.hpp"
#include "microscale/cuda.hpp"
#include "microscale/error.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

/// Makes a GPU current for a moment.
class OnGpu {
 public:
  explicit OnGpu(int ordinal) : before_(cuda::current_device()) { cuda::select_device(ordinal); }
  ~OnGpu() { cuda::select_device(before_); }

 private:
  int before_;
};

DlType type_named(const std::string& name) {
  for (const DlType type : {uint8_type, uint16_type, int32_type, int64_type, float32_type,
                            float16_type, bfloat16_type, float8_e4m3_type, float8_e8m0_type})
    if (name_of(type) == name) return type;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("dtype: a DeviceArray of '{}' is not made; choose float32, float16, "
                          "bfloat16, uint8, int32 or int64",
                          name));
}

std::int64_t bytes_of_elements(DlType type, std::span<const std::int64_t> shape) {
  std::int64_t bytes = type.bits * type.lanes / 8;
  if (bytes == 0)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("array: elements of {} are less than a byte; pass bytes", name_of(type)));
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("shape: {} has no size in bytes", shape_text(shape)));
  }
  return bytes;
}

Array take_host(nb::handle object) {
  const Array array = take(object, "array");
  if (!array.on_device() && array.packed()) return array;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("array: the {} must be on the CPU and without gaps; pass "
                          "numpy.ascontiguousarray(x)",
                          describe(array)));
}

void write(DeviceArray& self, const Array& array, void* stream) {
  const OnGpu here(self.ordinal);
  self.buffer.copy_from(std::span(static_cast<const std::uint8_t*>(array.data),
                                  static_cast<std::size_t>(self.buffer.size())),
                        stream);
}

nb::object from_host(nb::handle object, int device) {
  const Array array = take_host(object);
  nb::object made = new_device_array(device, array.type, array.sizes());
  write(*nb::inst_ptr<DeviceArray>(made), array, nullptr);
  return made;
}

void copy_from(DeviceArray& self, nb::handle object, nb::handle stream) {
  const Array array = take_host(object);
  if (array.type != self.type || !std::ranges::equal(array.sizes(), self.shape))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("array: the {} is not of the type {} and the shape {}", describe(array),
                            name_of(self.type), shape_text(self.shape)));
  write(self, array, stream.is_none() ? nullptr : stream_from(stream));
}

nb::object to_host(const DeviceArray& self, nb::handle stream) {
  Array like, made;
  like.framework = Framework::numpy;
  nb::object object = make_array(like, self.type, self.shape, made);
  void* const order = stream.is_none() ? nullptr : stream_from(stream);
  const WithoutGil released;
  const OnGpu here(self.ordinal);
  self.buffer.copy_to(std::span(static_cast<std::uint8_t*>(made.data),
                                static_cast<std::size_t>(self.buffer.size())),
                      order);
  return object;
}

/// The CUDA array, for frameworks to take: no thread waits, and the memory stays as long as they
/// hold it.
nb::object to_dlpack(nb::handle self, nb::kwargs) {
  if (backend_of_environment().starts_with("emulator-"))
    throw Error(
        ErrorCode::unsupported,
        "DeviceArray: the memory of the emulated GPU is not this machine's, so no framework "
        "can take it; use numpy()");
  const DeviceArray& own = *nb::inst_ptr<DeviceArray>(self);
  std::vector<std::size_t> shape(own.shape.begin(), own.shape.end());
  const nb::ndarray<> array(own.buffer.data(), shape.size(), shape.data(), self, nullptr, own.type,
                            dl_cuda, own.ordinal);
  return nb::cast(array);  // of no framework: a capsule
}

}  // namespace

std::int64_t DeviceArray::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

nb::object new_device_array(int ordinal, DlType type, std::span<const std::int64_t> shape) {
  const OnGpu here(ordinal);
  DeviceArray array;
  array.buffer = DeviceBuffer(bytes_of_elements(type, shape));
  array.type = type;
  array.shape.assign(shape.begin(), shape.end());
  array.ordinal = ordinal;
  return nb::cast(std::move(array));
}

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray", nb::is_weak_referenceable(),
                          "Memory of a GPU without PyTorch or CuPy; of the emulated GPU with\n"
                          "MICROSCALE_BACKEND=emulator-sm90. Rows lie side by side. Its memory is "
                          "freed with it: keep it\n"
                          "until the work that uses it is done.")
      .def_static(
          "empty",
          [](nb::handle shape, const std::string& dtype, int device) {
            return new_device_array(device, type_named(dtype), shape_from(shape));
          },
          nb::arg("shape"), nb::arg("dtype") = "uint8", nb::kw_only(), nb::arg("device") = 0,
          nb::sig("def empty(shape: int | Sequence[int], dtype: str = 'uint8', *, device: int = 0) "
                  "-> DeviceArray"),
          "Not initialised. Raises MemoryError, or NotImplementedError where there is no GPU.")
      .def_static("from_host", from_host, nb::arg("array"), nb::kw_only(), nb::arg("device") = 0,
                  nb::sig("def from_host(array: Array, *, device: int = 0) -> DeviceArray"),
                  "A copy of an array of the CPU, in the order of the default stream.")
      .def("numpy", to_host, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::sig("def numpy(self, *, stream: Stream = None) -> Array"),
           "A copy on the CPU. Waits for all work of `stream` (the default one).")
      .def("copy_from", copy_from, nb::arg("array"), nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::sig("def copy_from(self, array: Array, *, stream: Stream = None) -> None"),
           "Writes an array of the CPU, of this one's type and shape, in the order of `stream`.")
      .def(
          "__array__",
          [](const DeviceArray&, nb::args, nb::kwargs) -> nb::object {
            throw nb::type_error("a DeviceArray is memory of a GPU: numpy() copies it");
          },
          nb::sig("def __array__(self, *args: Any, **kwargs: Any) -> Any"))
      .def_prop_ro(
          "shape", [](const DeviceArray& self) { return tuple_of(self.shape); },
          nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")))
      .def_prop_ro(
          "dtype", [](const DeviceArray& self) { return name_of(self.type); },
          "The name of the elements' type.")
      .def_prop_ro("nbytes", [](const DeviceArray& self) { return self.buffer.size(); })
      .def_prop_ro("device",
                   [](const DeviceArray& self) { return fmt::format("cuda:{}", self.ordinal); })
      .def_prop_ro(
          "ptr",
          [](const DeviceArray& self) {
            return reinterpret_cast<std::uintptr_t>(self.buffer.data());
          },
          "The address.")
      .def("__dlpack__", to_dlpack, nb::sig("def __dlpack__(self, **kwargs: Any) -> Any"))
      .def(
          "__dlpack_device__",
          [](const DeviceArray& self) { return nb::make_tuple(dl_cuda, self.ordinal); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__repr__", [](const DeviceArray& self) {
        return fmt::format("DeviceArray({}, dtype='{}', device='cuda:{}')", shape_text(self.shape),
                           name_of(self.type), self.ordinal);
      });
}

}  // namespace microscale::python
