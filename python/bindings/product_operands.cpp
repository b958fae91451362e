// Operands and results that all products have.
#include <fmt/format.h>

#include "matmul.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

/// Cuts all rows into `batch` matrices.
std::int64_t rows_of_one(std::int64_t rows, std::int64_t batch, Layout layout, const char* name) {
  if (batch > 0 && layout != Layout::row_major && batch > 1 && rows / batch % 128 != 0)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: tiled scales of {} matrices of {} rows, which is no multiple of "
                            "128; use row_major scales",
                            name, batch, rows / batch));
  return batch > 0 ? rows / batch : rows;
}

OutputOperand blocks_output(const Call& call, std::span<const std::int64_t> shape,
                            std::int64_t batch, const OutputWords& words, std::int64_t experts) {
  OutputOperand made;
  QuantizedOutput output;
  output.memory = call.memory();
  if (words.out_format.is_none()) {  // out is a BlockTensor
    auto& given = nb::cast<BlockTensorObject&>(words.out);
    if (!std::ranges::equal(given.shape, shape) || given.blocks.axis != BlockAxis::cols)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("out: a BlockTensor of shape {} is not what this call writes: shape "
                              "{}, blocks along the last axis",
                              shape_text(given.shape), shape_text(shape)));
    const Array codes = take(given.codes, "out", Access::write);
    const Array scales = take(given.scales, "out", Access::write);
    call.require_here(codes);
    call.require_here(scales);
    output.codes = bytes_of(codes, given.blocks.code_bytes());
    output.scales = bytes_of(scales, given.blocks.scale_bytes());
    output.format = given.blocks.format;
    output.layout = given.blocks.layout;
    if (!words.out_global_scale.is_none()) given.global_scale = nb::borrow(words.out_global_scale);
    if (!given.global_scale.is_none())
      output.global_scale = global_scale_of(given.global_scale, "out", call, experts);
    made.object = nb::borrow(words.out);
  } else {
    const Format format = format_from(word_of(words.out_format, "out_format"));
    const BlockShape blocks =
        block_shape_of(shape, format, -1, layout_from(words.out_layout), "out");
    NewBlocks fresh = make_blocks(call, shape, blocks);
    fresh.tensor.global_scale = nb::borrow(words.out_global_scale);
    output.codes = fresh.codes;
    output.scales = fresh.scales;
    output.format = format;
    output.layout = blocks.layout;
    output.global_scale =
        global_scale_of(words.out_global_scale, "out_global_scale", call, experts);
    made.object = nb::cast(std::move(fresh.tensor));
  }
  std::int64_t rows = 1;
  for (const std::int64_t size : shape.first(shape.size() - 1)) rows *= size;
  rows_of_one(rows, batch, output.layout, "out");
  made.output = output;
  return made;
}

}  // namespace

InputOperand take_input(nb::handle object, const char* name) {
  InputOperand input;
  if (nb::try_cast(object, input.blocks) && input.blocks != nullptr) {
    input.operand = take_blocks(*input.blocks, name);
    input.array = input.operand.codes;
  } else {
    input.array = take(object, name);
  }
  return input;
}

std::span<const std::int64_t> shape_of(const InputOperand& input) {
  return input.blocks ? std::span<const std::int64_t>(input.blocks->shape) : input.array.sizes();
}

MatmulInput matmul_input(InputOperand& input, std::int64_t batch, const Call& call,
                         std::int64_t experts) {
  if (!input.blocks) {
    TensorView view = matrix_of(input.array);
    view.rows = rows_of_one(view.rows, batch, Layout::row_major, input.array.name);
    return view;
  }
  set_global_scale(input.operand, *input.blocks, call, experts);
  BlockTensorView view = input.operand.view;
  view.shape.rows = rows_of_one(view.shape.rows, batch, view.shape.layout, input.array.name);
  return view;
}

OutputOperand make_output(const Call& call, const InputOperand& input,
                          std::span<const std::int64_t> shape, std::int64_t batch,
                          const OutputWords& words, std::int64_t experts) {
  if (!words.out_format.is_none() && !words.out.is_none())
    throw Error(ErrorCode::invalid_argument,
                "out, out_format: give one of the two; a BlockTensor as out has its own format");
  if (!words.out_format.is_none() || nb::isinstance<BlockTensorObject>(words.out))
    return blocks_output(call, shape, batch, words, experts);
  OutputOperand made;
  Array output;
  if (words.out.is_none()) {
    const DType type = !words.out_dtype.is_none() ? dtype_from(words.out_dtype, "out_dtype")
                       : input.blocks             ? DType::bf16
                                                  : dense_type(input.array);
    made.object = call.make(dl_type(type), shape, output);
  } else {
    output = take(words.out, "out", Access::write);
    call.require_here(output);
    if (!std::ranges::equal(output.sizes(), shape))
      throw Error(ErrorCode::invalid_argument, fmt::format("out: the {} must have the shape {}",
                                                           describe(output), shape_text(shape)));
    if (!words.out_dtype.is_none() &&
        dtype_from(words.out_dtype, "out_dtype") != dense_type(output))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("out: the {} is not of out_dtype", describe(output)));
    made.object = nb::borrow(words.out);
  }
  MutableTensorView view = output_matrix_of(output);
  view.rows = batch > 0 ? view.rows / batch : view.rows;
  made.output = view;
  return made;
}

void clear_output(const Call& call, const OutputOperand& output) {
  if (const auto* dense = std::get_if<MutableTensorView>(&output.output)) {
    const std::int64_t bytes = dense->rows * dense->cols * size_of(dense->dtype);
    call.set_zero({static_cast<std::uint8_t*>(dense->data), static_cast<std::size_t>(bytes)});
    return;
  }
  const auto& blocks = std::get<QuantizedOutput>(output.output);
  call.set_zero(blocks.codes);
  call.set_zero(blocks.scales);
}

}  // namespace microscale::python
