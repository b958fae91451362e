#include "arrays.hpp"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "device_array.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

struct KnownType {
  PyTypeObject* type = nullptr;  // kept for good, so that no other type takes its address
  Framework framework = Framework::other;
  const ExchangeApi* exchange = nullptr;
};

bool begins_with_module(std::string_view module, std::string_view root) {
  return module == root ||
         (module.substr(0, root.size()) == root && module.substr(root.size(), 1) == ".");
}

/// By the first of the type and its bases that a framework defines.
Framework framework_of(nb::handle type) {
  for (const nb::handle base : nb::tuple(type.attr("__mro__"))) {
    const nb::object module = nb::getattr(base, "__module__", nb::none());
    if (!nb::isinstance<nb::str>(module)) continue;
    const std::string_view name = nb::borrow<nb::str>(module).c_str();
    if (begins_with_module(name, "torch")) return Framework::torch;
    if (begins_with_module(name, "numpy")) return Framework::numpy;
    if (begins_with_module(name, "cupy")) return Framework::cupy;
    if (begins_with_module(name, "jax") || begins_with_module(name, "jaxlib"))
      return Framework::jax;
  }
  return Framework::other;
}

KnownType look_at(PyTypeObject* type) {
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  handle.inc_ref();
  KnownType known{type, Framework::other, nullptr};
  if (handle.is(nb::type<DeviceArray>())) {
    known.framework = Framework::device_array;
    return known;
  }
  known.framework = framework_of(handle);
  const nb::object capsule = nb::getattr(handle, exchange_attribute, nb::none());
  if (PyCapsule_IsValid(capsule.ptr(), exchange_capsule)) {
    const auto* api =
        static_cast<const ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), exchange_capsule));
    while (api && api->version.major != 1) api = api->previous;
    if (api && api->borrow && api->allocate && api->to_object) known.exchange = api;
  }
  return known;
}

/// Under the GIL, which looking at a type may let go of. Types of arrays are few; a flood of them
/// only costs time.
KnownType known_type(PyTypeObject* type) {
  static std::vector<KnownType>* const types = new std::vector<KnownType>;
  for (const KnownType& known : *types)
    if (known.type == type) return known;
  const KnownType found = look_at(type);
  if (types->size() >= 64) types->pop_back();
  types->push_back(found);
  return found;
}

void set_device(Array& array, int type, int ordinal) {
  array.ordinal = ordinal;
  if (type == dl_cpu || type == dl_cuda_host) {
    array.memory = Memory::host;
  } else if (type == dl_cuda || type == dl_cuda_managed) {
    array.memory = Memory::device;
  } else {
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the array is on a device that is neither the CPU nor a CUDA GPU "
                            "(DLPack device type {}); move it to one of these",
                            array.name, type));
  }
}

void set_from(Array& array, const DlTensor& tensor) {
  if (tensor.ndim > max_rank)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: the array has {} axes, at most {} are taken", array.name,
                            tensor.ndim, max_rank));
  array.data = static_cast<std::uint8_t*>(tensor.data) + tensor.byte_offset;
  array.type = tensor.dtype;
  array.rank = tensor.ndim;
  std::int64_t stride = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    array.shape[at] = tensor.shape[i];
    array.strides[at] = tensor.strides ? tensor.strides[i] : stride;
    stride *= tensor.shape[i];
  }
  set_device(array, tensor.device.device_type, tensor.device.device_id);
}

[[noreturn]] void fail_read_only(const char* name) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the array is read-only; pass one that can be written", name));
}

[[noreturn]] void fail_no_array(nb::handle object, const char* name) {
  throw nb::type_error(
      fmt::format("{}: expected an array (numpy, torch, cupy, jax or DeviceArray), got {}", name,
                  nb::type_name(object.type()).c_str())
          .c_str());
}

/// A tensor that its framework does not hand out: of another device, sparse, without memory.
[[noreturn]] void fail_kept(const char* name) {
  const nb::python_error error;
  const std::string why = nb::cast<std::string>(nb::str(error.value()));
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: the framework does not hand the array out: {}", name,
                          why.substr(0, why.find('\n'))));
}

thread_local bool from_dispatcher = false;

/// DLPack does not say that a tensor stands for the negative of what lies in memory, as the
/// imaginary part of a conjugate does. Codes and whole numbers never do.
void require_as_stored(const Array& array, nb::handle object) {
  if (from_dispatcher || array.type.bits < 16 || (array.type.code != 2 && array.type.code != 4))
    return;
  static PyObject* kept = nullptr;
  if (!kept) {
    static PyObject* type = nullptr;
    kept = nb::object(imported(type, "torch", "Tensor").attr("is_neg")).release().ptr();
  }
  if (nb::handle(kept)(object).is(nb::handle(Py_True)))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the tensor has torch's negative bit (it stands for the negative "
                            "of what lies in memory); pass {}.resolve_neg()",
                            array.name, array.name));
}

/// What torch compares when a saved tensor is used in the way back. It passes over tensors made in
/// inference mode, which have no counter.
void bump_version(nb::handle tensor) {
  static PyObject* kept = nullptr;
  imported(kept, "torch._C", "_increment_version")(nb::make_tuple(tensor));
}

/// Of numpy, by the buffer protocol. False: not of a type that has one.
bool take_buffer(Array& array, nb::handle object, Access access) {
  if (access == Access::write) {
    nb::ndarray<> view;
    if (nb::try_cast(object, view, false)) {
      set_from(array, DlTensor{view.data_handle(),
                               {view.device_type(), view.device_id()},
                               static_cast<int>(view.ndim()),
                               view.dtype(),
                               const_cast<std::int64_t*>(view.shape_ptr()),
                               const_cast<std::int64_t*>(view.stride_ptr()),
                               view.byte_offset()});
      return true;
    }
  }
  nb::ndarray<nb::ro> view;
  if (!nb::try_cast(object, view, false)) return false;
  if (access == Access::write) fail_read_only(array.name);
  set_from(array, DlTensor{const_cast<void*>(static_cast<const void*>(view.data_handle())),
                           {view.device_type(), view.device_id()},
                           static_cast<int>(view.ndim()),
                           view.dtype(),
                           const_cast<std::int64_t*>(view.shape_ptr()),
                           const_cast<std::int64_t*>(view.stride_ptr()),
                           view.byte_offset()});
  return true;
}

/// numpy's arrays of ml_dtypes, which nothing exchanges: as integers of their width.
void take_numpy(Array& array, nb::handle object, Access access) {
  if (take_buffer(array, object, access)) return;
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  const std::string name = nb::cast<std::string>(nb::str(nb::getattr(dtype, "name", dtype)));
  const std::pair<const char*, DlType> known[] = {{"bfloat16", bfloat16_type},
                                                  {"float8_e4m3fn", float8_e4m3_type},
                                                  {"float8_e5m2", float8_e5m2_type},
                                                  {"float8_e8m0fnu", float8_e8m0_type}};
  for (const auto& [word, type] : known) {
    if (name != word) continue;
    const nb::object view = object.attr("view")(type.bits == 16 ? "u2" : "u1");
    if (!take_buffer(array, view, access)) break;
    array.type = type;
    return;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: numpy arrays of dtype {} (strides a multiple of the element, native "
                          "byte order) are not taken; convert it, for example by "
                          "numpy.ascontiguousarray(x, dtype=numpy.float32)",
                          array.name, nb::cast<std::string>(nb::str(dtype))));
}

/// By the protocol's methods: CuPy, JAX, and whatever else has them. No thread waits, no stream is
/// made to: the caller's stream is the array's own.
void take_capsule(Array& array, nb::handle object) {
  const nb::tuple device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  const bool host = nb::cast<int>(device[0]) == dl_cpu;
  // JAX's arrays may still be computed: it makes the stream wait, the legacy default one here.
  nb::object capsule = host ? object.attr("__dlpack__")()
                            : object.attr("__dlpack__")(
                                  nb::arg("stream") = array.framework == Framework::jax ? 1 : -1);
  struct Unversioned {
    DlTensor tensor;
    void* context;
    void (*deleter)(Unversioned*);
  };
  const auto* managed =
      static_cast<const Unversioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  set_from(array, managed->tensor);  // the capsule's end lets go of it; the object keeps the data
}

/// PyTorch before 2.10, through a helper in Python.
void take_old_torch(Array& array, nb::handle object) {
  static PyObject* kept = nullptr;
  const nb::handle describe_tensor = imported(kept, "microscale._arrays", "describe_tensor");
  const nb::tuple facts = nb::cast<nb::tuple>(describe_tensor(object));
  const nb::tuple shape = nb::cast<nb::tuple>(facts[1]), strides = nb::cast<nb::tuple>(facts[2]);
  std::array<std::int64_t, 64> sizes{}, steps{};
  for (std::size_t i = 0; i < nb::len(shape) && i < sizes.size(); ++i) {
    sizes[i] = nb::cast<std::int64_t>(shape[i]);
    steps[i] = nb::cast<std::int64_t>(strides[i]);
  }
  set_from(array, DlTensor{reinterpret_cast<void*>(nb::cast<std::uintptr_t>(facts[0])),
                           {nb::cast<int>(facts[6]), nb::cast<int>(facts[7])},
                           static_cast<int>(nb::len(shape)),
                           {nb::cast<std::uint8_t>(facts[3]), nb::cast<std::uint8_t>(facts[4]),
                            nb::cast<std::uint16_t>(facts[5])},
                           sizes.data(),
                           steps.data(),
                           0});
}

void take_device_array(Array& array, nb::handle object) {
  const DeviceArray& own = *nb::inst_ptr<DeviceArray>(object);
  array.data = own.buffer.data();
  array.type = own.type;
  array.rank = static_cast<int>(own.shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = own.shape.size(); i-- > 0; stride *= own.shape[i]) {
    array.shape[i] = own.shape[i];
    array.strides[i] = stride;
  }
  array.memory = Memory::device;
  array.ordinal = own.ordinal;
}

}  // namespace

Array take(nb::handle object, const char* name, Access access) {
  const KnownType known = known_type(Py_TYPE(object.ptr()));
  Array array;
  array.source = object;
  array.name = name;
  array.framework = known.framework;
  if (known.exchange) {
    array.exchange = known.exchange;
    DlTensor tensor;
    if (known.exchange->borrow(object.ptr(), &tensor) != 0) fail_kept(name);
    set_from(array, tensor);
    if (known.framework == Framework::torch) {
      require_as_stored(array, object);
      if (access == Access::write) bump_version(object);
    }
    return array;
  }
  switch (known.framework) {
    case Framework::numpy:
      take_numpy(array, object, access);
      break;
    case Framework::torch:
      take_old_torch(array, object);
      require_as_stored(array, object);
      if (access == Access::write) bump_version(object);
      break;
    case Framework::device_array:
      take_device_array(array, object);
      break;
    case Framework::jax:
      if (access == Access::write) fail_read_only(name);
      if (!nb::hasattr(object, "__dlpack_device__"))
        throw nb::type_error(
            fmt::format("{}: a traced array of JAX has no values; within jax.jit and the like call "
                        "the functions of microscale.jax",
                        name)
                .c_str());
      [[fallthrough]];
    case Framework::cupy:
    case Framework::other:
      if (nb::hasattr(object, "__dlpack__"))
        take_capsule(array, object);
      else if (!take_buffer(array, object, access))
        fail_no_array(object, name);
      break;
  }
  return array;
}

FromDispatcher::FromDispatcher() { from_dispatcher = true; }
FromDispatcher::~FromDispatcher() { from_dispatcher = false; }

void note_write(nb::handle object) {
  if (known_type(Py_TYPE(object.ptr())).framework == Framework::torch) bump_version(object);
}

nb::handle imported(PyObject*& kept, const char* module, const char* name) {
  if (kept == nullptr) kept = nb::object(nb::module_::import_(module).attr(name)).release().ptr();
  return kept;
}

void* current_stream(const Array& array) {
  if (!array.on_device()) return nullptr;
  if (array.exchange && array.exchange->current_stream) {
    void* stream = nullptr;
    if (array.exchange->current_stream(dl_cuda, array.ordinal, &stream) != 0)
      throw nb::python_error();
    return stream;
  }
  if (array.framework != Framework::torch && array.framework != Framework::cupy) return nullptr;
  const nb::object stream =
      nb::module_::import_("microscale._arrays")
          .attr("current_stream")(array.framework == Framework::torch ? "torch" : "cupy",
                                  array.ordinal);
  return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(stream));
}

}  // namespace microscale::python
