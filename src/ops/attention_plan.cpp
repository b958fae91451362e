// AttentionPlan: a checked call whose kernels are chosen, and what a later one may differ in.
#include "microscale/attention_plan.hpp"

#include <fmt/format.h>

#include <new>

#include "core/out_of_memory.hpp"
#include "microscale/error.hpp"
#include "ops/attention_check.hpp"
#include "ops/attention_run.hpp"
#include "ops/backends.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

template <class View>
bool alike_rows(const View& a, const View& b) {
  return a.dtype == b.dtype && a.batch == b.batch && a.tokens == b.tokens && a.heads == b.heads &&
         a.d == b.d && a.head_stride == b.head_stride && a.token_stride == b.token_stride &&
         a.batch_stride == b.batch_stride;
}
bool alike(const AttentionInput& a, const AttentionInput& b) {
  if (a.index() != b.index()) return false;
  if (const auto* dense = std::get_if<HeadsView>(&a))
    return alike_rows(*dense, std::get<HeadsView>(b));
  const auto &x = std::get<BlockHeadsView>(a), &y = std::get<BlockHeadsView>(b);
  return x.rows.shape == y.rows.shape && x.batch == y.batch && x.tokens == y.tokens &&
         x.heads == y.heads;
}
bool alike(const KvPart& a, const KvPart& b) {
  return a.page_stride == b.page_stride && a.head_stride == b.head_stride &&
         a.token_stride == b.token_stride;
}
bool both_or_none(const void* a, const void* b) { return (a != nullptr) == (b != nullptr); }
bool alike(const KvCache& a, const KvCache& b) {
  return a.format == b.format && a.batch == b.batch && a.kv_heads == b.kv_heads && a.d == b.d &&
         a.page_size == b.page_size && a.pages == b.pages && a.max_pages == b.max_pages &&
         alike(a.k_codes, b.k_codes) && alike(a.k_scales, b.k_scales) &&
         alike(a.v_codes, b.v_codes) && alike(a.v_scales, b.v_scales) &&
         a.first.count == b.first.count && a.recent.count == b.recent.count &&
         a.hadamard == b.hadamard && both_or_none(a.page_table, b.page_table) &&
         both_or_none(a.k_mean, b.k_mean);
}
bool alike(const std::optional<KvCache>& a, const std::optional<KvCache>& b) {
  return a.has_value() == b.has_value() && (!a || alike(*a, *b));
}

/// What of a call is not as the plan's; null: nothing.
const char* difference(const AttentionOptions& plan, const AttentionOptions& now) {
  if (!alike(plan.q, now.q)) return "q";
  if (!alike(plan.cache, now.cache)) return "the cache";
  if (!plan.cache && !alike(plan.k, now.k)) return "k";
  if (!plan.cache && !alike(plan.v, now.v)) return "v";
  if (!alike_rows(plan.output, now.output)) return "the output";
  if (plan.scale != now.scale) return "the scale";
  if (plan.causal != now.causal || plan.window != now.window) return "the mask";
  if (plan.softcap != now.softcap) return "the softcap";
  if (!both_or_none(plan.q_offsets, now.q_offsets) ||
      !both_or_none(plan.kv_offsets, now.kv_offsets) || plan.sequences != now.sequences)
    return "how sequences are packed";
  if (plan.max_q_len != now.max_q_len || plan.max_kv_len != now.max_kv_len)
    return "the bounds of lengths";
  if (plan.numerics != now.numerics) return "the numerics";
  if (plan.splits != now.splits) return "the number of splits";
  return nullptr;
}

}  // namespace

struct AttentionPlan::Kept {
  AttentionOptions options;
  Backend backend;
  const AttentionKernels* on_cpu = nullptr;
  std::unique_ptr<GpuAttentionPlan> on_gpu{};

  Kept(const AttentionOptions& made_of, const Context& context)
      : options(made_of), backend(context.backend) {
    const AttentionCall call = check_attention(made_of, attention_runs_on_device(made_of, context));
    if (call.on_device)
      on_gpu = gpu_operations("attention").keep_attention_plan(call);
    else
      on_cpu = choose_attention_kernels(call, context);
  }

  void run(const AttentionOptions& now, const Context& context) const {
    const auto refuse = [](const std::string& sentence) {
      throw Error(ErrorCode::invalid_argument, "attention: " + sentence);
    };
    if (context.backend != backend)
      refuse(fmt::format("this plan was made for backend {}, the context says {}; make one for it",
                         to_string(backend), to_string(context.backend)));
    if (const char* what = difference(options, now))
      refuse(
          fmt::format("this plan was made with other options: {} differs, in shape, strides, "
                      "type, format or value; make a plan of these options",
                      what));
    const bool on_device = attention_runs_on_device(now, context);
    if (on_device != (on_gpu != nullptr))
      refuse(
          fmt::format("this plan was made for operands in {} memory, these are in {} memory; "
                      "make one for them",
                      on_gpu ? "device" : "host", on_device ? "device" : "host"));
    const AttentionCall call = check_attention(now, on_device);
    if (on_gpu) return on_gpu->run(call, context.workspace, context.stream);
    run_attention(call, context, on_cpu);
  }
};

AttentionPlan::AttentionPlan(const AttentionOptions& options, const Context& context)
    : kept_(std::make_unique<Kept>(options, context)) {}
AttentionPlan::AttentionPlan(AttentionPlan&&) noexcept = default;
AttentionPlan& AttentionPlan::operator=(AttentionPlan&&) noexcept = default;
AttentionPlan::~AttentionPlan() = default;

std::int64_t AttentionPlan::workspace_bytes() const {
  return kept_->on_gpu ? kept_->on_gpu->workspace_bytes() : 0;
}

std::string AttentionPlan::describe() const {
  if (kept_->on_gpu) return kept_->on_gpu->describe();
  return kept_->on_cpu ? std::string(name_of(*kept_->on_cpu)) : "nothing to do";
}

void AttentionPlan::run(const AttentionOptions& options, const Context& context) const try {
  kept_->run(options, context);
} catch (const std::bad_alloc&) {
  throw_out_of_memory("attention");
}

}  // namespace microscale
