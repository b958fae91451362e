// A checkpoint's mapped tensors as numpy arrays; microscale/_checkpoint.py makes a mapping of it.
#include "microscale/checkpoint_file.hpp"

#include <nanobind/stl/filesystem.h>

#include "block_tensor.hpp"
#include "interruptible.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

/// Bytes of the mapping, which `owner` keeps.
nb::object bytes_as_array(std::span<const std::uint8_t> bytes, std::vector<std::int64_t> shape,
                          nb::handle owner) {
  std::vector<std::size_t> sizes(shape.begin(), shape.end());
  return nb::cast(
      nb::ndarray<nb::numpy, const std::uint8_t>(bytes.data(), sizes.size(), sizes.data(), owner));
}

nb::object blocks_of(const CheckpointTensor& tensor, nb::handle owner) {
  const BlockTensorView& view = *tensor.blocks;
  BlockTensorObject made;
  made.shape = tensor.shape;
  made.blocks = view.shape;
  made.codes = bytes_as_array(view.codes, shape_of_codes(tensor.shape, view.shape), owner);
  made.scales = bytes_as_array(view.scales, shape_of_scales(tensor.shape, view.shape), owner);
  made.global_scale = view.shape.format == Format::nvfp4
                          ? nb::object(nb::float_(double(view.global_scale.value())))
                          : nb::object(nb::none());
  return nb::cast(std::move(made));
}

/// (dtype, shape, bytes) of a dense tensor, or the BlockTensor; None where there is no such name.
nb::object find(nb::handle self, std::string_view name) {
  const auto& file = *nb::inst_ptr<CheckpointFile>(self);
  const CheckpointTensor* const tensor = file.find(name);
  if (!tensor) return nb::none();
  if (tensor->blocks) return blocks_of(*tensor, self);
  return nb::make_tuple(tensor->dtype, tuple_of(tensor->shape),
                        bytes_as_array(tensor->bytes, {std::int64_t(tensor->bytes.size())}, self));
}

nb::list names(const CheckpointFile& file) {
  nb::list found;
  for (const CheckpointTensor& tensor : file.tensors()) found.append(tensor.name);
  return found;
}

}  // namespace

void bind_checkpoint_file(nb::module_& module) {
  nb::class_<CheckpointFile>(module, "CheckpointFile", "Behind microscale.open_checkpoint.")
      .def(nb::init<const std::filesystem::path&>(), nb::arg("path"),
           nb::sig("def __init__(self, path: str | os.PathLike[str]) -> None"))
      .def("names", names, nb::sig("def names(self) -> list[str]"))
      .def("find", find, nb::arg("name"), nb::sig("def find(self, name: str) -> Any"));
}

}  // namespace microscale::python
