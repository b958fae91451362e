// What the matrix products refuse, and that the sentence names what to mend.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "microscale/error.hpp"
#include "microscale/matmul.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;

void expect_refused(const std::function<void()>& call, const std::string& words,
                    ErrorCode code = ErrorCode::invalid_argument) {
  try {
    call();
    ADD_FAILURE() << "accepted; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

class MatmulRefusals : public ::testing::Test {
 protected:
  static constexpr std::int64_t m = 4, n = 8, k = 64;
  Matrix a = test::gaussian(DType::bf16, m, k);
  BlockTensor b = test::random_blocks(Format::nvfp4, n, k);
  Matrix d{DType::f32, m, n};
  MatmulOptions options() { return {.a = a.view(), .b = b.view(), .d = d.mutable_view()}; }
  void refuse(const std::function<void(MatmulOptions&)>& spoil, const std::string& words,
              ErrorCode code = ErrorCode::invalid_argument, const Context& context = {}) {
    const std::vector<std::uint8_t> before = d.bytes;
    expect_refused(
        [&] {
          MatmulOptions o = options();
          spoil(o);
          matmul(o, context);
        },
        words, code);
    EXPECT_EQ(d.bytes, before) << "d was written";
  }
};

TEST_F(MatmulRefusals, shapes_that_do_not_agree) {
  refuse([&](auto& o) { o.a = TensorView{a.bytes.data(), DType::bf16, m, 48, k}; }, "must agree");
  refuse(
      [&](auto& o) {
        o.a = TensorView{a.bytes.data(), static_cast<DType>(77), m, k, k};
      },
      "DType 77");
  refuse(
      [&](auto& o) {
        o.d = MutableTensorView{d.bytes.data(), DType::f32, m, n - 1, n};
      },
      "d is 4 x 7");
  refuse([&](auto& o) { o.batch = -1; }, "batch of -1");
  refuse([&](auto& o) { o.batch = 2; }, "b codes of 2 matrices has");
  refuse([&](auto& o) { o.batch = 0; }, "b codes of 0 matrices has");
  refuse([&](auto& o) { o.alpha = NAN; }, "alpha");
  refuse([&](auto& o) { o.a = TensorView{a.bytes.data(), DType::bf16, -1, k, k}; }, "negative");
  refuse(
      [&](auto& o) {
        o.a = TensorView{a.bytes.data(), DType::bf16, m, k, k - 1};
      },
      "row_stride");
  refuse(
      [&](auto& o) {
        o.bias = {a.bytes.data(), DType::bf16, 1, n + 1, n + 1};
      },
      "the bias is 1 x 9");
}

TEST_F(MatmulRefusals, k_that_is_no_multiple_of_the_block) {
  const Matrix short_a = test::gaussian(DType::bf16, m, 40);
  const BlockShape shape{n, 40, Format::nvfp4};
  const BlockTensor padded(shape);  // 48 elements a row
  refuse([&](auto& o) { o.a = short_a.view(), o.b = padded.view(); },
         "no multiple of nvfp4's block of 16");
  const BlockTensor odd_a(BlockShape{m, 48, Format::mxfp4}),
      b48 = test::random_blocks(Format::nvfp4, n, 48);
  refuse([&](auto& o) { o.a = odd_a.view(), o.b = b48.view(); },
         "no multiple of mxfp4's block of 32");
}

TEST_F(MatmulRefusals, blocks_down_the_columns) {
  QuantizeOptions q{.input = a.view(),
                    .format = Format::mxfp4,
                    .axis = BlockAxis::rows,
                    .padding = Padding::zero};
  const BlockTensor down = quantize(q);
  refuse([&](auto& o) { o.b = down.view(); }, "BlockAxis::cols");
}

TEST_F(MatmulRefusals, null_misaligned_and_overlapping_memory) {
  refuse([&](auto& o) { o.a = TensorView{nullptr, DType::bf16, m, k, k}; }, "data is null");
  refuse([&](auto& o) { o.d = MutableTensorView{nullptr, DType::f32, m, n, n}; }, "data is null");
  refuse(
      [&](auto& o) {
        o.a = TensorView{a.bytes.data() + 1, DType::bf16, m, k - 2, k};
      },
      "must agree");
  refuse([&](auto& o) { o.a = TensorView{a.bytes.data() + 1, DType::bf16, m - 1, k, k}; }, "align");
  refuse(
      [&](auto& o) {
        o.d = MutableTensorView{d.bytes.data() + 2, DType::f32, m, n, n};
      },
      "align");
  refuse(
      [&](auto& o) {
        o.d = MutableTensorView{a.bytes.data() + 64, DType::f32, m, n, n};
      },
      "d overlaps a");
  refuse(
      [&](auto& o) {
        o.d = MutableTensorView{b.codes().data(), DType::bf16, m, n, n};
      },
      "d overlaps the weights' codes");
  refuse([&](auto& o) { o.bias = {d.bytes.data(), DType::f32, 1, n, n}; }, "d overlaps the bias");
  BlockTensorView null = b.view();
  null.codes = {static_cast<const std::uint8_t*>(nullptr), null.codes.size()};
  refuse([&](auto& o) { o.b = null; }, "null");
  null = b.view();
  null.scales = null.scales.first(3);
  refuse([&](auto& o) { o.b = null; }, "b scales has 3 bytes");
  null = b.view();
  null.global_scale = 0;
  refuse([&](auto& o) { o.b = null; }, "global scale");
}

TEST_F(MatmulRefusals, quantized_outputs_that_cannot_be) {
  BlockTensor q(BlockShape{m, 32, Format::nvfp4});
  QuantizedOutput out{.format = Format::nvfp4, .codes = q.codes(), .scales = q.scales()};
  refuse([&](auto& o) { o.d = out; }, "d has 8 columns, no multiple");
  const BlockTensor wide = test::random_blocks(Format::mxfp4, 32, k);
  const auto to_wide = [&](auto& o) { o.b = wide.view(), o.d = out; };
  refuse(to_wide, "global scale beforehand");
  out.global_scale = 1.0f;
  out.numerics.scale_rule = ScaleRule::rceil;
  refuse(to_wide, "no scale rule rceil");
  out.numerics.scale_rule = ScaleRule::nearest;
  out.scales = q.codes();
  refuse(to_wide, "buffer of d scales");
  out.scales = q.codes().first(q.scales().size());
  refuse(to_wide, "overlap");
  BlockTensor mx(BlockShape{m, 32, Format::mxfp8_e4m3});
  out = {.format = Format::mxfp8_e4m3, .codes = mx.codes(), .scales = mx.scales()};
  out.global_scale = 2.0f;
  refuse(to_wide, "d: global scale 2 for mxfp8_e4m3, which has none");
}

TEST_F(MatmulRefusals, memory_of_another_kind_than_the_backend_reads) {
  const auto there = [](auto& o) {
    std::visit([](auto& view) { view.memory = Memory::device; }, o.d);
  };
  refuse(there, "d is in device memory, but a in host memory");
  refuse(there, "d is in device memory (Memory::device), which backend reference does not read",
         ErrorCode::invalid_argument, {.backend = Backend::reference});
  refuse([](auto&) {}, "a is in host memory (Memory::host), which backend cuda does not read",
         ErrorCode::invalid_argument, {.backend = Backend::cuda});
}

TEST_F(MatmulRefusals, what_a_gpu_would_have_to_read_itself) {
  const auto there = [](auto& o) {
    std::visit([](auto& view) { view.memory = Memory::device; }, o.a);
    std::visit([](auto& view) { view.memory = Memory::device; }, o.b);
    std::visit([](auto& view) { view.memory = Memory::device; }, o.d);
  };
  refuse(there, "GlobalScale::on_device", ErrorCode::invalid_argument, {.backend = Backend::cuda});
  refuse(there, "GlobalScale::on_device");  // the memory chooses the backend
}

TEST_F(MatmulRefusals, packed_weights_of_another_call) {
  std::vector<std::uint8_t> memory(static_cast<std::size_t>(packed_weights_bytes({.b = b.view()})) +
                                   64);
  const std::size_t shift = (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  const std::span<std::uint8_t> bytes(memory.data() + shift, memory.size() - 64);
  expect_refused([&] { pack_weights({.b = b.view()}, bytes.subspan(1)); }, "bytes, ");
  expect_refused(
      [&] {
        pack_weights({.b = b.view()}, {memory.data() + shift + 1, bytes.size()});
      },
      "align");
  expect_refused(
      [&] {
        pack_weights({.b = b.view()}, {static_cast<std::uint8_t*>(nullptr), bytes.size()});
      },
      "is null");
  BlockTensorView inside = b.view();
  inside.codes = bytes.first(inside.codes.size());
  expect_refused([&] { pack_weights({.b = inside}, bytes); }, "overlaps");
  const PackedWeights good = pack_weights({.b = b.view()}, bytes);
  PackedWeights bad = good;
  bad.gated = true;
  refuse([&](auto& o) { o.b = bad; }, "call gated_matmul");
  bad = good;
  bad.matrices = 2;
  refuse([&](auto& o) { o.b = bad; }, "2 matrices for 1 products");
  bad = good;
  bad.shape.format = Format::mxfp4;
  refuse([&](auto& o) { o.b = bad; }, "packed weights");
  bad = good;
  bad.memory = Memory::device;
  refuse([&](auto& o) { o.b = bad; }, "b is in device memory, but a in host memory");
  bytes[0] ^= 1;
  refuse([&](auto& o) { o.b = good; }, "not those that pack_weights made");
  bytes[0] ^= 1;
  expect_refused([&] { gated_matmul({.a = a.view(), .gate = good, .d = d.mutable_view()}); },
                 "PackOptions::up");
  const BlockTensor other = test::random_blocks(Format::nvfp4, n + 1, k);
  expect_refused(
      [&] {
        gated_matmul({.a = a.view(), .gate = b.view(), .up = other.view(), .d = d.mutable_view()});
      },
      "must agree");
  expect_refused(
      [&] {
        gated_matmul({.a = a.view(),
                      .gate = b.view(),
                      .up = b.view(),
                      .d = d.mutable_view(),
                      .activation = static_cast<Activation>(9)});
      },
      "activation 9");
}

TEST_F(MatmulRefusals, offsets_that_leave_the_rows) {
  const std::vector<std::int32_t> offsets{0, 3, 2};
  const BlockTensor two = test::random_blocks(Format::mxfp4, 2 * n, k);
  GroupedMatmulOptions o{.a = a.view(),
                         .b = BlockTensorView{{n, k, Format::mxfp4}, two.codes(), two.scales()},
                         .d = d.mutable_view()};
  o.groups = {offsets.data(), OffsetType::i32, 2};
  expect_refused([&] { grouped_matmul(o); }, "offset 2 is 2 after 3");
  o.groups.type = static_cast<OffsetType>(7);
  expect_refused([&] { grouped_matmul(o); }, "OffsetType 7");
  o.groups.type = OffsetType::i32;
  o.groups.offsets = reinterpret_cast<const std::uint8_t*>(offsets.data()) + 2;
  expect_refused([&] { grouped_matmul(o); }, "the offsets are at an address");
  const std::vector<std::int32_t> fine{0, 2, 3};
  const std::vector<float> weights(m + 1);
  o.groups.offsets = fine.data();
  o.row_weights =
      reinterpret_cast<const float*>(reinterpret_cast<const std::uint8_t*>(weights.data()) + 1);
  expect_refused([&] { grouped_matmul(o); }, "row_weights is at an address");
  o.row_weights = nullptr;
  o.groups.offsets = nullptr;
  expect_refused([&] { grouped_matmul(o); }, "2 experts with no offsets");
  const std::vector<std::int32_t> counts{1, 2};
  o.groups.counts = counts.data();
  o.groups.capacity = 1;
  expect_refused([&] { grouped_matmul(o); }, "expert 1 has a count of 2 rows");
}

}  // namespace
}  // namespace microscale
