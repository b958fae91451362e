#include "quantize.hpp"

#include <fmt/format.h>
#include <nanobind/stl/optional.h>

#include "keywords.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale::python {
namespace {

struct QuantizeWords {
  nb::handle scale, amax, weights;
  bool pad = false, refuse_non_finite = false;
  std::uint64_t first_index = 0;
};

/// Options of quantize and quantize_both; `weights` must outlive them.
QuantizeOptions options_of(const Array& x, Format format, const Numerics& numerics,
                           const QuantizeWords& words, const Call& call) {
  QuantizeOptions options;
  options.input = matrix_of(x);
  options.format = format;
  options.numerics = numerics;
  options.padding = words.pad ? Padding::zero : Padding::refuse;
  options.non_finite = words.refuse_non_finite ? NonFinite::refuse : NonFinite::encode;
  options.global_scale = global_scale_of(words.scale, "global_scale", call);
  if (!words.amax.is_none()) options.tensor_amax = number_of(words.amax, "tensor_amax");
  if (options.tensor_amax && call.memory() == Memory::device && format == Format::nvfp4)
    throw Error(
        ErrorCode::invalid_argument,
        "tensor_amax: a Python number cannot be read by a GPU; pass global_scale, a float32 "
        "array of one element on it, which nvfp4_global_scale(amax) computes");
  options.first_index = words.first_index;
  if (!words.weights.is_none()) {
    const Array weights = take(words.weights, "weights");
    call.require_here(weights);
    options.weights = {static_cast<const float*>(numbers_of(weights, float32_type)),
                       static_cast<std::size_t>(weights.elements())};
  }
  return options;
}

/// The global scale that a call gave or is to compute, as a Python object; on a GPU new memory that
/// the call writes to.
nb::object scale_before(const Call& call, nb::handle given, QuantizeOptions& options) {
  if (options.format != Format::nvfp4) return nb::none();
  if (!given.is_none()) return plain_scale(given);
  if (call.memory() == Memory::host || options.tensor_amax) return nb::none();  // known afterwards
  Array made;
  const std::int64_t one[] = {1};
  nb::object object = call.make(float32_type, one, made);
  options.computed_global_scale = static_cast<float*>(made.data);
  return object;
}

nb::object scale_after(nb::object before, const QuantizeOptions& options,
                       const GlobalScale& result) {
  if (options.format != Format::nvfp4 || !before.is_none()) return before;
  return nb::float_(double(result.value()));
}

void require_same(const BlockTensorObject& out, std::span<const std::int64_t> shape,
                  const BlockShape& blocks) {
  if (out.blocks == blocks && std::ranges::equal(out.shape, shape)) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("out: a BlockTensor of shape {} in {} ({}) is not what this call writes: "
                          "{} in {} ({}), with the same axis",
                          shape_text(out.shape), out.format_name(), name_of(out.blocks.layout),
                          shape_text(shape), info(blocks.format).name, name_of(blocks.layout)));
}

NewBlocks blocks_for(const Call& call, nb::handle out, std::span<const std::int64_t> shape,
                     const BlockShape& blocks) {
  if (out.is_none()) return make_blocks(call, shape, blocks);
  const BlockTensorObject& given = block_tensor_of(out, "out");
  require_same(given, shape, blocks);
  NewBlocks written;
  written.tensor = given;
  const Array codes = take(given.codes, "out", Access::write);
  const Array scales = take(given.scales, "out", Access::write);
  call.require_here(codes);
  call.require_here(scales);
  written.codes = bytes_of(codes, blocks.code_bytes());
  written.scales = bytes_of(scales, blocks.scale_bytes());
  return written;
}

nb::object quantize_array(nb::handle x, const std::string& format_name, int axis,
                          const std::string& layout, const NumericWords& numeric,
                          const QuantizeWords& words, nb::handle out, const RunWords& run) {
  const Array input = take(x, "x");
  Call call(input, run);
  const Format format = format_from(format_name);
  const BlockShape blocks = block_shape_of(input.sizes(), format, axis, layout_from(layout), "x");
  QuantizeOptions options = options_of(input, format, numerics_from(numeric, format), words, call);
  options.axis = blocks.axis;
  options.layout = blocks.layout;
  NewBlocks made = blocks_for(call, out, input.sizes(), blocks);
  const nb::object before = scale_before(call, words.scale, options);
  const GlobalScale scale = call.run([&](const Context& context) {
    return quantize_into(options, made.codes, made.scales, context);
  });
  made.tensor.global_scale = scale_after(before, options, scale);
  if (out.is_none()) return nb::cast(std::move(made.tensor));
  nb::cast<BlockTensorObject&>(out).global_scale = made.tensor.global_scale;
  return nb::borrow(out);
}

nb::object quantize_both_arrays(nb::handle x, const std::string& format_name,
                                const std::string& layout, const NumericWords& numeric,
                                const QuantizeWords& words, const RunWords& run) {
  const Array input = take(x, "x");
  Call call(input, run);
  const Format format = format_from(format_name);
  const BlockShape along = block_shape_of(input.sizes(), format, -1, layout_from(layout), "x");
  const BlockShape down = block_shape_of(input.sizes(), format, -2, layout_from(layout), "x");
  QuantizeOptions options = options_of(input, format, numerics_from(numeric, format), words, call);
  options.layout = along.layout;
  NewBlocks rows = make_blocks(call, input.sizes(), along);
  NewBlocks columns = make_blocks(call, input.sizes(), down);
  const nb::object before = scale_before(call, words.scale, options);
  const GlobalScale scale = call.run([&](const Context& context) {
    return quantize_both_into(options, rows.codes, rows.scales, columns.codes, columns.scales,
                              context);
  });
  rows.tensor.global_scale = columns.tensor.global_scale = scale_after(before, options, scale);
  return nb::make_tuple(nb::cast(std::move(rows.tensor)), nb::cast(std::move(columns.tensor)));
}

}  // namespace

nb::object dequantized(const BlockTensorObject& tensor, nb::handle dtype, nb::handle out,
                       const RunWords& words) {
  BlockOperand input = take_blocks(tensor, "t");
  Call call(input.codes, words);
  set_global_scale(input, tensor, call);
  Array output;
  nb::object result;
  if (out.is_none()) {
    const DType type = !dtype.is_none()                ? dtype_from(dtype, "dtype")
                       : call.memory() == Memory::host ? DType::f32
                                                       : DType::bf16;
    result = call.make(dl_type(type), tensor.shape, output);
  } else {
    output = take(out, "out", Access::write);
    call.require_here(output);
    if (!std::ranges::equal(output.sizes(), tensor.shape))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("out: the {} must have the shape {}", describe(output),
                              shape_text(tensor.shape)));
    if (!dtype.is_none() && dtype_from(dtype, "dtype") != dense_type(output))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("out: the {} is not of the dtype asked for", describe(output)));
    result = nb::borrow(out);
  }
  const MutableTensorView view = output_matrix_of(output);
  call.run([&](const Context& context) { dequantize(input.view, view, context); });
  return result;
}

void bind_quantize(nb::module_& module) {
  module.def(
      "quantize",
      [](nb::handle x, const std::string& format, int axis, const std::string& layout,
         NUMERIC_PARAMETERS, nb::handle global_scale, nb::handle tensor_amax, nb::handle weights,
         bool pad, bool refuse_non_finite, std::uint64_t first_index, nb::handle out,
         RUN_PARAMETERS) {
        return quantize_array(
            x, format, axis, layout, NUMERIC_WORDS,
            {global_scale, tensor_amax, weights, pad, refuse_non_finite, first_index}, out,
            RUN_WORDS);
      },
      nb::arg("x").none(), nb::arg("format") = "nvfp4", nb::kw_only(), nb::arg("axis") = -1,
      nb::arg("layout") = "row_major", NUMERIC_ARGUMENTS, nb::arg("global_scale") = nb::none(),
      nb::arg("tensor_amax") = nb::none(), nb::arg("weights") = nb::none(), nb::arg("pad") = false,
      nb::arg("refuse_non_finite") = false, nb::arg("first_index") = 0, nb::arg("out") = nb::none(),
      RUN_ARGUMENTS,
      nb::sig("def quantize(x: Array, format: str = 'nvfp4', *, axis: int = -1, layout: str = "
              "'row_major', " NUMERIC_SIGNATURE
              "global_scale: float | Array | None = None, tensor_amax: float | None = None, "
              "weights: Array | None = None, pad: bool = False, refuse_non_finite: bool = False, "
              "first_index: int = 0, out: BlockTensor | None = None, " RUN_SIGNATURE
              ") -> BlockTensor"),
      "Quantizes an array: float32, bfloat16 or float16, of any number of axes.\n\n"
      "format: nvfp4, mxfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp6_e2m3, mxfp6_e3m2, mxint8. Blocks of 16\n"
      "(nvfp4) or 32 elements lie along the last axis; axis=-2 lays them down the columns of a\n"
      "matrix. The axis must be a multiple of the block, unless pad=True fills up with zeros.\n"
      "global_scale: NVFP4's decode multiplier; computed from the array, or from tensor_amax, if\n"
      "left out. weights: float32, importance of each position along the axis, for rules that\n"
      "search. layout: of the scales, 'row_major' or 'tiled_128x4'. The other keywords are those "
      "of\n"
      "docs/formats/numerics.md. out: a BlockTensor of an earlier call with the same shape, to be\n"
      "written again.\n\n"
      "The result's arrays are of the framework and on the device of x, and on a GPU the call\n"
      "returns before the work is done. Raises ValueError for what does not fit, and, with\n"
      "refuse_non_finite, for NaN and infinity; NotImplementedError for what the backend has not.");

  module.def(
      "quantize_both",
      [](nb::handle x, const std::string& format, const std::string& layout, NUMERIC_PARAMETERS,
         nb::handle global_scale, nb::handle tensor_amax, bool pad, bool refuse_non_finite,
         std::uint64_t first_index, RUN_PARAMETERS) {
        return quantize_both_arrays(
            x, format, layout, NUMERIC_WORDS,
            {global_scale, tensor_amax, nb::none(), pad, refuse_non_finite, first_index},
            RUN_WORDS);
      },
      nb::arg("x").none(), nb::arg("format") = "nvfp4", nb::kw_only(),
      nb::arg("layout") = "row_major", NUMERIC_ARGUMENTS, nb::arg("global_scale") = nb::none(),
      nb::arg("tensor_amax") = nb::none(), nb::arg("pad") = false,
      nb::arg("refuse_non_finite") = false, nb::arg("first_index") = 0, RUN_ARGUMENTS,
      nb::sig("def quantize_both(x: Array, format: str = 'nvfp4', *, layout: str = "
              "'row_major', " NUMERIC_SIGNATURE
              "global_scale: float | Array | None = None, tensor_amax: float | None = None, pad: "
              "bool = False, refuse_non_finite: bool = False, first_index: int = 0, " RUN_SIGNATURE
              ") -> tuple[BlockTensor, BlockTensor]"),
      "Quantizes a matrix along both axes, as training needs: blocks along the rows, and blocks\n"
      "down the columns, with one NVFP4 global scale. The same bytes as two calls of quantize.");

  module.def(
      "dequantize",
      [](nb::handle t, nb::handle dtype, nb::handle out, RUN_PARAMETERS) {
        return dequantized(block_tensor_of(t, "t"), dtype, out, RUN_WORDS);
      },
      nb::arg("t").none(), nb::arg("dtype") = nb::none(), nb::kw_only(),
      nb::arg("out") = nb::none(), RUN_ARGUMENTS,
      nb::sig("def dequantize(t: BlockTensor, dtype: DTypeLike = None, *, out: Array | None = "
              "None, " RUN_SIGNATURE ") -> Array"),
      "The values of a block tensor, rounded to nearest even.\n\n"
      "dtype: 'f32', 'bf16', 'f16' or a framework's type; float32 on the CPU and bfloat16 on a "
      "GPU\n"
      "if left out. out: an array of t's shape to write to.");
}

}  // namespace microscale::python
