// What the handlers of wmma and their decoder agree on.
#pragma once

#include <cstdint>

#include "emulator/tensor/wmma.hpp"

namespace microscale::emulator {

/// A matrix of a product, or the product, as Op::c holds it.
std::uint32_t pack_wmma(const tensor::WmmaShape& shape,
                        tensor::WmmaMatrix matrix = tensor::WmmaMatrix::d);
tensor::WmmaShape unpack_wmma(std::uint32_t value);

}  // namespace microscale::emulator
