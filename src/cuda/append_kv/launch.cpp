#include "formats/integers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "cuda/append_kv/args.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/device/operands.hpp"
#include "cuda/kernel_table.hpp"
#include "cuda/operations.hpp"
#include "cuda/quantize/choose.hpp"
#include "layouts/kv_page.hpp"
#include "microscale/error.hpp"
#include "seam/kv_cache_view.hpp"

namespace microscale::cuda {
namespace {

constexpr const char* operation = "append_kv";
constexpr std::int64_t countable = std::int64_t{1} << 30;  // what kernels number in 32 bits

void check_countable(const char* what, std::int64_t count) {
  if (count >= countable)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: backend cuda numbers up to 2^30 {}, not {}; make several calls",
                            operation, what, count));
}

void check_device(Device& device, const AppendKvOptions& o) {
  std::vector<MemoryRange> memory{{"k", o.k.data, 0},
                                  {"v", o.v.data, 0},
                                  {"the offsets", o.offsets, 0},
                                  {"RoPE's cosines", o.rope.cos, 0},
                                  {"RoPE's sines", o.rope.sin, 0}};
  cache_memory(o.cache, memory);
  cache_tables(o.cache, memory);
  check_on_device(device, operation, memory);
}

append::Part part_of(const KvPart& part) {
  return {part.data, part.page_stride, part.head_stride, part.token_stride};
}

bool in_words(const KvPart& part, std::int64_t row) {
  return row % 4 == 0 && reinterpret_cast<std::uintptr_t>(part.data) % 4 == 0 &&
         part.page_stride % 4 == 0 && part.head_stride % 4 == 0 && part.token_stride % 4 == 0;
}

/// Whether pairs are whole chunks apart, and the tables' chunks at multiples of 16 bytes.
bool rope_chunks(const Rope& rope) {
  const auto aligned = [](const float* table) {
    return reinterpret_cast<std::uintptr_t>(table) % 16 == 0;
  };
  return !rope.interleaved && rope.width % 16 == 0 && aligned(rope.cos) && aligned(rope.sin);
}

/// A launch for K or for V: its part of the arguments, and the kernel.
struct SideLaunch {
  append::Side args;
  Entry<append::Args> kernel;
};

SideLaunch side_of(const AppendKvOptions& o, bool keys) {
  const KvCache& cache = o.cache;
  const HeadsView view = with_strides(keys ? o.k : o.v);
  const KvPart &codes = keys ? cache.k_codes : cache.v_codes,
               &scales = keys ? cache.k_scales : cache.v_scales;
  const Format format = block_format(cache.format);
  const bool fp8 = cache.format == KvFormat::fp8;
  append::Side side{};
  set_numerics(side.rules, format, o.numerics);
  if (fp8 || cache.format == KvFormat::nvfp4)
    side.rules.global_scale = (keys ? cache.k_global_scale : cache.v_global_scale).device_pointer();
  // One token a sequence: from a token to the next is from a sequence to the next. Strides of axes
  // of one say nothing.
  const std::int64_t to_next = view.tokens > 1  ? view.token_stride
                               : view.batch > 1 ? view.batch_stride
                                                : 0;
  side.input = view.data;
  side.batch = view.batch_stride;
  side.token = view.token_stride;
  side.head = view.head_stride;
  side.type = static_cast<std::int32_t>(view.dtype);
  side.codes = part_of(codes);
  side.scales = part_of(scales);
  side.transformed = keys && (o.rope.cos || cache.k_mean || cache.hadamard != 0);
  side.first = keys ? cache.first.k : cache.first.v;
  side.recent = keys ? cache.recent.k : cache.recent.v;

  static constexpr const char* modes[] = {"plain", "search", "general"};
  const KernelMode mode = fp8 ? KernelMode::plain : row_kernel_mode(format, o.numerics);
  const std::int64_t token_bytes = to_next * size_of(view.dtype);
  const bool evenly = (view.batch == 1 || view.batch_stride == view.tokens * to_next) &&
                      token_bytes < std::int64_t{1} << 32;
  side.token_bytes = static_cast<std::uint32_t>(token_bytes);
  const bool registers = mode != KernelMode::general && view.dtype != DType::f32 && evenly &&
                         append::has_whole_rows(static_cast<int>(cache.d));
  const bool in_halves = registers && side.transformed &&
                         append::has_halves(static_cast<int>(cache.d)) &&
                         (!o.rope.cos || (o.rope.width == cache.d && rope_chunks(o.rope)));
  // A word of scales lies in what neighbouring lanes have: a row, or half of it.
  side.scale_words =
      in_words(scales, kv_page::token_scale_bytes(cache.format, cache.d) / (in_halves ? 2 : 1));
  const char* const name = name_of(cache.format);
  const char* const of_mode = modes[static_cast<std::size_t>(mode)];
  if (in_halves) return {side, kernels::append_kv_halves(name, to_string(view.dtype), of_mode)};
  if (registers && !side.transformed)
    return {side, kernels::append_kv_registers(name, to_string(view.dtype), of_mode)};
  return {side, kernels::append_kv_shared(name, of_mode)};
}

append::Args args_of(const AppendKvOptions& o) {
  const KvCache& cache = o.cache;
  append::Args args{};
  args.offsets = o.offsets;
  args.tokens = static_cast<std::int32_t>(o.k.tokens);
  args.all_tokens = static_cast<std::int32_t>(o.k.batch * o.k.tokens);
  args.sequences = static_cast<std::int32_t>(cache.batch);
  args.kv_heads = static_cast<std::int32_t>(cache.kv_heads);
  args.d = static_cast<std::int32_t>(cache.d);
  args.row_shift = std::countr_zero(static_cast<std::uint64_t>(cache.d / 8));
  args.lengths = cache.lengths;
  args.page_table = cache.page_table;
  args.max_pages = cache.max_pages;
  args.pages = cache.pages;
  args.page_shift =
      cache.page_table ? std::countr_zero(static_cast<std::uint64_t>(cache.page_size)) : 31;
  args.capacity = static_cast<std::int32_t>(std::min(cache_capacity(cache), countable));
  args.first_count = static_cast<std::int32_t>(cache.first.count);
  args.recent_count = static_cast<std::int32_t>(cache.recent.count);
  args.cos = o.rope.cos;
  args.sin = o.rope.sin;
  args.rope_positions = static_cast<std::int32_t>(std::min(o.rope.positions, countable));
  args.rope_width = static_cast<std::int32_t>(o.rope.width);
  args.rope_interleaved = o.rope.interleaved;
  args.rope_chunks = rope_chunks(o.rope);
  args.hadamard = cache.hadamard;
  args.mean = cache.k_mean;
  return args;
}

}  // namespace

void append_kv(Device& device, const AppendKvOptions& o, Stream stream) {
  const KvCache& cache = o.cache;
  const std::int64_t tokens = o.k.batch * o.k.tokens;
  if (tokens == 0 || cache.batch == 0 || cache.pages == 0) return;
  check_device(device, o);
  check_countable("new tokens and heads", tokens * cache.kv_heads);
  check_countable("sequences", cache.batch);
  check_countable("copies", std::max(cache.first.count, cache.recent.count));
  append::Args args = args_of(o);
  // As many runs a warp as leave enough warps to fill the device.
  const std::int64_t rows = append::run_rows(args.d), most = append::most_runs(args.d),
                     runs = ceil_div(tokens, rows) * cache.kv_heads,
                     enough = runs / (32 * device.info().multiprocessors);
  args.runs = static_cast<std::int32_t>(std::clamp<std::int64_t>(enough, 1, most));
  args.turns = static_cast<std::int32_t>(
      args.runs * std::clamp<std::int64_t>(enough / args.runs, 1, append::most_windows));
  const std::int64_t warps = ceil_div(tokens, rows * args.turns) * cache.kv_heads;
  const SideLaunch k = side_of(o, true), v = side_of(o, false);
  const auto write = [&](const Entry<append::Args>& kernel, unsigned sides) {
    launch(device, kernel, operation,
           {.grid_x = static_cast<unsigned>(ceil_div(warps, append::warps)),
            .grid_y = 1,
            .grid_z = sides,
            .threads = append::threads,
            .column_shift = 0},
           args, stream);
  };
  args.sides[0] = k.args;
  args.sides[1] = v.args;
  if (k.kernel == v.kernel) return write(k.kernel, 2);
  write(k.kernel, 1);
  args.sides[0] = v.args;
  write(v.kernel, 1);
}

}  // namespace microscale::cuda
