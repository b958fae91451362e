// microscale.BlockTensor: codes, scales and global scale, each an array of some framework.
#pragma once

#include <cstdint>
#include <vector>

#include "call.hpp"
#include "operands.hpp"

namespace microscale::python {

struct BlockTensorObject {
  nb::object codes, scales;
  nb::object global_scale;          // None, a float, or an array
  std::vector<std::int64_t> shape;  // of the dense tensor
  BlockShape blocks;                // of the matrix that the library sees

  const char* format_name() const { return info(blocks.format).name.data(); }
};

/// An argument that must be a BlockTensor; TypeError names it otherwise.
BlockTensorObject& block_tensor_of(nb::handle object, const char* name);

/// The block shape of a dense tensor of `shape`, with blocks along `axis` (-1, or -2 of a matrix).
BlockShape block_shape_of(std::span<const std::int64_t> shape, Format format, int axis,
                          Layout layout, const char* name);

/// Shape of the array of codes, and of scales, as they are shown.
std::vector<std::int64_t> shape_of_codes(std::span<const std::int64_t> shape,
                                         const BlockShape& blocks);
std::vector<std::int64_t> shape_of_scales(std::span<const std::int64_t> shape,
                                          const BlockShape& blocks);
/// The type of block scales in an array of `like`'s framework: float8 in PyTorch, else uint8.
DlType type_of_scales(const Array& like, Format format);

/// A block tensor as an argument; what refers to its arrays lives as long as they do.
struct BlockOperand {
  Array codes, scales;
  BlockTensorView view;
};
/// `experts`: how many global scales there may be, beside one.
BlockOperand take_blocks(const BlockTensorObject& tensor, const char* name);
void set_global_scale(BlockOperand& operand, const BlockTensorObject& tensor, const Call& call,
                      std::int64_t experts = 0);

/// A tensor with new, unset arrays.
struct NewBlocks {
  BlockTensorObject tensor;
  std::span<std::uint8_t> codes, scales;
};
NewBlocks make_blocks(const Call& call, std::span<const std::int64_t> shape,
                      const BlockShape& blocks);

void bind_block_tensor(nb::module_& module);

}  // namespace microscale::python
