// What messages and checks say of an array.
#include <fmt/format.h>

#include <cctype>

#include "arrays.hpp"
#include "microscale/error.hpp"

namespace microscale::python {

std::int64_t Array::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes()) count *= size;
  return count;
}

bool Array::packed() const {
  std::int64_t expected = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (size(i) != 1 && stride(i) != expected) return elements() == 0;
    expected *= size(i);
  }
  return true;
}

std::string name_of(DlType type) {
  const std::pair<DlType, const char*> names[] = {{uint8_type, "uint8"},
                                                  {uint16_type, "uint16"},
                                                  {int32_type, "int32"},
                                                  {int64_type, "int64"},
                                                  {float32_type, "float32"},
                                                  {float16_type, "float16"},
                                                  {bfloat16_type, "bfloat16"},
                                                  {float8_e4m3_type, "float8_e4m3fn"},
                                                  {float8_e5m2_type, "float8_e5m2"},
                                                  {float8_e8m0_type, "float8_e8m0fnu"},
                                                  {DlType{2, 64, 1}, "float64"},
                                                  {DlType{0, 8, 1}, "int8"},
                                                  {DlType{0, 16, 1}, "int16"},
                                                  {DlType{1, 32, 1}, "uint32"},
                                                  {DlType{1, 64, 1}, "uint64"},
                                                  {DlType{5, 64, 1}, "complex64"},
                                                  {DlType{5, 128, 1}, "complex128"},
                                                  {DlType{6, 8, 1}, "bool"},
                                                  {DlType{17, 4, 2}, "float4_e2m1fn_x2"}};
  for (const auto& [known, name] : names)
    if (known == type) return name;
  return fmt::format("DLPack type ({}, {}, {})", type.code, type.bits, type.lanes);
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string describe(const Array& array) {
  return fmt::format("{} array of shape {}", name_of(array.type), shape_text(array.sizes()));
}

DType dense_type(const Array& array) {
  if (array.type == float32_type) return DType::f32;
  if (array.type == bfloat16_type) return DType::bf16;
  if (array.type == float16_type) return DType::f16;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: the array is {}; pass float32, bfloat16 or float16", array.name,
                          name_of(array.type)));
}

DlType dl_type(DType type) {
  return type == DType::f32 ? float32_type : type == DType::bf16 ? bfloat16_type : float16_type;
}

DType dtype_from(nb::handle object, const char* name) {
  std::string word;
  if (nb::isinstance<nb::str>(object))
    word = nb::cast<std::string>(object);
  else if (nb::hasattr(object, "__name__"))  // numpy.float32
    word = nb::cast<std::string>(object.attr("__name__"));
  else  // torch.bfloat16, numpy.dtype("float32")
    word = nb::cast<std::string>(nb::str(object));
  const std::string whole = word;
  if (const std::size_t dot = word.rfind('.'); dot != std::string::npos) word.erase(0, dot + 1);
  if (const std::optional<DType> type = parse_dtype(word)) return *type;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: no dense type '{}'; pass f32, bf16 or f16", name, whole));
}

std::span<std::uint8_t> bytes_of(const Array& array, std::int64_t bytes) {
  if (array.type.bits * array.type.lanes != 8)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the array is {}; pass uint8 (or a type of 8 bits)", array.name,
                            name_of(array.type)));
  if (!array.packed())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the {} has strides; pass it without gaps, for example "
                            "{}.contiguous() or numpy.ascontiguousarray({})",
                            array.name, describe(array), array.name, array.name));
  if (bytes >= 0 && array.elements() != bytes)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the {} has {} bytes, the shape needs {}", array.name,
                            describe(array), array.elements(), bytes));
  return {static_cast<std::uint8_t*>(array.data), static_cast<std::size_t>(array.elements())};
}

}  // namespace microscale::python
