#include "ops/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/memory_range.hpp"
#include "microscale/error.hpp"

namespace microscale {

Place::Place(const char* operation, const char* name) {
  std::size_t length = 0;
  for (const std::string_view part :
       {std::string_view(operation), std::string_view(": "), std::string_view(name)})
    length += part.copy(text_.data() + length, text_.size() - 1 - length);
  text_[length] = '\0';
}

void check_view(const char* operation, const void* data, std::int64_t rows, std::int64_t cols,
                std::int64_t row_stride) {
  if (rows < 0 || cols < 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a matrix of {} x {}; rows and cols must not be negative",
                            operation, rows, cols));
  if (row_stride == 0) row_stride = cols;
  if (rows > 1 && row_stride < cols)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: row_stride is {} elements for rows of {}; set it to at least the "
                            "number of columns, or to 0 for packed rows",
                            operation, row_stride, cols));
  const double stride = rows > 1 ? static_cast<double>(row_stride) : static_cast<double>(cols);
  if (static_cast<double>(std::max<std::int64_t>(rows, 1)) * stride > addressable_bytes)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a matrix of {} x {} with a row_stride of {} elements is more than "
                            "fits in memory; strides are in elements, not bytes",
                            operation, rows, cols, row_stride));
  if (rows > 0 && cols > 0 && data == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: data is null for a matrix of {} x {}", operation, rows, cols));
}

void check_dtype(const char* operation, DType type) {
  if (type != DType::f32 && type != DType::f16 && type != DType::bf16)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: DType {} is no element type; use f32, f16 or bf16", operation,
                            static_cast<int>(type)));
}

void check_numerics(const char* operation, const Numerics& numerics, Format format) {
  const auto rules = scale_rules(format);
  if (std::find(rules.begin(), rules.end(), numerics.scale_rule) == rules.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} has no scale rule {}; it has {}", operation, info(format).name,
                            to_string(numerics.scale_rule), scale_rule_names(format)));
  const auto last = [&](const char* what, auto value, auto of_them) {
    if (value > of_them)
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: numerics.{} is {}, which no enumerator has; take one", operation,
                              what, static_cast<int>(value)));
  };
  last("rounding", numerics.rounding, Rounding::stochastic);
  last("nan", numerics.nan, NanPolicy::drop);
  last("inf", numerics.inf, InfPolicy::nan_block);
  last("zero_code", numerics.zero_code, ZeroCode::positive);
  last("compat", numerics.compat, Compat::microxcaling);
}

void check_aligned(const char* operation, const char* what, const void* data, std::int64_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(bytes) != 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} is at an address that is no multiple of {}; align it",
                            operation, what, bytes));
}

void check_bytes(const char* operation, const char* what, std::int64_t got, std::int64_t wanted,
                 const char* see) {
  if (got != wanted)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: the buffer of {} has {} bytes, {} are needed (see {})", operation,
                            what, got, wanted, see));
}

void check_global_scale(const char* operation, float scale) {
  if (!(scale > 0) || !std::isnormal(scale))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: NVFP4 global scale {} is not a positive normal number; pass the decode "
                    "multiplier amax / 2688, or leave it out to have it computed",
                    operation, scale));
}

void check_global_scale_place(const char* operation, const GlobalScale& scale, bool on_device,
                              std::int64_t experts) {
  const auto refuse = [&](const char* sentence) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {}", operation, sentence));
  };
  if (!scale.given()) refuse("NVFP4 wants its global scale beforehand; pass global_scale");
  if (scale.is_per_expert() && experts == 0)
    refuse("one global scale per expert, but this call has no experts; pass one for all");
  if (on_device && scale.memory() == Memory::host)
    refuse(
        "backend cuda reads the global scale from device memory, and this one is on the host; pass "
        "GlobalScale::on_device(address), or per_expert(address, Memory::device)");
  if (!on_device && scale.memory() == Memory::device)
    refuse(
        "the global scale is in device memory, which a host backend does not read; copy it to the "
        "host and pass the number");
  check_aligned(operation, "the global scale", scale.device_pointer(), sizeof(float));
}

void check_global_scale(const char* operation, const GlobalScale& scale, bool on_device,
                        std::int64_t experts) {
  check_global_scale_place(operation, scale, on_device, experts);
  if (on_device) return;
  for (std::int64_t e = 0; e < (scale.is_per_expert() ? experts : 1); ++e)
    check_global_scale(operation, scale.value(e));
}

void check_no_global_scale(const char* operation, const GlobalScale& scale,
                           const FormatInfo& format) {
  if (!scale.given() || scale.memory() == Memory::device || scale.is_per_expert()) return;
  if (scale.value() != 1)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: global scale {} for {}, which has none; leave it out, or choose "
                            "nvfp4",
                            operation, scale.value(), format.name));
}

}  // namespace microscale
