// Arrays of any framework as the bindings see them: what an argument says of itself, and new arrays
// for results. Nothing here copies data or waits for a GPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "exchange.hpp"
#include "microscale/format.hpp"
#include "microscale/memory.hpp"

namespace microscale::python {

enum class Framework : std::uint8_t { numpy, torch, cupy, jax, device_array, other };

inline constexpr int max_rank = 8;

// DLPack's codes of the types that mean something here.
inline constexpr DlType uint8_type{1, 8, 1}, uint16_type{1, 16, 1}, int32_type{0, 32, 1},
    int64_type{0, 64, 1}, float32_type{2, 32, 1}, float16_type{2, 16, 1}, bfloat16_type{4, 16, 1},
    float8_e4m3_type{10, 8, 1}, float8_e5m2_type{12, 8, 1}, float8_e8m0_type{14, 8, 1};

/// An argument. Valid as long as the Python object is.
struct Array {
  nb::handle source;
  const char* name = "";  // of the argument, for messages
  void* data = nullptr;
  DlType type{};
  int rank = 0;
  std::array<std::int64_t, max_rank> shape{}, strides{};  // strides in elements
  int ordinal = 0;                                        // of the GPU, with Memory::device
  Memory memory = Memory::host;
  Framework framework = Framework::other;
  const ExchangeApi* exchange = nullptr;

  std::int64_t size(int axis) const { return shape[static_cast<std::size_t>(axis)]; }
  std::int64_t stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }
  std::span<const std::int64_t> sizes() const { return {shape.data(), std::size_t(rank)}; }
  std::int64_t elements() const;
  /// Whether elements lie in row-major order without gaps.
  bool packed() const;
  bool on_device() const { return memory == Memory::device; }
};

enum class Access : std::uint8_t { read, write };

/// Throws TypeError for what is no array, Error for one that cannot be used: of another device than
/// host or CUDA, of more than max_rank axes, read-only where it is written, of torch with the
/// negative bit. torch's autograd is told of what is written.
Array take(nb::handle object, const char* name, Access access = Access::read);
/// While it lives, this thread's tensors come from torch's dispatcher, which has resolved negative
/// bits: take() need not ask.
class FromDispatcher {
 public:
  FromDispatcher();
  ~FromDispatcher();
  FromDispatcher(const FromDispatcher&) = delete;
  FromDispatcher& operator=(const FromDispatcher&) = delete;
};
/// Tells torch's autograd that a tensor's values change, as its own operations in place do. Nothing
/// for None and arrays of other frameworks.
void note_write(nb::handle object);

/// "float32 array of shape (4, 8)": for messages.
std::string describe(const Array& array);
std::string shape_text(std::span<const std::int64_t> shape);
std::string name_of(DlType type);

/// FP32, BF16 or FP16; Error names the argument for another.
DType dense_type(const Array& array);
DlType dl_type(DType type);
/// A dtype given as a string ("bf16", "bfloat16"), or as a framework's: torch.bfloat16,
/// numpy.float32.
DType dtype_from(nb::handle object, const char* name);

/// The bytes of an array whose elements are one byte (codes, scales), or two FP4 codes. It must be
/// packed, and hold `bytes` bytes where that is not negative.
std::span<std::uint8_t> bytes_of(const Array& array, std::int64_t bytes = -1);

/// A new, packed array on the device of `like`, from the allocator of its framework; what it holds
/// is not defined. `made` says where. Numbers that numpy has no type for are uint16 or uint8 there
/// unless ml_dtypes is installed.
nb::object make_array(const Array& like, DlType type, std::span<const std::int64_t> shape,
                      Array& made);
/// The same of bytes, at a multiple of 64.
nb::object make_bytes(const Array& like, std::int64_t bytes, Array& made);

/// An attribute of a module, imported once; `kept` is a static of the caller, null at first. Not a
/// static's initializer: an import lets go of the GIL, and a thread that has it waits for the
/// static.
nb::handle imported(PyObject*& kept, const char* module, const char* name);

/// The stream on which the array's framework works now; null: the default one, or no GPU.
void* current_stream(const Array& array);

}  // namespace microscale::python
