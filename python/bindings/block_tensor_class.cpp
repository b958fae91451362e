// The Python class BlockTensor.
#include <fmt/format.h>

#include "block_tensor.hpp"
#include "microscale/error.hpp"
#include "quantize.hpp"

namespace microscale::python {
namespace {

/// Of arrays whose type says what their bytes mean, what the format has there.
void require_meaning(const Array& array, DlType meant, std::string_view format) {
  const bool speaks =
      array.type.code >= float8_e4m3_type.code && array.type.code != bfloat16_type.code;
  if (!speaks || array.type == meant) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the {} is not what {} has there{}; pass that, or the bytes as uint8",
                          array.name, describe(array), format,
                          meant == uint8_type ? "" : ", " + name_of(meant)));
}

DlType type_of_codes(Format format) {
  return info(format).code_bits == 4    ? DlType{17, 4, 2}
         : format == Format::mxfp8_e4m3 ? float8_e4m3_type
         : format == Format::mxfp8_e5m2 ? float8_e5m2_type
                                        : uint8_type;
}

void check_parts(const BlockTensorObject& tensor) {
  const BlockOperand operand = take_blocks(tensor, "codes");
  Array scales = operand.scales;
  scales.name = "scales";
  require_meaning(operand.codes, type_of_codes(tensor.blocks.format), tensor.format_name());
  require_meaning(scales,
                  info(tensor.blocks.format).e8m0_scale ? float8_e8m0_type : float8_e4m3_type,
                  tensor.format_name());
  bytes_of(operand.codes, tensor.blocks.code_bytes());
  bytes_of(scales, tensor.blocks.scale_bytes());
  if (scales.memory != operand.codes.memory || scales.ordinal != operand.codes.ordinal)
    throw Error(ErrorCode::invalid_argument,
                "scales: the array is on another device than codes; move one of them");
  const bool wanted = tensor.blocks.format == Format::nvfp4;
  if (wanted && tensor.global_scale.is_none())
    throw Error(ErrorCode::invalid_argument,
                "global_scale: NVFP4 has one; pass a number, or a float32 array");
  if (!wanted && !tensor.global_scale.is_none())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("global_scale: {} has none; leave it out", tensor.format_name()));
}

BlockTensorObject from_parts(nb::object codes, nb::object scales, nb::handle global_scale,
                             const std::string& format, nb::object shape, int axis,
                             const std::string& layout) {
  BlockTensorObject tensor;
  tensor.codes = std::move(codes);
  tensor.scales = std::move(scales);
  tensor.global_scale = plain_scale(global_scale);
  const Format kind = format_from(format);
  if (!shape.is_none()) {
    tensor.shape = shape_from(shape);
  } else {
    const Array array = take(tensor.codes, "codes");
    if (array.rank == 0)
      throw Error(ErrorCode::invalid_argument, "codes: the array has no axes; pass one or more");
    tensor.shape.assign(array.sizes().begin(), array.sizes().end());
    tensor.shape.back() = tensor.shape.back() * 8 / info(kind).code_bits;
    if (axis == -2 && tensor.shape.size() == 2) std::swap(tensor.shape[0], tensor.shape[1]);
  }
  tensor.blocks = block_shape_of(tensor.shape, kind, axis, layout_from(layout), "shape");
  check_parts(tensor);
  return tensor;
}

std::string place_of(const Array& array) {
  return array.on_device() ? fmt::format("cuda:{}", array.ordinal) : "cpu";
}

std::string repr(const BlockTensorObject& tensor) {
  const Array codes = take(tensor.codes, "codes");
  return fmt::format("BlockTensor({}, format='{}'{}{}, device='{}')", shape_text(tensor.shape),
                     tensor.format_name(), tensor.blocks.axis == BlockAxis::rows ? ", axis=-2" : "",
                     tensor.blocks.layout == Layout::row_major
                         ? std::string()
                         : fmt::format(", layout='{}'", name_of(tensor.blocks.layout)),
                     place_of(codes));
}

std::int64_t bytes_in_memory(const BlockTensorObject& tensor) {
  return tensor.blocks.code_bytes() + tensor.blocks.scale_bytes() +
         (tensor.global_scale.is_none() ? 0 : 4);
}

nb::object helper(const char* name) {
  return nb::module_::import_("microscale._arrays").attr(name);
}

nb::object compressed(const char* name) {
  return nb::module_::import_("microscale._compressed_tensors").attr(name);
}

}  // namespace

void bind_block_tensor(nb::module_& module) {
  nb::class_<BlockTensorObject> type(
      module, "BlockTensor", nb::is_weak_referenceable(),
      "A tensor in a block-scaled format: codes, block scales and, of NVFP4, a global scale.\n\n"
      "Its parts are arrays of the framework that it was made with, and stay its own: value =\n"
      "code * block scale * global scale. Made by quantize and from_parts.");
  // numpy would make an array of one object of it, and its operators a riddle.
  type.attr("__array_ufunc__") = nb::none();
  type.def_static(
          "from_parts", from_parts, nb::arg("codes"), nb::arg("scales"),
          nb::arg("global_scale") = nb::none(), nb::kw_only(), nb::arg("format"),
          nb::arg("shape") = nb::none(), nb::arg("axis") = -1, nb::arg("layout") = "row_major",
          nb::sig("def from_parts(codes: Array, scales: Array, global_scale: float | Array | None "
                  "= None, *, format: str, shape: Sequence[int] | None = None, axis: int = -1, "
                  "layout: str = 'row_major') -> BlockTensor"),
          "Takes arrays as they are, without a copy.\n\n"
          "codes: bytes, two FP4 codes each (the even element in the low nibble) or one code;\n"
          "scales: one byte a block, E4M3 for nvfp4 and E8M0 for the others; global_scale: the\n"
          "decode multiplier of NVFP4, a number or a float32 array of one element (or one per\n"
          "expert). shape: of the dense tensor; from that of codes if left out.\n"
          "Raises ValueError where sizes, types or devices do not fit together.")
      .def_static(
          "from_compressed_tensors",
          [](nb::object packed, nb::object scale, nb::object global_scale) {
            return compressed("from_compressed_tensors")(packed, scale, global_scale);
          },
          nb::arg("weight_packed"), nb::arg("weight_scale"),
          nb::arg("weight_global_scale") = nb::none(),
          nb::sig("def from_compressed_tensors(weight_packed: Array, weight_scale: Array, "
                  "weight_global_scale: Array | None = None) -> BlockTensor"),
          "Takes the tensors of a layer as compressed-tensors stores them.\n\n"
          "With weight_global_scale (a divisor there) the format is nvfp4, without it mxfp4, or\n"
          "mxfp8 where weight_packed has the type float8_e4m3fn.")
      .def_ro("codes", &BlockTensorObject::codes,
              "The array of codes, bytes: (..., bytes of a line).",
              nb::for_getter(nb::sig("def codes(self) -> Array")))
      .def_ro("scales", &BlockTensorObject::scales,
              "The array of block scales, bytes: (..., blocks of a line), or one axis if tiled.",
              nb::for_getter(nb::sig("def scales(self) -> Array")))
      .def_ro("global_scale", &BlockTensorObject::global_scale,
              "NVFP4: the decode multiplier, a number on the CPU, a float32 array on a GPU.",
              nb::for_getter(nb::sig("def global_scale(self) -> float | Array | None")))
      .def_prop_ro(
          "format", [](const BlockTensorObject& t) { return std::string(t.format_name()); },
          "'nvfp4', 'mxfp4', 'mxfp8_e4m3', ...")
      .def_prop_ro(
          "shape", [](const BlockTensorObject& t) { return tuple_of(t.shape); },
          "Of the dense tensor.", nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")))
      .def_prop_ro("ndim", [](const BlockTensorObject& t) { return t.shape.size(); })
      .def_prop_ro(
          "axis",
          [](const BlockTensorObject& t) { return t.blocks.axis == BlockAxis::rows ? -2 : -1; },
          "The axis along which elements share a scale: -1, or -2.")
      .def_prop_ro(
          "layout",
          [](const BlockTensorObject& t) { return std::string(name_of(t.blocks.layout)); },
          "Of the scales: 'row_major' or 'tiled_128x4'.")
      .def_prop_ro(
          "device", [](const BlockTensorObject& t) { return place_of(take(t.codes, "codes")); },
          "'cpu', or 'cuda:0', ...")
      .def_prop_ro("nbytes", bytes_in_memory, "Bytes of codes, scales and global scale.")
      .def(
          "dequantize",
          [](const BlockTensorObject& self, nb::handle dtype, nb::handle out, nb::handle backend,
             nb::handle threads, nb::handle stream) {
            return dequantized(self, dtype, out, {backend, threads, stream});
          },
          nb::arg("dtype") = nb::none(), nb::kw_only(), nb::arg("out") = nb::none(),
          nb::arg("backend") = nb::none(), nb::arg("threads") = nb::none(),
          nb::arg("stream") = nb::none(),
          nb::sig("def dequantize(self, dtype: DTypeLike = None, *, out: Array | None = None, "
                  "backend: str | None = None, threads: int | None = None, stream: Stream = None) "
                  "-> Array"),
          "As microscale.dequantize.")
      .def(
          "to", [](nb::object self, nb::object device) { return helper("move")(self, device); },
          nb::arg("device"), nb::sig("def to(self, device: object) -> BlockTensor"),
          "On another device, 'cpu' or 'cuda:N'. Of numpy, to a GPU: as DeviceArray.")
      .def(
          "to_compressed_tensors",
          [](nb::object self) { return compressed("to_compressed_tensors")(self); },
          nb::sig("def to_compressed_tensors(self) -> dict[str, Array]"),
          "The tensors of a layer by the names that compressed-tensors has, and vLLM loads:\n"
          "weight_packed, weight_scale and, of nvfp4, weight_global_scale, a divisor; of mxfp8 "
          "weight\n"
          "and weight_scale. Views where they can be. Raises ValueError for what that has no name "
          "for:\n"
          "other formats, tiled scales, blocks down the columns.")
      .def(
          "as_torch_float4", [](nb::object self) { return helper("as_torch_float4")(self); },
          nb::sig("def as_torch_float4(self) -> Array"),
          "The codes viewed as torch.float4_e2m1fn_x2.")
      .def(
          "__reduce__", [](nb::object self) { return helper("reduce_block_tensor")(self); },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def(
          "__array__",
          [](const BlockTensorObject&, nb::args, nb::kwargs) -> nb::object {
            throw nb::type_error(
                "a BlockTensor is no array of numbers: dequantize() makes one of it, and "
                "microscale.matmul(x, t) multiplies by it");
          },
          nb::sig("def __array__(self, *args: Any, **kwargs: Any) -> Any"))
      .def("__repr__", repr);
}

}  // namespace microscale::python
