// What attention refuses, and that the sentence names what to mend.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/quantize.hpp"
#include "support/caches.hpp"

namespace microscale {
namespace {

using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

class AttentionRefusals : public ::testing::Test {
 protected:
  Heads q = test::random_heads(DType::bf16, 2, 3, 4, 64, 1),
        k = test::random_heads(DType::bf16, 2, 20, 2, 64, 2), v = k,
        o = Heads(DType::f32, 2, 3, 4, 64);
  BlockTensor kb = quantize({.input = k.rows(), .format = Format::nvfp4});

  AttentionOptions options() {
    return {.q = q.view(), .k = k.view(), .v = v.view(), .output = o.mutable_view()};
  }
  void refuse(const std::function<void(AttentionOptions&)>& spoil, const std::string& words,
              ErrorCode code = ErrorCode::invalid_argument, const Context& context = {}) {
    const std::vector<std::uint8_t> before = o.bytes;
    try {
      AttentionOptions call = options();
      spoil(call);
      attention(call, context);
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find("attention: "), 0u) << error.what();
    }
    EXPECT_EQ(o.bytes, before) << "the output was written";
  }
  HeadsView& dense(AttentionInput& input) { return std::get<HeadsView>(input); }
};

TEST_F(AttentionRefusals, shapes_that_do_not_agree) {
  refuse([&](auto& c) { dense(c.q).heads = 3; }, "3 query heads for 2 kv heads");
  refuse([&](auto& c) { dense(c.k).tokens = 19; }, "v [2, 20, 2, 64]");
  refuse([&](auto& c) { dense(c.q).d = c.output.d = 32; }, "q has d = 32");
  refuse([&](auto& c) { dense(c.q).d = 40; }, "multiple of 32");
  refuse([&](auto& c) { dense(c.q).d = 288; }, "multiple of 32");
  refuse([&](auto& c) { c.output.tokens = 2; }, "the output is [2, 2, 4, 64]");
  refuse([&](auto& c) { dense(c.q).batch = c.output.batch = 1; }, "1 sequences of queries and 2");
  refuse([&](auto& c) { dense(c.q).tokens = -1; }, "negative");
}

TEST_F(AttentionRefusals, keys_that_are_not_given) {
  refuse([](auto& c) { c.k = c.v = HeadsView{}; }, "pass k and v, or a cache");
  refuse([](auto& c) { c.v = HeadsView{}; }, "pass k and v, or a cache");
  refuse([](auto& c) { c.sequences = 2; }, "2 sequences without offsets");
}

TEST_F(AttentionRefusals, sizes_beyond_any_memory) {
  for (const std::int64_t huge : {std::int64_t{1} << 62, std::int64_t{INT64_MAX}}) {
    const auto no_batch = [&](AttentionOptions& c) {
      dense(c.q).batch = dense(c.k).batch = dense(c.v).batch = c.output.batch = 0;
    };
    refuse(
        [&](auto& c) {
          no_batch(c);
          dense(c.q).tokens = c.output.tokens = huge;
        },
        "more than fits");
    refuse([&](auto& c) { dense(c.q).token_stride = huge; }, "beyond any memory");
    refuse([&](auto& c) { dense(c.k).head_stride = huge; }, "beyond any memory");
    refuse([&](auto& c) { c.output.batch_stride = huge; }, "beyond any memory");
    refuse([&](auto& c) { c.k = BlockHeadsView{kb.view(), huge, huge, 2}; }, "more than fits");
  }
}

TEST_F(AttentionRefusals, caches_beyond_any_memory) {
  OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 2, 2, 64, 16, 32);
  const auto with = [&](AttentionOptions& c) -> KvCache& {
    c.k = c.v = HeadsView{};
    c.cache = cache.view;
    return *c.cache;
  };
  for (const std::int64_t huge : {std::int64_t{1} << 62, std::int64_t{INT64_MAX}}) {
    refuse([&](auto& c) { with(c).pages = huge; }, "the cache is");
    refuse([&](auto& c) { with(c).kv_heads = huge; }, "the cache is");
    refuse([&](auto& c) { with(c).max_pages = huge; }, "the page table is");
    refuse([&](auto& c) { with(c).v_scales.page_stride = huge; }, "beyond any memory");
    refuse([&](auto& c) { with(c).first = {huge, cache.first_k.data(), nullptr}; }, "are null");
    std::uint16_t copies[1] = {};
    refuse([&](auto& c) { with(c).recent = {huge, copies, copies}; }, "the BF16 copies");
  }
  refuse([&](auto& c) { with(c).pages = -1; }, "-1 pages");
}

TEST_F(AttentionRefusals, memory_that_cannot_be) {
  refuse([&](auto& c) { dense(c.q).data = nullptr; }, "q is null");
  refuse([&](auto& c) { c.output.data = nullptr; }, "output is null");
  refuse([&](auto& c) { dense(c.k).data = k.bytes.data() + 1; }, "align it");
  refuse([&](auto& c) { c.output.data = q.bytes.data(); }, "overlaps");
  refuse([&](auto& c) { c.log_sum_exp = reinterpret_cast<float*>(v.bytes.data()); },
         "log_sum_exp overlaps");
  refuse([&](auto& c) { c.log_sum_exp = reinterpret_cast<float*>(o.bytes.data()); },
         "log_sum_exp overlaps the output");
  refuse([&](auto& c) { c.output.token_stride = 64; }, "rows overlap");
  const auto misaligned = [&](auto*& array) {
    array = reinterpret_cast<std::remove_reference_t<decltype(array)>>(v.bytes.data() + 1);
  };
  refuse([&](auto& c) { misaligned(c.sinks); }, "sinks is at an address");
  refuse([&](auto& c) { misaligned(c.log_sum_exp); }, "log_sum_exp is at an address");
  refuse([&](auto& c) { misaligned(c.q_offsets); }, "offsets of q is at an address");
  refuse([&](auto& c) { dense(c.q).head_stride = -64; }, "strides");
}

TEST_F(AttentionRefusals, numbers_out_of_range) {
  refuse([&](auto& c) { c.scale = NAN; }, "scale is nan");
  refuse([&](auto& c) { c.softcap = -1; }, "softcap is -1");
  refuse([&](auto& c) { c.window = -1; }, "window of -1");
  refuse([&](auto& c) { c.splits = 257; }, "257 splits");
  refuse([&](auto& c) { c.max_q_len = 2; }, "3 queries and 20 keys, more than max_q_len 2");
  refuse([&](auto& c) { c.max_kv_len = 19; }, "3 queries and 20 keys, more than max_kv_len 19");
  refuse([&](auto& c) { c.max_q_len = c.max_kv_len = 2; }, "than max_q_len 2 or max_kv_len 2");
  refuse([&](auto& c) { dense(c.q).dtype = static_cast<DType>(77); }, "DType 77");
}

TEST_F(AttentionRefusals, offsets_that_leave_the_tensor) {
  const std::vector<std::int32_t> decreasing{0, 2, 1}, beyond{0, 2, 4}, fine{0, 1, 3};
  const auto packed = [&](AttentionOptions& c, const std::vector<std::int32_t>& offsets) {
    dense(c.q).batch = c.output.batch = 1;
    c.q_offsets = offsets.data();
    c.sequences = 2;
  };
  refuse([&](auto& c) { packed(c, decreasing); }, "offset 2 of q is 1 after 2");
  refuse([&](auto& c) { packed(c, beyond); }, "offset 2 of q is 4");
  refuse(
      [&](auto& c) {
        packed(c, fine);
        dense(c.q).batch = 2;
        c.output.batch = 2;
      },
      "batch of 1");
  refuse(
      [&](auto& c) {
        packed(c, fine);
        c.sequences = 1;
      },
      "1 sequences of queries and 2 of keys");
}

TEST_F(AttentionRefusals, block_scaled_operands_of_another_shape) {
  const auto blocks = [&](AttentionOptions& c) -> BlockHeadsView& {
    c.k = BlockHeadsView{kb.view(), 2, 20, 2};
    return std::get<BlockHeadsView>(c.k);
  };
  refuse([&](auto& c) { blocks(c).tokens = 19; }, "batch * tokens * heads");
  refuse([&](auto& c) { blocks(c).rows.shape.layout = Layout::tiled_128x4; }, "row-major scales");
  refuse(
      [&](auto& c) {
        auto& b = blocks(c);
        b.rows.codes = b.rows.codes.first(8);
      },
      "buffer of k codes");
  refuse([&](auto& c) { blocks(c).rows.global_scale = -1; }, "global scale -1");
}

TEST_F(AttentionRefusals, caches_that_do_not_fit) {
  OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 2, 2, 64, 16, 32);
  cache.append(k, v, 0, 20);
  const auto with = [&](AttentionOptions& c) -> KvCache& {
    c.k = c.v = HeadsView{};
    c.cache = cache.view;
    return *c.cache;
  };
  refuse([&](auto& c) { c.cache = cache.view; }, "both a cache and k");
  refuse([&](auto& c) { with(c).lengths = nullptr; }, "lengths are null");
  refuse([&](auto& c) { with(c).kv_heads = 3; }, "4 query heads for 3 kv heads");
  refuse([&](auto& c) { with(c).d = 32; }, "the keys d = 32");
  refuse([&](auto& c) { with(c).page_size = 8; }, "pages of 8 tokens");
  refuse([&](auto& c) { with(c).recent.count = 5; }, "recent tokens are null");
  refuse([&](auto& c) { with(c).v_scales.token_stride = 3; }, "V scales have strides");
  refuse(
      [&](auto& c) {
        with(c);
        c.output.data = cache.memory.data();
      },
      "overlaps the cache's K codes");
  refuse(
      [&](auto& c) {
        with(c);
        cache.lengths[1] = 33;
      },
      "sequence 1 has 33 tokens");
  cache.lengths[1] = 20;
  refuse(
      [&](auto& c) {
        with(c);
        cache.table[3] = 99;
      },
      "entry 1 of sequence 1");
}

TEST_F(AttentionRefusals, memory_of_another_kind_than_the_backend_reads) {
  const auto there = [&](auto& c) { dense(c.k).memory = Memory::device; };
  refuse(there, "k is in device memory, but q in host memory");
  refuse(there, "k is in device memory (Memory::device), which backend reference does not read",
         ErrorCode::invalid_argument, {.backend = Backend::reference});
  refuse([](auto&) {}, "q is in host memory (Memory::host), which backend cuda does not read",
         ErrorCode::invalid_argument, {.backend = Backend::cuda});
}

TEST_F(AttentionRefusals, modes_that_are_none) {
  refuse([&](auto& c) { c.numerics.probabilities = ProbabilityRule::fp8; },
         "rounds no probabilities");
  refuse(
      [&](auto& c) {
        c.numerics = {.accuracy = AttentionAccuracy::one_term, .format = Format::mxint8};
      },
      "not mxint8");
  refuse([&](auto& c) { c.numerics.accuracy = static_cast<AttentionAccuracy>(9); }, "accuracy 9");
  refuse([&](auto& c) { c.numerics.probabilities = static_cast<ProbabilityRule>(7); },
         "probabilities 7");
}

TEST_F(AttentionRefusals, memory_that_a_gpu_cannot_read) {
  const Context gpu{.backend = Backend::cuda};
  const auto refused = [&](const std::function<void(AttentionOptions&)>& spoil,
                           const std::string& words) {
    refuse(spoil, words, ErrorCode::invalid_argument, gpu);
  };
  alignas(16) static std::uint8_t memory[2 * 20 * 2 * 64 * 2 + 16];
  const auto aligned = [&](AttentionOptions& c) {  // never read: the call is refused
    for (AttentionInput* input : {&c.q, &c.k, &c.v})
      dense(*input).data = memory, dense(*input).memory = Memory::device;
    c.output.memory = Memory::device;
  };
  refused(
      [&](auto& c) {
        aligned(c);
        dense(c.q).data = memory + 2;
      },
      "q or its strides are no multiples of 16");
  refused(
      [&](auto& c) {
        aligned(c);
        dense(c.k).token_stride = 129;
      },
      "k or its strides are no multiples of 16");
  refused(
      [&](auto& c) {
        aligned(c);
        c.k = BlockHeadsView{on_device(kb.view()), 2, 20, 2};
      },
      "GlobalScale::on_device");
}

}  // namespace
}  // namespace microscale
