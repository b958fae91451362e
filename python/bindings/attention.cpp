// attention(): over dense or block-scaled operands, or a cache.
#include <fmt/format.h>

#include "block_tensor.hpp"
#include "keywords.hpp"
#include "kv_cache.hpp"
#include "microscale/attention_plan.hpp"
#include "microscale/error.hpp"

namespace microscale::python {
namespace {

/// A dense array, or a BlockTensor of (batch, tokens, heads, d).
struct HeadsOperand {
  Array array;
  const BlockTensorObject* blocks = nullptr;
  BlockOperand operand;

  std::span<const std::int64_t> shape() const {
    return blocks ? std::span<const std::int64_t>(blocks->shape) : array.sizes();
  }
};

HeadsOperand take_heads(nb::handle object, const char* name) {
  HeadsOperand found;
  if (nb::try_cast(object, found.blocks) && found.blocks != nullptr) {
    found.operand = take_blocks(*found.blocks, name);
    found.array = found.operand.codes;
  } else {
    found.array = take(object, name);
  }
  return found;
}

AttentionInput input_of(HeadsOperand& heads, const Call& call) {
  call.require_here(heads.array);
  if (!heads.blocks) return heads_of(heads.array);
  set_global_scale(heads.operand, *heads.blocks, call);
  const std::span<const std::int64_t> shape = heads.shape();
  if ((shape.size() != 3 && shape.size() != 4) || heads.blocks->blocks.axis != BlockAxis::cols)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: a BlockTensor of shape {}; pass (batch, tokens, heads, d) with "
                            "blocks along d",
                            heads.array.name, shape_text(shape)));
  const std::size_t first = shape.size() - 3;
  return BlockHeadsView{heads.operand.view, first ? shape[0] : 1, shape[first], shape[first + 1]};
}

template <class Enum>
Enum choice(std::string_view word, const char* argument,
            std::initializer_list<std::pair<const char*, Enum>> known) {
  std::string names;
  for (const auto& [name, value] : known) {
    if (word == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: there is no '{}'; choose one of {}", argument, word, names));
}

struct AttentionWords {
  nb::handle k, v, cache, scale;
  bool causal;
  std::int64_t window;
  float softcap;
  nb::handle sinks, q_offsets, kv_offsets;
  std::int64_t max_q_len, max_kv_len;
  const char *accuracy, *probabilities, *format;
  bool v_along_tokens;
  int splits;
  bool return_lse;
  nb::handle out, out_dtype;
};

AttentionNumerics numerics_of(const AttentionWords& words) {
  AttentionNumerics numerics;
  numerics.accuracy = choice<AttentionAccuracy>(words.accuracy, "accuracy",
                                                {{"storage", AttentionAccuracy::storage},
                                                 {"one_term", AttentionAccuracy::one_term},
                                                 {"two_term", AttentionAccuracy::two_term}});
  numerics.probabilities = choice<ProbabilityRule>(words.probabilities, "probabilities",
                                                   {{"of_mode", ProbabilityRule::of_mode},
                                                    {"exact", ProbabilityRule::exact},
                                                    {"two_level", ProbabilityRule::two_level},
                                                    {"fp8", ProbabilityRule::fp8}});
  numerics.format = format_from(words.format);
  numerics.v_along_tokens = words.v_along_tokens;
  return numerics;
}

/// What is read: k and v, or a cache. The arrays that options refer to are the arguments'.
void set_keys(AttentionOptions& options, const AttentionWords& words, HeadsOperand& keys,
              HeadsOperand& values, const Call& call) {
  const bool dense = !words.k.is_none() && !words.v.is_none();
  if (dense == !words.cache.is_none() || words.k.is_none() != words.v.is_none())
    throw Error(ErrorCode::invalid_argument, "k, v, cache: pass k and v, or a cache, and not both");
  if (!dense) {
    const KvCacheObject* cache = nullptr;
    if (!nb::try_cast(words.cache, cache) || cache == nullptr)
      throw nb::type_error(fmt::format("cache: expected a KvCache, got {}",
                                       nb::type_name(words.cache.type()).c_str())
                               .c_str());
    call.require_here(array_of(*cache));
    options.cache = view_of(*cache, call);
    return;
  }
  keys = take_heads(words.k, "k");
  values = take_heads(words.v, "v");
  options.k = input_of(keys, call);
  options.v = input_of(values, call);
}

/// The array of results, in options.output.
nb::object make_result(AttentionOptions& options, const AttentionWords& words,
                       const HeadsOperand& q, const Call& call) {
  Array output;
  nb::object result;
  if (words.out.is_none()) {
    const DType type = !words.out_dtype.is_none() ? dtype_from(words.out_dtype, "out_dtype")
                       : q.blocks                 ? DType::bf16
                                                  : dense_type(q.array);
    result = call.make(dl_type(type), q.shape(), output);
    if (options.q_offsets)  // queries of no sequence are not written
      call.set_zero({static_cast<std::uint8_t*>(output.data),
                     static_cast<std::size_t>(output.elements() * size_of(type))});
  } else {
    output = take(words.out, "out", Access::write);
    call.require_here(output);
    if (!std::ranges::equal(output.sizes(), q.shape()))
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("out: the {} must have q's shape {}", describe(output),
                              shape_text(q.shape())));
    result = nb::borrow(words.out);
  }
  options.output = output_heads_of(output);
  return result;
}

nb::object run_attention(nb::handle q, const AttentionWords& words, const RunWords& run) {
  HeadsOperand queries = take_heads(q, "q"), keys, values;
  Call call(queries.array, run);
  AttentionOptions options;
  options.q = input_of(queries, call);
  set_keys(options, words, keys, values, call);
  if (!words.scale.is_none()) options.scale = number_of(words.scale, "scale");
  options.causal = words.causal;
  options.window = words.window;
  options.softcap = words.softcap;
  const std::span<const std::int64_t> shape = queries.shape();
  options.sinks = floats_of(words.sinks, "sinks", call, shape[shape.size() - 2]);
  options.q_offsets = integers_of(words.q_offsets, "q_offsets", call);
  options.kv_offsets = integers_of(words.kv_offsets, "kv_offsets", call);
  if (options.q_offsets) options.sequences = take(words.q_offsets, "q_offsets").elements() - 1;
  if (options.kv_offsets) {
    const std::int64_t count = take(words.kv_offsets, "kv_offsets").elements() - 1;
    if (options.q_offsets && count != options.sequences)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("kv_offsets: {} sequences, q_offsets have {}", count, options.sequences));
    options.sequences = count;
  }
  options.max_q_len = words.max_q_len;
  options.max_kv_len = words.max_kv_len;
  options.numerics = numerics_of(words);
  options.splits = words.splits;
  const nb::object result = make_result(options, words, queries, call);
  nb::object log_sums = nb::none();
  if (words.return_lse) {
    Array made;
    log_sums = call.make(float32_type, shape.first(shape.size() - 1), made);
    options.log_sum_exp = static_cast<float*>(made.data);
    if (options.q_offsets)
      call.set_zero({static_cast<std::uint8_t*>(made.data),
                     sizeof(float) * static_cast<std::size_t>(made.elements())});
  }
  if (call.memory() == Memory::host) {
    call.run([&](const Context& context) { attention(options, context); });
  } else {
    const AttentionPlan plan(options, call.context());
    call.give_workspace(plan.workspace_bytes());
    call.run([&](const Context& context) { plan.run(options, context); });
  }
  return words.return_lse ? nb::object(nb::make_tuple(result, log_sums)) : result;
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, nb::handle cache, nb::handle scale, bool causal,
         std::int64_t window, float softcap, nb::handle sinks, nb::handle q_offsets,
         nb::handle kv_offsets, std::int64_t max_q_len, std::int64_t max_kv_len,
         const char* accuracy, const char* probabilities, const char* format, bool v_along_tokens,
         int splits, bool return_lse, nb::handle out, nb::handle out_dtype, RUN_PARAMETERS) {
        return run_attention(q, {k,         v,
                                 cache,     scale,
                                 causal,    window,
                                 softcap,   sinks,
                                 q_offsets, kv_offsets,
                                 max_q_len, max_kv_len,
                                 accuracy,  probabilities,
                                 format,    v_along_tokens,
                                 splits,    return_lse,
                                 out,       out_dtype},
                             RUN_WORDS);
      },
      nb::arg("q").none(), nb::arg("k") = nb::none(), nb::arg("v") = nb::none(), nb::kw_only(),
      nb::arg("cache") = nb::none(), nb::arg("scale") = nb::none(), nb::arg("causal") = false,
      nb::arg("window") = 0, nb::arg("softcap") = 0.0f, nb::arg("sinks") = nb::none(),
      nb::arg("q_offsets") = nb::none(), nb::arg("kv_offsets") = nb::none(),
      nb::arg("max_q_len") = 0, nb::arg("max_kv_len") = 0, nb::arg("accuracy") = "storage",
      nb::arg("probabilities") = "of_mode", nb::arg("format") = "nvfp4",
      nb::arg("v_along_tokens") = false, nb::arg("splits") = 0, nb::arg("return_lse") = false,
      nb::arg("out") = nb::none(), nb::arg("out_dtype") = nb::none(), RUN_ARGUMENTS,
      nb::sig("def attention(q: Array | BlockTensor, k: Array | BlockTensor | None = None, v: "
              "Array | BlockTensor | None = None, *, cache: KvCache | None = None, scale: float | "
              "None = None, causal: bool = False, window: int = 0, softcap: float = 0.0, sinks: "
              "Array | None = None, q_offsets: Array | None = None, kv_offsets: Array | None = "
              "None, max_q_len: int = 0, max_kv_len: int = 0, accuracy: str = 'storage', "
              "probabilities: str = 'of_mode', format: str = 'nvfp4', v_along_tokens: bool = "
              "False, splits: int = 0, return_lse: bool = False, out: Array | None = None, "
              "out_dtype: DTypeLike = None, " RUN_SIGNATURE ") -> Any"),
      "softmax(scale * q @ k.T + mask) @ v.\n\n"
      "q: (batch, tokens, heads, d), d a multiple of 32 up to 256; k, v: (batch, tokens, "
      "kv_heads,\n"
      "d), arrays or BlockTensors; or cache=. scale: 1 / sqrt(d) if left out. causal: query i of "
      "q\n"
      "stands at position kv_len - q_len + i. window: keys a query sees, itself counted; 0 is "
      "all.\n"
      "softcap: c * tanh(s / c). sinks: float32 (heads,). q_offsets, kv_offsets: int32, sequences "
      "in\n"
      "one row, q (tokens, heads, d); max_q_len and max_kv_len bound their lengths for a GPU. "
      "Queries\n"
      "of no sequence are zeros in a new result.\n"
      "accuracy: 'storage' rounds no operand further, 'one_term' and 'two_term' compute in FP4.\n"
      "docs/attention.md has the formulas and bounds. With return_lse: (result, log of the sums,\n"
      "float32 (batch, tokens, heads)).");
}

}  // namespace microscale::python
