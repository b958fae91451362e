// The largest magnitude, global scales, layouts of scales, and containers of codes.
#include <fmt/format.h>

#include "keywords.hpp"
#include "microscale/container.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "quantize.hpp"

namespace microscale::python {
namespace {

nb::object repacked(const BlockTensorObject& tensor, const std::string& layout,
                    const RunWords& run) {
  BlockOperand input = take_blocks(tensor, "t");
  Call call(input.codes, run);
  set_global_scale(input, tensor, call);
  BlockTensorObject result = tensor;
  result.blocks.layout = layout_from(layout);
  Array scales;
  result.scales = call.make(type_of_scales(call.first(), tensor.blocks.format),
                            shape_of_scales(tensor.shape, result.blocks), scales);
  const std::span<std::uint8_t> bytes = bytes_of(scales);
  call.run([&](const Context& context) {
    repack_scales(input.view, result.blocks.layout, bytes, context);
  });
  return nb::cast(std::move(result));
}

nb::object containers(nb::handle codes, nb::handle out, bool to, const RunWords& run) {
  const Array input = take(codes, "codes");
  Call call(input, run);
  const std::span<std::uint8_t> bytes = bytes_of(input);
  std::vector<std::int64_t> shape(input.sizes().begin(), input.sizes().end());
  if (shape.empty() || (!to && shape.back() % 2 != 0))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("codes: the {} must have a last axis{}", describe(input),
                            to ? "" : " of an even number of containers"));
  shape.back() = to ? shape.back() * 2 : shape.back() / 2;
  Array output;
  nb::object result;
  if (out.is_none()) {
    result = call.make(uint8_type, shape, output);
  } else {
    output = take(out, "out", Access::write);
    call.require_here(output);
    result = nb::borrow(out);
  }
  const auto count = static_cast<std::int64_t>(to ? bytes.size() * 2 : bytes.size() / 2);
  const ContainerOptions options{bytes, bytes_of(output, count), call.memory()};
  call.run([&](const Context& context) {
    to ? repack_to_containers(options, context) : repack_from_containers(options, context);
  });
  return result;
}

}  // namespace

void bind_scales(nb::module_& module) {
  module.def(
      "abs_max",
      [](nb::handle x, RUN_PARAMETERS) {
        const Array input = take(x, "x");
        Call call(input, RUN_WORDS);
        const TensorView view = matrix_of(input);
        return call.run([&](const Context& context) { return abs_max(view, context).amax; });
      },
      nb::arg("x").none(), nb::kw_only(), RUN_ARGUMENTS,
      nb::sig("def abs_max(x: Array, *, " RUN_SIGNATURE ") -> float"),
      "The largest magnitude of an array on the CPU; NaN is ignored. On a GPU, where it would "
      "have\n"
      "to wait, it raises NotImplementedError.");
  module.def(
      "nvfp4_global_scale",
      [](float amax, nb::handle compat) {
        return compat.is_none() ? nvfp4_global_scale(amax)
                                : nvfp4_global_scale(amax, compat_from(word_of(compat, "compat")));
      },
      nb::arg("amax"), nb::arg("compat") = nb::none(),
      nb::sig("def nvfp4_global_scale(amax: float, compat: str | None = None) -> float"),
      "The decode multiplier of an NVFP4 tensor whose largest magnitude is amax; with compat, "
      "that\n"
      "which another tool computes. Raises ValueError for a negative number or NaN.");
  module.def(
      "repack_scales",
      [](nb::handle t, const std::string& layout, RUN_PARAMETERS) {
        return repacked(block_tensor_of(t, "t"), layout, RUN_WORDS);
      },
      nb::arg("t").none(), nb::arg("layout"), nb::kw_only(), RUN_ARGUMENTS,
      nb::sig("def repack_scales(t: BlockTensor, layout: str, *, " RUN_SIGNATURE
              ") -> BlockTensor"),
      "The same tensor with its scales in another layout, 'row_major' or 'tiled_128x4'. Shares "
      "the\n"
      "codes.");
  module.def(
      "to_containers",
      [](nb::handle codes, nb::handle out, RUN_PARAMETERS) {
        return containers(codes, out, true, RUN_WORDS);
      },
      nb::arg("codes").none(), nb::kw_only(), nb::arg("out") = nb::none(), RUN_ARGUMENTS,
      nb::sig("def to_containers(codes: Array, *, out: Array | None = None, " RUN_SIGNATURE
              ") -> Array"),
      "FP4 codes, two a byte, as one code a byte in bits 5 to 2: what kind::mxf8f6f4 reads. The "
      "last\n"
      "axis becomes twice as long.");
  module.def(
      "from_containers",
      [](nb::handle codes, nb::handle out, RUN_PARAMETERS) {
        return containers(codes, out, false, RUN_WORDS);
      },
      nb::arg("codes").none(), nb::kw_only(), nb::arg("out") = nb::none(), RUN_ARGUMENTS,
      nb::sig("def from_containers(codes: Array, *, out: Array | None = None, " RUN_SIGNATURE
              ") -> Array"),
      "The way back of to_containers.");
}

}  // namespace microscale::python
