// grouped_quantize: the rows of many experts in one call.
#include <fmt/format.h>

#include "keywords.hpp"
#include "microscale/error.hpp"
#include "microscale/grouped.hpp"
#include "producers.hpp"

namespace microscale::python {
namespace {

nb::object grouped(nb::handle x, nb::handle offsets, nb::handle counts, std::int64_t capacity,
                   std::string_view format_name, std::string_view layout, nb::handle global_scale,
                   nb::handle scale_rule, const RunWords& run) {
  const Array input = take(x, "x");
  Call call(input, run);
  if (input.rank != 2)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("x: the {} must be (rows, k)", describe(input)));
  const Format format = format_from(format_name);
  const BlockShape blocks = block_shape_of(input.sizes(), format, -1, layout_from(layout), "x");
  GroupedQuantizeOptions options;
  options.input = matrix_of(input);
  options.groups = expert_rows_of(offsets, counts, capacity, call);
  options.format = format;
  options.numerics = numerics_from(
      {scale_rule, nb::none(), nb::none(), nb::none(), nb::none(), nb::none(), 0}, format);
  options.layout = blocks.layout;
  options.global_scale =
      global_scale_of(global_scale, "global_scale", call, options.groups.experts);
  BlockTensorObject tensor;
  Array codes, scales;
  tensor.codes = call.make(uint8_type, shape_of_codes(input.sizes(), blocks), codes);
  std::vector<std::int64_t> scale_shape = shape_of_scales(input.sizes(), blocks);
  if (blocks.layout != Layout::row_major)
    scale_shape = {grouped_scale_bytes(blocks.rows, blocks.cols, options.groups.experts, format,
                                       blocks.layout)};
  tensor.scales = call.make(type_of_scales(input, format), scale_shape, scales);
  tensor.global_scale = nb::borrow(global_scale);
  tensor.shape.assign(input.sizes().begin(), input.sizes().end());
  tensor.blocks = blocks;
  const std::span<std::uint8_t> code_bytes = bytes_of(codes), scale_bytes = bytes_of(scales);
  call.set_zero(code_bytes);
  call.set_zero(scale_bytes);
  call.run([&](const Context& context) {
    grouped_quantize_into(options, code_bytes, scale_bytes, context);
  });
  return nb::cast(std::move(tensor));
}

}  // namespace

void bind_grouped_quantize(nb::module_& module) {
  module.def(
      "grouped_quantize",
      [](nb::handle x, nb::handle offsets, nb::handle counts, std::int64_t capacity,
         const char* format, const char* layout, nb::handle global_scale, nb::handle scale_rule,
         RUN_PARAMETERS) {
        return grouped(x, offsets, counts, capacity, format, layout, global_scale, scale_rule,
                       RUN_WORDS);
      },
      nb::arg("x").none(), nb::kw_only(), nb::arg("offsets") = nb::none(),
      nb::arg("counts") = nb::none(), nb::arg("capacity") = 0, nb::arg("format") = "nvfp4",
      nb::arg("layout") = "row_major", nb::arg("global_scale") = nb::none(),
      nb::arg("scale_rule") = nb::none(), RUN_ARGUMENTS,
      nb::sig(
          "def grouped_quantize(x: Array, *, offsets: Array | None = None, counts: Array | "
          "None = None, capacity: int = 0, format: str = 'nvfp4', layout: str = 'row_major', "
          "global_scale: float | Array | None = None, scale_rule: str | None = None, " RUN_SIGNATURE
          ") -> BlockTensor"),
      "Quantizes the rows (rows, k) of many experts, for grouped_matmul.\n\n"
      "Rows of experts as in grouped_matmul. NVFP4 needs global_scale: one number, or float32, "
      "one\n"
      "for each expert (on a GPU always that). Tiled scales lie expert by expert. Rows without an\n"
      "expert are zeros.");
}

}  // namespace microscale::python
