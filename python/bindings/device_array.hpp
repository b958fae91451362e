// DeviceArray: a GPU's memory for who has neither PyTorch nor CuPy, and on the emulated GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "microscale/device_buffer.hpp"

namespace microscale::python {

struct DeviceArray {
  DeviceBuffer buffer;
  DlType type{};
  std::vector<std::int64_t> shape;
  int ordinal = 0;

  std::int64_t elements() const;
};

/// A new one on GPU `ordinal`.
nb::object new_device_array(int ordinal, DlType type, std::span<const std::int64_t> shape);

void bind_device_array(nb::module_& module);

}  // namespace microscale::python
