// abs_max: largest magnitude and first non-finite element, in one read.
#include <algorithm>
#include <bit>
#include <mutex>

#include "core/threads.hpp"
#include "microscale/quantize.hpp"
#include "ops/backends.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr std::int64_t run_elements = 64 * 1024;

// First NaN or infinity of a run that is known to hold one.
std::int64_t find_non_finite(const TensorView& input, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(load_dense(input.data, input.dtype, first + i));
    if ((bits & 0x7F800000u) == 0x7F800000u) return i;
  }
  return -1;
}

}  // namespace

AbsMax abs_max(const TensorView& given, const Context& context) {
  const TensorView input = with_row_stride(given);
  check_view("abs_max", input);
  check_runs_on_host("abs_max", context, {operand("the input", input)});
  const KernelTable& table = choose_backend("abs_max", context);
  const std::int64_t runs_per_row = (input.cols + run_elements - 1) / run_elements;
  const std::int64_t rows_per_item =
      std::max<std::int64_t>(1, run_elements * 4 / std::max<std::int64_t>(1, input.cols));
  const std::int64_t items = (input.rows + rows_per_item - 1) / rows_per_item;
  AbsMax total;
  std::mutex mutex;
  parallel_for(items, context.threads, [&](std::int64_t item) {
    AbsMax local;
    const std::int64_t end = std::min(input.rows, (item + 1) * rows_per_item);
    for (std::int64_t row = item * rows_per_item; row < end; ++row) {
      for (std::int64_t run = 0; run < runs_per_row; ++run) {
        const std::int64_t col = run * run_elements;
        const std::int64_t count = std::min(run_elements, input.cols - col);
        const std::int64_t first = row * input.row_stride + col;
        const AbsMaxRun part = table.abs_max(
            static_cast<const std::uint8_t*>(input.data) + first * size_of(input.dtype),
            input.dtype, count);
        local.amax = std::max(local.amax, part.amax);
        if (part.non_finite && local.non_finite < 0)
          local.non_finite = row * input.cols + col + find_non_finite(input, first, count);
      }
    }
    std::lock_guard lock(mutex);
    total.amax = std::max(total.amax, local.amax);
    if (local.non_finite >= 0 && (total.non_finite < 0 || local.non_finite < total.non_finite))
      total.non_finite = local.non_finite;
  });
  return total;
}

}  // namespace microscale
