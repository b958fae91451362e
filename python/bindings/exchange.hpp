// DLPack's C exchange API, as a tensor type hands it out: type.__dlpack_c_exchange_api__, a capsule
// (PyTorch 2.10 and later). The layout is DLPack 1.3's; only what is called has a type here.
#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>

namespace microscale::python {

namespace nb = nanobind;
using DlTensor = nb::dlpack::dltensor;
using DlType = nb::dlpack::dtype;

inline constexpr int dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_cuda_managed = 13;

struct DlVersion {
  std::uint32_t major, minor;
};

/// A tensor with its owner: `deleter` lets go of it.
struct DlManagedTensor {
  DlVersion version;
  void* context;
  void (*deleter)(DlManagedTensor*);
  std::uint64_t flags;
  DlTensor tensor;
};

struct ExchangeApi {
  DlVersion version;
  const ExchangeApi* previous;
  /// A new tensor of the prototype's type, shape and device, from the framework's allocator and in
  /// the order of its current stream.
  int (*allocate)(DlTensor* prototype, DlManagedTensor** out, void* error_context,
                  void (*set_error)(void*, const char* kind, const char* message));
  int (*from_object)(void* object, DlManagedTensor** out);
  int (*to_object)(DlManagedTensor* tensor, void** object);  // takes the tensor over
  int (*borrow)(void* object, DlTensor* out);  // may be null; valid as long as the object is
  int (*current_stream)(int device_type, std::int32_t device, void** stream);
};

inline constexpr char exchange_attribute[] = "__dlpack_c_exchange_api__";
inline constexpr char exchange_capsule[] = "dlpack_exchange_api";

}  // namespace microscale::python
