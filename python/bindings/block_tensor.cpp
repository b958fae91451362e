#include "block_tensor.hpp"

#include <fmt/format.h>

#include "microscale/error.hpp"

namespace microscale::python {

BlockTensorObject& block_tensor_of(nb::handle object, const char* name) {
  if (!nb::isinstance<BlockTensorObject>(object))
    throw nb::type_error(fmt::format("{}: expected a BlockTensor, got {}; quantize(...) makes one",
                                     name, nb::type_name(object.type()).c_str())
                             .c_str());
  return nb::cast<BlockTensorObject&>(object);
}

BlockShape block_shape_of(std::span<const std::int64_t> shape, Format format, int axis,
                          Layout layout, const char* name) {
  if (shape.empty())
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: a tensor without axes has no blocks; pass one axis or more", name));
  const int rank = static_cast<int>(shape.size());
  const bool columns = axis == -2 || (axis >= 0 && axis == rank - 2);
  if (!columns && axis != -1 && axis != rank - 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("axis: {} of a tensor with {} axes; pass -1 (blocks along the last "
                            "axis) or, of a matrix, -2",
                            axis, rank));
  if (columns && rank != 2)
    throw Error(ErrorCode::unsupported,
                fmt::format("axis: blocks down the columns are of matrices; {} has shape {}", name,
                            shape_text(shape)));
  BlockShape blocks;
  blocks.cols = shape.back();
  blocks.rows = 1;
  for (const std::int64_t size : shape.first(shape.size() - 1)) blocks.rows *= size;
  blocks.format = format;
  blocks.axis = columns ? BlockAxis::rows : BlockAxis::cols;
  blocks.layout = layout;
  return blocks;
}

std::vector<std::int64_t> shape_of_codes(std::span<const std::int64_t> shape,
                                         const BlockShape& blocks) {
  if (blocks.axis == BlockAxis::rows) return {blocks.lines(), blocks.code_bytes_per_line()};
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.back() = blocks.code_bytes_per_line();
  return sizes;
}

std::vector<std::int64_t> shape_of_scales(std::span<const std::int64_t> shape,
                                          const BlockShape& blocks) {
  if (blocks.layout != Layout::row_major) return {blocks.scale_bytes()};
  if (blocks.axis == BlockAxis::rows) return {blocks.lines(), blocks.blocks_per_line()};
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  sizes.back() = blocks.blocks_per_line();
  return sizes;
}

DlType type_of_scales(const Array& like, Format format) {
  if (like.framework != Framework::torch) return uint8_type;
  return info(format).e8m0_scale ? float8_e8m0_type : float8_e4m3_type;
}

BlockOperand take_blocks(const BlockTensorObject& tensor, const char* name) {
  BlockOperand operand{take(tensor.codes, name), take(tensor.scales, name), {}};
  operand.view.shape = tensor.blocks;
  operand.view.codes = bytes_of(operand.codes);
  operand.view.scales = bytes_of(operand.scales);
  operand.view.memory = operand.codes.memory;
  return operand;
}

void set_global_scale(BlockOperand& operand, const BlockTensorObject& tensor, const Call& call,
                      std::int64_t experts) {
  call.require_here(operand.codes);
  call.require_here(operand.scales);
  if (!tensor.global_scale.is_none())
    operand.view.global_scale =
        global_scale_of(tensor.global_scale, operand.codes.name, call, experts);
}

NewBlocks make_blocks(const Call& call, std::span<const std::int64_t> shape,
                      const BlockShape& blocks) {
  NewBlocks made;
  Array codes, scales;
  made.tensor.codes = call.make(uint8_type, shape_of_codes(shape, blocks), codes);
  made.tensor.scales = call.make(type_of_scales(call.first(), blocks.format),
                                 shape_of_scales(shape, blocks), scales);
  made.tensor.global_scale = nb::none();
  made.tensor.shape.assign(shape.begin(), shape.end());
  made.tensor.blocks = blocks;
  made.codes = bytes_of(codes);
  made.scales = bytes_of(scales);
  return made;
}

}  // namespace microscale::python
