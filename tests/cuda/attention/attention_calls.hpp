// Calls of attention on memory that is never touched, for tests that ask what a device is told.
#pragma once

#include <cstring>
#include <optional>
#include <random>

#include "cuda/attention/attention.hpp"
#include "fake_device.hpp"
#include "ops/attention_check.hpp"

namespace microscale::cuda::test {

/// Memory `i` of a call: 2^40 bytes, apart from the others.
inline std::uint8_t* memory(std::uint64_t i) { return reinterpret_cast<std::uint8_t*>(i << 40); }
template <class T>
T* memory_of(std::uint64_t i) {
  return reinterpret_cast<T*>(memory(i));
}
constexpr std::uint64_t workspace_memory = 30;

/// A call; what is not set does not take part.
struct Wanted {
  std::optional<Format> q{}, k{}, v{};  // none: dense, of `type`
  DType type = DType::bf16;
  std::optional<KvFormat> cache{};  // instead of k and v
  std::int64_t batch = 1, q_len = 1, kv_len = 64, q_heads = 32, kv_heads = 8, d = 128;
  std::int64_t page = 64;  // tokens, of a page table; 0: contiguous
  bool offsets = false, mean = false, copies = false;
  int hadamard = 0;
  AttentionNumerics numerics{};
  int splits = 0;
  float softcap = 0;
  std::uint64_t shift = 0;  // other memory: all buffers so many further
};

inline AttentionInput input_of(const Wanted& w, std::optional<Format> format, std::uint64_t at,
                               std::int64_t tokens, std::int64_t heads) {
  const std::int64_t batch = w.offsets ? 1 : w.batch;
  if (w.offsets) tokens *= w.batch;
  if (!format) return HeadsView{memory(at), w.type, batch, tokens, heads, w.d};
  const BlockShape shape{batch * tokens * heads, w.d, *format};
  return BlockHeadsView{
      {.shape = shape,
       .codes = {memory(at), static_cast<std::size_t>(shape.code_bytes())},
       .scales = {memory(at + 1), static_cast<std::size_t>(shape.scale_bytes())},
       .global_scale = GlobalScale::on_device(memory_of<const float>(12 + w.shift))},
      batch,
      tokens,
      heads};
}

inline AttentionOptions options_of(const Wanted& w) {
  AttentionOptions o{.q = input_of(w, w.q, 1 + w.shift, w.q_len, w.q_heads)};
  o.output = {
      memory(3 + w.shift), w.type, w.offsets ? 1 : w.batch, w.offsets ? w.q_len * w.batch : w.q_len,
      w.q_heads,           w.d};
  o.causal = true;
  o.numerics = w.numerics;
  o.splits = w.splits;
  o.softcap = w.softcap;
  if (w.offsets) {
    o.q_offsets = memory_of<const std::int32_t>(10 + w.shift);
    o.sequences = w.batch;
  }
  if (!w.cache) {
    o.k = input_of(w, w.k, 4 + w.shift, w.kv_len, w.kv_heads);
    o.v = input_of(w, w.v, 6 + w.shift, w.kv_len, w.kv_heads);
    if (w.offsets) o.kv_offsets = memory_of<const std::int32_t>(11 + w.shift);
    return o;
  }
  const KvPageShape page{*w.cache, w.kv_heads, w.d, w.page > 0 ? w.page : w.kv_len};
  const std::int64_t pages = w.batch * (w.kv_len / page.page_size);
  KvCache cache = kv_cache_of_records(
      page, {memory(4 + w.shift), static_cast<std::size_t>(pages * page.page_bytes())});
  cache.batch = w.batch;
  cache.lengths = memory_of<const std::int32_t>(8 + w.shift);
  if (w.page > 0) {
    cache.page_table = memory_of<const std::int32_t>(9 + w.shift);
    cache.max_pages = w.kv_len / w.page;
  }
  cache.k_global_scale = GlobalScale::on_device(memory_of<const float>(12 + w.shift));
  cache.v_global_scale = GlobalScale::on_device(memory_of<const float>(12 + w.shift) + 1);
  if (w.mean) cache.k_mean = memory_of<const float>(13 + w.shift);
  cache.hadamard = w.hadamard;
  if (w.copies)
    cache.recent = {4, memory_of<std::uint16_t>(14 + w.shift),
                    memory_of<std::uint16_t>(15 + w.shift)};
  o.cache = cache;
  return o;
}

/// A call of any kind; some of them no kernel serves.
inline Wanted any_call(std::mt19937& random) {
  const auto among = [&]<class T>(std::initializer_list<T> all) {
    return all.begin()[random() % all.size()];
  };
  const auto number = [&](std::initializer_list<std::int64_t> all) { return among(all); };
  const auto one_in = [&](unsigned count) { return random() % count == 0; };
  Wanted w;
  using enum Format;
  if (one_in(2)) {
    w.cache = among({KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8});
    w.page = number({16, 32, 64, 0});
    w.mean = one_in(6), w.copies = one_in(6);
    if (one_in(6)) w.hadamard = 16;
    if (one_in(4)) w.splits = among({1, 2, 7});
  } else if (one_in(2)) {
    w.k = among({nvfp4, nvfp4, mxfp4, mxfp8_e4m3});
    w.v = one_in(2) ? nvfp4 : w.k;
  }
  if (one_in(3)) w.q = w.k.value_or(among({nvfp4, mxfp4, mxfp8_e4m3}));
  w.type = among({DType::bf16, DType::f16, DType::f32});
  w.batch = number({1, 2, 9, 20});
  w.q_len = number({1, 1, 3, 40, 600, 4096});
  w.kv_len = number({64, 192, 4096, 131072});
  w.kv_heads = number({1, 8});
  w.q_heads = w.kv_heads * number({1, 4, 16});
  w.d = number({64, 128, 128, 256, 96, 32});
  w.offsets = one_in(4);
  if (one_in(2)) {
    w.numerics.accuracy = among({AttentionAccuracy::one_term, AttentionAccuracy::two_term});
    w.numerics.probabilities = among({ProbabilityRule::of_mode, ProbabilityRule::exact,
                                      ProbabilityRule::two_level, ProbabilityRule::fp8});
    w.numerics.v_along_tokens = one_in(2);
  }
  if (one_in(4)) w.softcap = 30;
  return w;
}

constexpr std::uint64_t elsewhere = 100;  // where a call has its memory, if not from 0 on

/// The words of a launch's arguments that are addresses in the workspace, or there.
inline std::vector<std::uint64_t> pointers_of(const FakeDevice::Seen& seen) {
  std::vector<std::uint64_t> pointers;
  for (std::size_t at = 0; at + 8 <= seen.args.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, seen.args.data() + at, 8);
    const std::uint64_t number = word >> 40;
    if (number == workspace_memory || (number > elsewhere && number < elsewhere + 20))
      pointers.push_back(word);
  }
  return pointers;
}

/// The launches of a call, in a workspace of its size.
inline const std::vector<FakeDevice::Seen>& launches_of(FakeDevice& device,
                                                        const AttentionOptions& o) {
  const AttentionCall call = check_attention(o, true);
  const auto bytes = static_cast<std::size_t>(attention::workspace_bytes(device, call));
  device.launches.clear();
  attention::attend(device, call, {memory(workspace_memory), bytes}, nullptr);
  return device.launches;
}
inline std::vector<std::string> names_of(FakeDevice& device, const AttentionOptions& o) {
  std::vector<std::string> names;
  for (const auto& seen : launches_of(device, o)) names.push_back(seen.name);
  return names;
}

}  // namespace microscale::cuda::test
