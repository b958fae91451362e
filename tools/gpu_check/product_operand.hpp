// An operand of the products that gpu_check compares, on the host and on the device.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device_bytes.hpp"
#include "microscale/matmul.hpp"
#include "support/matrices.hpp"
#include "support/random_blocks.hpp"

namespace microscale::cuda {

using test::Matrix;

inline std::vector<std::uint8_t> bytes_of(std::span<const std::uint8_t> bytes) {
  return {bytes.begin(), bytes.end()};
}

inline std::span<std::uint8_t> span_of(const DeviceBytes& bytes) {
  return {bytes.data(), static_cast<std::size_t>(bytes.size())};
}

// Magnitudes of all elements.
inline BlockTensor absolute(BlockTensor tensor) {
  const bool wide = info(tensor.shape().format).code_bits == 8;
  for (std::uint8_t& code : tensor.codes()) code &= wide ? 0x7F : 0x77;
  return tensor;
}
inline Matrix absolute(Matrix m) {
  for (std::int64_t i = 0; i < m.rows * m.cols; ++i)
    m.bytes[static_cast<std::size_t>((i + 1) * size_of(m.dtype) - 1)] &= 0x7F;
  return m;
}

// One operand on the host and on the device.
struct CheckedOperand {
  std::optional<Matrix> dense, dense_magnitude;
  std::optional<BlockTensor> blocks, magnitude;
  std::unique_ptr<DeviceBytes> data, scales, global;

  CheckedOperand(Device& device, Matrix m) : dense(std::move(m)) {
    dense_magnitude = absolute(*dense);
    data = std::make_unique<DeviceBytes>(device, dense->bytes);
  }
  CheckedOperand(Device& device, BlockTensor t) : blocks(std::move(t)) {
    magnitude = absolute(*blocks);
    data = std::make_unique<DeviceBytes>(device, bytes_of(std::as_const(*blocks).codes()));
    scales = std::make_unique<DeviceBytes>(device, bytes_of(std::as_const(*blocks).scales()));
    std::vector<std::uint8_t> one(4);
    std::memcpy(one.data(), &blocks->global_scale, 4);
    global = std::make_unique<DeviceBytes>(device, one);
  }
  MatmulInput host() const {
    if (dense) return dense->view();
    return blocks->view();
  }
  MatmulInput host_magnitude() const {
    if (dense) return dense_magnitude->view();
    return magnitude->view();
  }
  BlockTensorView device_blocks() const {
    BlockTensorView view = blocks->view();
    view.codes = span_of(*data);
    view.scales = span_of(*scales);
    view.memory = Memory::device;
    view.global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(global->data()));
    return view;
  }
  MatmulInput on_device() const {
    if (!dense) return device_blocks();
    TensorView view = dense->view();
    view.data = data->data();
    return microscale::on_device(view);
  }
  std::string name() const {
    return std::string(dense ? to_string(dense->dtype) : info(blocks->shape().format).name);
  }
};

}  // namespace microscale::cuda
