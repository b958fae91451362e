// Decoding on a GPU with a paged NVFP4 cache of keys and values: a prompt is appended, then token
// after token, each attending to all before it. `build/example_gpu_decode` prints the last token's
// first outputs beside a CPU's, and fails if they are apart. Without a GPU,
// MICROSCALE_BACKEND=emulator-sm90 runs the same kernels.
#include <bit>
#include <cmath>
#include <cstdio>
#include <vector>

#include "microscale/attention.hpp"
#include "microscale/cuda.hpp"
#include "microscale/device_buffer.hpp"

using namespace microscale;

constexpr std::int64_t q_heads = 8, kv_heads = 2, d = 128, prompt = 40, steps = 3, page_size = 16;

// q of every step, k and v of every token, in BF16.
std::vector<std::uint16_t> made_up(std::int64_t count, float step) {
  std::vector<std::uint16_t> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(std::sin(step * i)) >> 16);
  return rows;
}

int main() try {
  const KvPageShape page{KvFormat::nvfp4, kv_heads, d, page_size};
  const auto q = made_up(q_heads * d, 0.7f), k = made_up((prompt + steps) * kv_heads * d, 0.3f),
             v = made_up((prompt + steps) * kv_heads * d, 0.011f);
  const std::int32_t page_table[] = {2, 0, 1};               // three pages, in any order
  const float global_scales[] = {1.0f / 2688, 1.0f / 2688};  // of K and V, magnitudes up to 1
  const std::vector<std::uint8_t> zeros(static_cast<std::size_t>(3 * page.page_bytes()));
  std::int32_t length = prompt;

  const DeviceBuffer q_there = DeviceBuffer::copy_of(std::span(q)),
                     k_there = DeviceBuffer::copy_of(std::span(k)),
                     v_there = DeviceBuffer::copy_of(std::span(v)),
                     table = DeviceBuffer::copy_of(std::span(page_table)),
                     globals = DeviceBuffer::copy_of(std::span(global_scales)),
                     pages = DeviceBuffer::copy_of(std::span(zeros)),  // read whole
      output(q_heads * d * 4);
  DeviceBuffer lengths = DeviceBuffer::copy_of(std::span(&length, 1));
  KvCache cache = on_device(kv_cache_of_records(page, pages.bytes()));
  cache.batch = 1;
  cache.page_table = table.as<const std::int32_t>();
  cache.max_pages = 3;
  cache.lengths = lengths.as<const std::int32_t>();
  cache.k_global_scale = GlobalScale::on_device(globals.as<const float>());
  cache.v_global_scale = GlobalScale::on_device(globals.as<const float>() + 1);
  const auto rows = [](const DeviceBuffer& of, std::int64_t first, std::int64_t count) {
    return HeadsView(packed(of.as<std::uint16_t>() + first * kv_heads * d, DType::bf16, 1, count,
                            kv_heads, d, Memory::device));
  };
  const AttentionOptions attend{
      .q = HeadsView(packed(q_there.data(), DType::bf16, 1, 1, q_heads, d, Memory::device)),
      .cache = cache,
      .output = packed(output.data(), DType::f32, 1, 1, q_heads, d, Memory::device),
      .causal = true};
  const DeviceBuffer workspace(attention_workspace_bytes(attend, {}));

  append_kv({.cache = cache, .k = rows(k_there, 0, prompt), .v = rows(v_there, 0, prompt)});
  while (length < prompt + steps) {
    const std::int64_t token = length++;
    lengths.copy_from(std::span(&length, 1));
    append_kv({.cache = cache, .k = rows(k_there, token, 1), .v = rows(v_there, token, 1)});
    attention(attend, {.workspace = workspace.bytes()});
  }
  std::vector<float> got(q_heads * d), wanted(q_heads * d);
  output.copy_to(std::span(got));

  // The same pages, read by the CPU.
  alignas(16) static std::uint8_t memory[3 * 2 * page_size * 144];
  pages.copy_to(std::span(memory));
  KvCache on_host = kv_cache_of_records(page, memory);
  on_host.batch = 1;
  on_host.page_table = page_table;
  on_host.max_pages = 3;
  on_host.lengths = &length;
  on_host.k_global_scale = on_host.v_global_scale = global_scales[0];
  attention({.q = packed(static_cast<const void*>(q.data()), DType::bf16, 1, 1, q_heads, d),
             .cache = on_host,
             .output = packed(wanted.data(), DType::f32, 1, 1, q_heads, d),
             .causal = true});
  float apart = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    apart = std::fmax(apart, std::fabs(got[i] - wanted[i]));
  std::printf("%s: %g %g %g, CPU: %g %g %g; at most %g apart\n", cuda::device_name().c_str(),
              got[0], got[1], got[2], wanted[0], wanted[1], wanted[2], apart);
  return apart < 1e-3f ? 0 : 1;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
