#include "sass/quantizers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "cuda/quantize/fused_args.hpp"
#include "cuda/quantize/args.hpp"
#include "microscale/format.hpp"

namespace microscale::sass {
namespace {

constexpr std::int64_t tile_elements = cuda::chunk_elements * cuda::rows_per_thread;  // of a thread

/// Removes `word` and the underscore behind it from the front of `rest`.
bool take(std::string_view& rest, std::string_view word) {
  if (rest.substr(0, word.size()) != word) return false;
  if (rest.size() > word.size() && rest[word.size()] != '_') return false;
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return true;
}

template <std::size_t Count>
std::string_view take_one(std::string_view& rest,
                          const std::array<std::string_view, Count>& words) {
  for (const std::string_view word : words)
    if (take(rest, word)) return word;
  return {};
}

/// Instructions that show an element was converted. Hopper has none for FP4: there it is the least
/// of three lines, of two elements at once, or the clamp in FP32 before it.
std::vector<Evidence> evidence_of(std::string_view format, std::string_view architecture) {
  if (format == "mxfp8_e4m3") return {{"F2FP", "E4M3", 2}};
  if (format == "mxfp8_e5m2") return {{"F2FP", "E5M2", 2}};
  if (architecture.substr(0, 5) == "sm_90") return {{"VIMNMX3", "U16x2", 2}, {"FMUL", "SAT", 1}};
  return {{"F2FP", "E2M1", 2}};
}

ThreadWork quantizer(std::int64_t elements, std::int64_t codes_each, std::int64_t inputs,
                     std::int64_t element_bytes, std::string_view format, int tiles) {
  ThreadWork work{.elements = elements, .codes = elements * codes_each, .tiles = tiles, .work = {}};
  work.work.load_bytes = elements * inputs * element_bytes;
  work.work.store_bytes = work.codes / (format.find("fp4") != std::string_view::npos ? 2 : 1);
  work.work.converted = work.codes;
  return work;
}

Work twice(const Work& work) {
  return {.load_bytes = 2 * work.load_bytes,
          .store_bytes = 2 * work.store_bytes,
          .converted = 2 * work.converted,
          .evidence = work.evidence};
}

}  // namespace

std::optional<ThreadWork> thread_work(std::string_view kernel, std::string_view architecture) {
  enum { rows, grouped, columns, both, silu_mul, dequantize } kind;
  std::string_view rest = kernel;
  if (take(rest, "quantize_columns"))
    kind = columns;
  else if (take(rest, "quantize_both"))
    kind = both;
  else if (take(rest, "grouped_quantize"))
    kind = grouped;
  else if (take(rest, "dequantize"))
    kind = dequantize;
  else if (take(rest, "quantize"))
    kind = rows;
  else if (take(rest, "fused_silu_mul"))
    kind = silu_mul;
  else
    return std::nullopt;
  const std::string_view format = take_one(rest, cuda::kernel_formats);
  const std::string_view dtype = take_one(rest, cuda::kernel_dtypes);
  if (format.empty() || dtype.empty()) return std::nullopt;
  const std::int64_t element_bytes = dtype == "f32" ? 4 : 2;
  const bool fp4 = format.find("fp4") != std::string_view::npos;

  ThreadWork work;
  if (kind == dequantize) {
    work = {.elements = tile_elements, .codes = tile_elements, .work = {}};
    work.work.load_bytes = tile_elements / (fp4 ? 2 : 1) + 1;  // and a scale byte
    work.work.store_bytes = tile_elements * element_bytes;
    return work;
  }
  if (!take(rest, "plain")) return std::nullopt;
  if (kind == rows) {
    work = quantizer(tile_elements, 1, 1, element_bytes, format,
                     format == "nvfp4" ? 2 : 1);  // cuda/quantize/quantize.cpp says so
  } else if (kind == grouped) {  // as on the experts of a large model: rows of 7168
    const int block = format == "nvfp4" ? 16 : 32;
    work = quantizer(tile_elements, 1, 1, element_bytes, format,
                     cuda::grouped_launch(65536, 7168, 128, block, rest == "tiled").tiles_per_unit);
  } else if (kind == silu_mul) {  // tens of rows, on a large matrix
    work = quantizer(cuda::lane_elements, 1, 2, element_bytes, format, 16);
  } else {
    const std::int64_t tile =
        cuda::columns_tile_rows * cuda::columns_tile_row_bytes / element_bytes;
    work = quantizer(tile / cuda::threads_per_block, kind == both ? 2 : 1, 1, element_bytes, format,
                     1);
  }
  // A thread stores at least a scale byte a tile; of columns, some threads store those of others.
  if (kind != columns && kind != both) ++work.work.store_bytes;
  work.work.evidence = evidence_of(format, architecture);
  return work;
}

std::optional<ThreadCost> thread_cost(const Function& function, std::string_view architecture) {
  const std::optional<ThreadWork> thread = thread_work(function.name, architecture);
  if (!thread) return std::nullopt;
  std::optional<MainPath> path = main_path(function, thread->work);
  if (!path) return std::nullopt;
  double instructions = path->instructions;
  if (thread->tiles > 1) {
    const std::optional<MainPath> two = main_path(function, twice(thread->work));
    if (!two) return std::nullopt;
    instructions += (thread->tiles - 1) * (two->instructions - path->instructions);
  }
  return ThreadCost{
      .instructions = instructions,
      .an_element = instructions / static_cast<double>(thread->tiles * thread->elements),
      .a_code = instructions / static_cast<double>(thread->tiles * thread->codes),
      .path = std::move(*path)};
}

}  // namespace microscale::sass
