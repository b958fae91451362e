#include "cuda/attention/block_scaled/plan.hpp"

#include <fmt/format.h>

#include "cuda/attention/items.hpp"
#include "microscale/error.hpp"

namespace microscale::cuda::attention::block_scaled {

void refuse(const std::string& sentence) {
  refuse_attention("on compute capability 12.x " + sentence);
}

void check_served(const AttentionCall& call) {
  const AttentionOptions& o = call.options;
  if (call.d != 64 && call.d != 128 && call.d != 256)
    refuse(
        fmt::format("has kernels for d = 64, 128 and 256, not {}, but for a dense q over a cache "
                    "with accuracy `storage`; take that, pad d with zeros, or take a host backend",
                    call.d));
  if (call.probabilities == ProbabilityRule::fp8)
    refuse("has no probabilities in FP8; take two_level or exact ones, or a host backend");
  if (o.numerics.accuracy == AttentionAccuracy::storage &&
      !(call.q_blocks() && (o.cache || (std::holds_alternative<BlockHeadsView>(o.k) &&
                                        std::holds_alternative<BlockHeadsView>(o.v)))))
    refuse(
        "multiplies codes: with accuracy `storage` q, k and v must be block-scaled, or q dense "
        "over a cache; quantize them, append k and v to a cache, or take one_term or two_term");
}

void check_cache_served(const KvCache& cache) {
  if (cache.format != KvFormat::nvfp4)
    refuse(
        "reads caches in NVFP4 alone, but with a dense q and accuracy `storage`; take either, or a "
        "host backend");
  if (cache.pages >= std::int64_t{1} << 31)
    refuse(fmt::format("numbers up to 2^31 pages, not {}; take fewer", cache.pages));
  if (cache.first.count > 0 || cache.recent.count > 0)
    refuse(
        "reads BF16 copies with a dense q and accuracy `storage` alone; take these, keep none, or "
        "take a host backend");
  if (cache.k_mean || cache.hadamard != 0)
    refuse(
        "takes K with a mean or a Hadamard transform for a dense q and accuracy `storage` alone; "
        "take these, append K as it was, or take a host backend");
}

void check_scales_aligned(const KvCache& cache) {
  for (const KvPart* part : {&cache.k_scales, &cache.v_scales})
    if (cache.pages > 0 &&
        (reinterpret_cast<std::uintptr_t>(part->data) % 4 != 0 || part->page_stride % 4 != 0 ||
         part->head_stride % 4 != 0 || part->token_stride % 4 != 0))
      refuse(
          "reads four scales at a time; the cache's scales and their strides must be at "
          "multiples of 4 bytes");
}

void check_aligned(const char* name, const BlockHeadsView* view) {
  if (view && (reinterpret_cast<std::uintptr_t>(view->rows.codes.data()) % 16 != 0 ||
               reinterpret_cast<std::uintptr_t>(view->rows.scales.data()) % 16 != 0))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: codes and scales of {} must be at multiples of 16 bytes",
                            operation, name));
}

void check_formats(const AttentionCall& call, Format q, Format k, Format v, bool along_tokens) {
  const int terms = call.two_term ? 2 : 1;
  const bool nvfp4 = q == Format::nvfp4 && k == Format::nvfp4,
             mxfp4 = (q == Format::mxfp4 || q == Format::mxfp8_e4m3) && k == Format::mxfp4;
  if (!(nvfp4 || mxfp4) || v != Format::nvfp4)
    refuse(fmt::format(
        "multiplies q and k in nvfp4, or q in mxfp4 or mxfp8_e4m3 and k in mxfp4, and v in nvfp4, "
        "not q in {}, k in {} and v in {}; take these, or a host backend",
        info(q).name, info(k).name, info(v).name));
  if (mxfp4 && (call.d == 256 || terms == 2))
    refuse(
        fmt::format("has kernels for keys in mxfp4 with d = 64 and 128 and one term of q and of "
                    "probabilities, not d = {} and {}; take one_term, nvfp4, or a host backend",
                    call.d, terms));
  const bool exact = call.probabilities == ProbabilityRule::exact;
  if (exact && along_tokens)
    refuse(
        "multiplies V with blocks along the tokens by two-level probabilities alone; take these, "
        "or blocks along d");
  if (call.d == 256 && terms == 2 && !exact && !along_tokens)
    refuse(
        "has no room in its registers for d = 256 with two terms of probabilities and V's blocks "
        "along d; take one_term, exact probabilities or v_along_tokens");
}

// They are 32 bits to the kernels.
void check_stride(std::int64_t stride) {
  if (stride >= std::int64_t{1} << 32)
    refuse(fmt::format("takes tokens less than 4 GiB apart, not {} bytes", stride));
}

}  // namespace microscale::cuda::attention::block_scaled
