#include "attention_plans.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "cuda/attention/attention.hpp"
#include "microscale/error.hpp"
#include "ops/attention_check.hpp"
#include "seam/kv_cache_view.hpp"

namespace microscale {
namespace {

using enum Format;

/// A call: over a cache, or over k and v. A format that is absent: BF16.
struct Kind {
  std::optional<Format> q{}, k{}, v{};
  std::optional<KvFormat> cache{};
  std::int64_t batch = 1, q_len = 1, kv_len = 8192, q_heads = 32, kv_heads = 8, d = 128;
  std::int64_t page = 64;  // tokens
  AttentionNumerics numerics{};
};

constexpr AttentionNumerics one_term{.accuracy = AttentionAccuracy::one_term};
constexpr AttentionNumerics two_term{.accuracy = AttentionAccuracy::two_term};
constexpr AttentionNumerics along_tokens{.accuracy = AttentionAccuracy::one_term,
                                         .v_along_tokens = true};
constexpr AttentionNumerics exact_term{.accuracy = AttentionAccuracy::one_term,
                                       .probabilities = ProbabilityRule::exact};
constexpr AttentionNumerics fp8_term{.accuracy = AttentionAccuracy::one_term,
                                     .probabilities = ProbabilityRule::fp8};

const Kind kinds[] = {
    {.cache = KvFormat::nvfp4, .batch = 64},
    {.cache = KvFormat::nvfp4, .kv_len = 131072},
    {.cache = KvFormat::nvfp4, .batch = 64, .page = 16},
    {.cache = KvFormat::nvfp4, .batch = 64, .q_heads = 64},
    {.cache = KvFormat::nvfp4, .batch = 64, .q_heads = 128},
    {.cache = KvFormat::nvfp4, .batch = 64, .d = 96},
    {.cache = KvFormat::nvfp4, .batch = 64, .d = 256},
    {.cache = KvFormat::mxfp4, .batch = 64},
    {.cache = KvFormat::mxfp8, .batch = 64},
    {.cache = KvFormat::mxfp8, .batch = 64, .d = 256},
    {.cache = KvFormat::fp8, .batch = 64},
    {.cache = KvFormat::nvfp4, .q_len = 16},
    {.cache = KvFormat::nvfp4, .q_len = 512},
    {.cache = KvFormat::mxfp4, .q_len = 8192},
    {.q_len = 4096, .kv_len = 4096},
    {.q = nvfp4, .k = nvfp4, .v = nvfp4, .q_len = 4096, .kv_len = 4096},
    {.q = nvfp4, .k = nvfp4, .v = nvfp4, .q_len = 4096, .kv_len = 4096, .d = 64},
    {.q = mxfp8_e4m3, .k = mxfp4, .v = nvfp4, .q_len = 4096, .kv_len = 4096},
    {.q = mxfp4, .k = mxfp4, .v = mxfp4, .q_len = 4096, .kv_len = 4096},
    {.q = mxfp4, .k = mxfp4, .v = mxfp4, .q_len = 4096, .kv_len = 4096, .numerics = fp8_term},
    {.q = nvfp4, .cache = KvFormat::nvfp4, .numerics = one_term},
    {.cache = KvFormat::nvfp4, .numerics = one_term},
    {.cache = KvFormat::nvfp4, .q_len = 512, .numerics = two_term},
    {.q_len = 4096, .kv_len = 4096, .numerics = along_tokens},
    {.q_len = 4096, .kv_len = 4096, .numerics = two_term},
    {.q_len = 4096, .kv_len = 4096, .d = 256, .numerics = exact_term},
};

/// Memory that does not exist; only its address counts.
std::uint8_t* memory(int number) {
  return reinterpret_cast<std::uint8_t*>(static_cast<std::uintptr_t>(number) << 42);
}

AttentionInput input_of(std::optional<Format> format, int number, std::int64_t batch,
                        std::int64_t tokens, std::int64_t heads, std::int64_t d) {
  if (!format) return HeadsView{memory(number), DType::bf16, batch, tokens, heads, d};
  const BlockShape shape{batch * tokens * heads, d, *format};
  return BlockHeadsView{
      {.shape = shape,
       .codes = {memory(number), static_cast<std::size_t>(shape.code_bytes())},
       .scales = {memory(number + 1), static_cast<std::size_t>(shape.scale_bytes())},
       .global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(memory(20)))},
      batch,
      tokens,
      heads};
}

AttentionOptions options_of(const Kind& kind) {
  AttentionOptions o{.q = input_of(kind.q, 1, kind.batch, kind.q_len, kind.q_heads, kind.d)};
  o.output = {memory(3), DType::bf16, kind.batch, kind.q_len, kind.q_heads, kind.d};
  o.causal = true;
  o.numerics = kind.numerics;
  if (!kind.cache) {
    o.k = input_of(kind.k, 4, kind.batch, kind.kv_len, kind.kv_heads, kind.d);
    o.v = input_of(kind.v, 6, kind.batch, kind.kv_len, kind.kv_heads, kind.d);
    return o;
  }
  const KvPageShape page{*kind.cache, kind.kv_heads, kind.d, kind.page};
  const std::int64_t pages = kind.batch * kind.kv_len / kind.page;
  KvCache cache =
      kv_cache_of_records(page, {memory(4), static_cast<std::size_t>(pages * page.page_bytes())});
  cache.batch = kind.batch;
  cache.max_pages = kind.kv_len / kind.page;
  cache.page_table = cache.lengths = reinterpret_cast<const std::int32_t*>(memory(8));
  cache.k_global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(memory(20)));
  cache.v_global_scale = GlobalScale::on_device(reinterpret_cast<const float*>(memory(20)) + 1);
  o.cache = cache;
  return o;
}

/// "bf16 over nvfp4, pages of 16", "mxfp4, one term, P in FP8"
std::string name_of(const Kind& kind) {
  const auto format = [](std::optional<Format> f) {
    return std::string(f ? info(*f).name : to_string(DType::bf16));
  };
  std::string name = format(kind.q);
  if (kind.cache)
    name += fmt::format(" over {}{}", name_of(*kind.cache),
                        kind.page == 64 ? "" : fmt::format(", pages of {}", kind.page));
  else if (kind.k != kind.q || kind.v != kind.q)
    name += fmt::format(", {}, {}", format(kind.k), format(kind.v));
  const AttentionNumerics& n = kind.numerics;
  if (n.accuracy == AttentionAccuracy::one_term) name += ", one term";
  if (n.accuracy == AttentionAccuracy::two_term) name += ", two terms";
  if (n.probabilities == ProbabilityRule::exact) name += ", exact";
  if (n.probabilities == ProbabilityRule::fp8) name += ", P in FP8";
  if (n.v_along_tokens) name += ", V along tokens";
  return name;
}

struct Row {
  std::string call, shape, plan;
  std::int64_t workspace_bytes = 0;
};

Row row_of(const Kind& kind, const cuda::DeviceInfo& gpu) {
  Row row{.call = name_of(kind),
          .shape = fmt::format("{} x {} x {}, {}/{}, {}", kind.batch, kind.q_len, kind.kv_len,
                               kind.q_heads, kind.kv_heads, kind.d),
          .plan = {}};
  const AttentionOptions options = options_of(kind);
  try {
    const cuda::attention::Plan plan =
        cuda::attention::choose(cuda::DeviceFacts(gpu), check_attention(options, true));
    row.plan = cuda::attention::describe_kernels(plan);
    row.workspace_bytes = plan.workspace_bytes();
  } catch (const Error& refusal) {
    if (refusal.code() != ErrorCode::unsupported) throw;
    row.plan = "refused";
  }
  return row;
}

}  // namespace

std::string attention_plans_text() {
  std::string text;
  for (const char* name : cuda::planned_gpus) {
    const cuda::DeviceInfo& gpu = cuda::described_gpu(name);
    text += fmt::format("{}{}, {} multiprocessors\n", text.empty() ? "h100 and " : "\n", name,
                        gpu.multiprocessors);
    for (const Kind& kind : kinds) {
      const Row row = row_of(kind, gpu);
      text += fmt::format(
          "  {:<33} {:<26} {}{}\n", row.call, row.shape, row.plan,
          row.workspace_bytes > 0 ? fmt::format("; {} bytes", row.workspace_bytes) : "");
    }
  }
  return text;
}

nlohmann::ordered_json attention_plans_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const char* name : cuda::planned_gpus) {
    const cuda::DeviceInfo& gpu = cuda::described_gpu(name);
    nlohmann::ordered_json plans = nlohmann::ordered_json::array();
    for (const Kind& kind : kinds) {
      const Row row = row_of(kind, gpu);
      plans.push_back({{"call", row.call},
                       {"batch", kind.batch},
                       {"queries", kind.q_len},
                       {"keys", kind.kv_len},
                       {"q_heads", kind.q_heads},
                       {"kv_heads", kind.kv_heads},
                       {"d", kind.d},
                       {"plan", row.plan},
                       {"workspace_bytes", row.workspace_bytes}});
    }
    all.push_back({{"gpu", gpu.name}, {"multiprocessors", gpu.multiprocessors}, {"plans", plans}});
  }
  return {{"operation", "attention"}, {"gpus", all}};
}

}  // namespace microscale
