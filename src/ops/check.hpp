// Argument checks that several operations share. Each throws Error{invalid_argument}.
#pragma once

#include <cstdint>

namespace microscale {

/// Sizes not negative, a stride that holds a row, data where there are elements.
void check_view(const char* operation, const void* data, std::int64_t rows, std::int64_t cols,
                std::int64_t row_stride);

/// `got` bytes where `wanted` are needed, for the buffer called `what`.
void check_bytes(const char* operation, const char* what, std::int64_t got, std::int64_t wanted);

/// Finite, positive and normal.
void check_global_scale(const char* operation, float scale);

}  // namespace microscale
