// microscale.PackedWeights, pack_weights and pack_gated_weights.
#include <fmt/format.h>

#include <algorithm>

#include "keywords.hpp"
#include "matmul.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

/// One matrix of a block tensor of (n, k) or (matrices, n, k).
struct Matrices {
  BlockShape one;
  std::int64_t count = 1;
};

Matrices matrices_of(const BlockTensorObject& tensor, const char* name) {
  if (tensor.shape.size() != 2 && tensor.shape.size() != 3)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: weights of shape {}; pass (n, k), or (matrices, n, k)", name,
                            shape_text(tensor.shape)));
  if (tensor.blocks.axis != BlockAxis::cols)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: blocks lie along axis -2; products take blocks along the last axis",
                    name));
  Matrices found{tensor.blocks, 1};
  if (tensor.shape.size() == 2) return found;
  found.count = tensor.shape[0];
  found.one.rows = tensor.shape[1];
  if (found.one.layout != Layout::row_major && found.one.rows % 128 != 0 && found.count > 1)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: tiled scales of {} matrices of {} rows, which is no multiple of "
                            "128; repack the scales to row_major",
                            name, found.count, found.one.rows));
  return found;
}

BlockTensorView first_matrix(BlockTensorView view, const Matrices& matrices) {
  view.shape = matrices.one;
  return view;
}

nb::object pack(nb::handle b, nb::handle up, const RunWords& run) {
  const char* name = up.is_none() ? "b" : "gate";
  const BlockTensorObject& weights = block_tensor_of(b, name);
  BlockOperand gate = take_blocks(weights, name);
  Call call(gate.codes, run);
  const Matrices matrices = matrices_of(weights, name);
  set_global_scale(gate, weights, call, matrices.count);
  // One matrix's spans: the options speak of one of `matrices`.
  PackOptions options{.b = first_matrix(gate.view, matrices), .matrices = matrices.count};
  BlockOperand second;
  PackedWeightsObject packed;
  if (!up.is_none()) {
    const BlockTensorObject& other = block_tensor_of(up, "up");
    second = take_blocks(other, "up");
    set_global_scale(second, other, call, matrices.count);
    options.up = first_matrix(second.view, matrices_of(other, "up"));
    packed.up_global_scale = other.global_scale;
  } else {
    packed.up_global_scale = nb::none();
  }
  Array made;
  packed.bytes = make_bytes(call.first(), packed_weights_bytes(options, call.context()), made);
  packed.global_scale = weights.global_scale;
  packed.shape = weights.shape;
  packed.blocks = matrices.one;
  packed.matrices = matrices.count;
  packed.gated = !up.is_none();
  call.run([&](const Context& context) { pack_weights(options, bytes_of(made), context); });
  return nb::cast(std::move(packed));
}

nb::object from_parts(nb::object bytes, nb::handle global_scale, nb::handle up_global_scale,
                      nb::handle shape, const std::string& format, bool gated) {
  PackedWeightsObject packed;
  packed.shape = shape_from(shape);
  if (packed.shape.size() != 2 && packed.shape.size() != 3)
    throw Error(ErrorCode::invalid_argument, "shape: pass (n, k), or (matrices, n, k)");
  packed.blocks = {packed.shape[packed.shape.size() - 2], packed.shape.back(), format_from(format)};
  packed.matrices = packed.shape.size() == 3 ? packed.shape[0] : 1;
  packed.gated = gated;
  packed.global_scale = plain_scale(global_scale);
  packed.up_global_scale = plain_scale(up_global_scale);
  if (packed.blocks.format == Format::nvfp4 &&
      (packed.global_scale.is_none() || (gated && packed.up_global_scale.is_none())))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: NVFP4 has one; pass a number, or a float32 array",
                            packed.global_scale.is_none() ? "global_scale" : "up_global_scale"));
  Array array = take(bytes, "bytes");
  PackOptions options{.b = {packed.blocks, {}, {}, 1.0f, array.memory},
                      .matrices = packed.matrices};
  if (gated) options.up = options.b;
  bytes_of(array, packed_weights_bytes(options));
  if (reinterpret_cast<std::uintptr_t>(array.data) % 64 != 0) {  // unpickled, for one
    Array made;
    if (array.on_device())
      throw Error(
          ErrorCode::invalid_argument,
          "bytes: the array must begin at a multiple of 64 bytes; copy it to one that does");
    nb::object copy = make_bytes(array, array.elements(), made);
    std::copy_n(static_cast<const std::uint8_t*>(array.data), array.elements(),
                static_cast<std::uint8_t*>(made.data));
    bytes = std::move(copy);
  }
  packed.bytes = std::move(bytes);
  return nb::cast(std::move(packed));
}

std::string repr(const PackedWeightsObject& self) {
  return fmt::format("PackedWeights({}, format='{}'{})", shape_text(self.shape),
                     info(self.blocks.format).name, self.gated ? ", gated=True" : "");
}

MatmulWeights one_of(const PackedWeightsObject& packed, const Array& bytes, const Call& call,
                     const char* name, std::int64_t experts) {
  PackedWeights view;
  view.shape = packed.blocks;
  view.matrices = packed.matrices;
  view.gated = packed.gated;
  view.memory = bytes.memory;
  view.bytes = bytes_of(bytes);
  if (!packed.global_scale.is_none())
    view.global_scale = global_scale_of(packed.global_scale, name, call, experts);
  if (!packed.up_global_scale.is_none())
    view.up_global_scale = global_scale_of(packed.up_global_scale, name, call, experts);
  return view;
}

}  // namespace

WeightOperand take_weights(const WeightSource& source, const char* name, const Call& call,
                           bool gated, bool per_expert) {
  WeightOperand found;
  const nb::handle object = source.object;
  const PackedWeightsObject* packed = source.packed;
  if (packed != nullptr || (nb::try_cast(object, packed) && packed != nullptr)) {
    found.array = take(packed->bytes, name);
    call.require_here(found.array);
    if (packed->gated != gated)
      throw Error(ErrorCode::invalid_argument,
                  gated ? fmt::format("{}: packed weights of one matrix; pack_gated_weights makes "
                                      "those of a gate and an up projection",
                                      name)
                        : fmt::format("{}: packed weights of a gate and an up projection are for "
                                      "gated_matmul",
                                      name));
    found.matrices = packed->matrices;
    found.n = packed->blocks.rows;
    found.k = packed->blocks.cols;
    found.weights = one_of(*packed, found.array, call, name, per_expert ? packed->matrices : 0);
    return found;
  }
  const BlockTensorObject* tensor = nullptr;
  if (!nb::try_cast(object, tensor) || tensor == nullptr)
    throw nb::type_error(fmt::format("{}: expected a BlockTensor or PackedWeights, got {}", name,
                                     nb::type_name(object.type()).c_str())
                             .c_str());
  BlockOperand operand = take_blocks(*tensor, name);
  const Matrices matrices = matrices_of(*tensor, name);
  found.matrices = matrices.count;
  set_global_scale(operand, *tensor, call, per_expert ? matrices.count : 0);
  found.array = operand.codes;
  found.n = matrices.one.rows;
  found.k = matrices.one.cols;
  found.weights = first_matrix(operand.view, matrices);
  return found;
}

void bind_packed_weights(nb::module_& module) {
  nb::class_<PackedWeightsObject>(
      module, "PackedWeights", nb::is_weak_referenceable(),
      "Weights that pack_weights has rearranged for products: fewer bytes to read, no work at "
      "each\n"
      "call. Made for the CPU or for the GPU they are on; pickled, they stay for that.")
      .def_static(
          "from_parts", from_parts, nb::arg("bytes"), nb::arg("global_scale") = nb::none(),
          nb::arg("up_global_scale") = nb::none(), nb::kw_only(), nb::arg("shape"),
          nb::arg("format"), nb::arg("gated") = false,
          nb::sig("def from_parts(bytes: Array, global_scale: float | Array | None = None, "
                  "up_global_scale: float | Array | None = None, *, shape: Sequence[int], format: "
                  "str, gated: bool = False) -> PackedWeights"),
          "Takes bytes that pack_weights made, for example from a file. Raises ValueError where\n"
          "there are not as many as shape and format need.")
      .def_ro("bytes", &PackedWeightsObject::bytes, "The array of bytes.",
              nb::for_getter(nb::sig("def bytes(self) -> Array")))
      .def_ro("global_scale", &PackedWeightsObject::global_scale,
              nb::for_getter(nb::sig("def global_scale(self) -> float | Array | None")))
      .def_ro("up_global_scale", &PackedWeightsObject::up_global_scale,
              nb::for_getter(nb::sig("def up_global_scale(self) -> float | Array | None")))
      .def_prop_ro("format",
                   [](const PackedWeightsObject& self) {
                     return std::string(info(self.blocks.format).name);
                   })
      .def_prop_ro(
          "shape", [](const PackedWeightsObject& self) { return tuple_of(self.shape); },
          "(n, k), or (matrices, n, k).",
          nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")))
      .def_ro("gated", &PackedWeightsObject::gated)
      .def_prop_ro(
          "nbytes",
          [](const PackedWeightsObject& self) { return take(self.bytes, "bytes").elements(); })
      .def(
          "__reduce__",
          [](nb::object self) {
            return nb::module_::import_("microscale._arrays").attr("reduce_packed_weights")(self);
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def("__repr__", repr);

  module.def(
      "pack_weights", [](nb::handle b, RUN_PARAMETERS) { return pack(b, nb::none(), RUN_WORDS); },
      nb::arg("b").none(), nb::kw_only(), RUN_ARGUMENTS,
      nb::sig("def pack_weights(b: BlockTensor, *, " RUN_SIGNATURE ") -> PackedWeights"),
      "Rearranges weights (n, k), or (matrices, n, k), once, for matmul and grouped_matmul.\n\n"
      "A product of packed weights has the same bound of error, and on the CPU the same bytes.");
  module.def(
      "pack_gated_weights",
      [](nb::handle gate, nb::handle up, RUN_PARAMETERS) {
        block_tensor_of(up, "up");
        return pack(gate, up, RUN_WORDS);
      },
      nb::arg("gate").none(), nb::arg("up").none(), nb::kw_only(), RUN_ARGUMENTS,
      nb::sig("def pack_gated_weights(gate: BlockTensor, up: BlockTensor, *, " RUN_SIGNATURE
              ") -> PackedWeights"),
      "As pack_weights, of the two projections of a gated layer: for gated_matmul.");
}

}  // namespace microscale::python
