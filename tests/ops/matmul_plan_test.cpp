// MatmulPlan on every backend of this machine: the bytes of matmul(), and what it refuses.
#include "microscale/matmul_plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "microscale/error.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;

/// Operands of a product, gated and grouped ones too, made with one seed.
struct Operands {
  Matrix a, d;
  BlockTensor b, up;
  std::vector<std::int32_t> offsets{0, 3, 3, 7};

  explicit Operands(unsigned seed)
      : a(test::gaussian(DType::bf16, 7, 96, seed, 1.0f)),
        d(DType::f32, 7, 40),
        b(test::random_blocks(Format::mxfp4, 3 * 40, 96, Layout::row_major, seed)),
        up(test::random_blocks(Format::mxfp4, 3 * 40, 96, Layout::row_major, seed + 9)) {}

  static BlockTensorView first(const BlockTensor& b, std::int64_t matrices) {
    BlockTensorView view = b.view();
    view.shape.rows = 40;
    view.codes = view.codes.first(view.codes.size() / 3 * static_cast<std::size_t>(matrices));
    view.scales = view.scales.first(view.scales.size() / 3 * static_cast<std::size_t>(matrices));
    return view;
  }
  MutableTensorView output() { return {d.bytes.data(), DType::f32, 7, 40, 40}; }
  MatmulOptions one() { return {.a = a.view(), .b = first(b, 1), .d = output()}; }
  GatedMatmulOptions gated() {
    return {.a = a.view(), .gate = first(b, 1), .up = first(up, 1), .d = output()};
  }
  GroupedMatmulOptions grouped() {
    return {.a = a.view(),
            .b = first(b, 3),
            .d = output(),
            .groups = {.offsets = offsets.data(), .experts = 3}};
  }
};

template <class Options>
void expect_same(Options (Operands::*options)(), void (*eager)(const Options&, const Context&)) {
  for (const Backend backend : test::host_backends()) {
    const Context context{.backend = backend, .threads = 2};
    Operands made(1), other(2), wanted(2);
    const MatmulPlan plan((made.*options)(), context);
    EXPECT_EQ(plan.workspace_bytes(), 0);
    EXPECT_EQ(plan.describe(), to_string(backend));
    plan.run((other.*options)(), context);
    eager((wanted.*options)(), context);
    EXPECT_EQ(other.d.bytes, wanted.d.bytes) << to_string(backend);
    EXPECT_NE(other.d.bytes, made.d.bytes);
  }
}

TEST(MatmulPlan, gives_the_bytes_of_a_call_with_other_memory) {
  expect_same(&Operands::one, &matmul);
  expect_same(&Operands::gated, &gated_matmul);
  expect_same(&Operands::grouped, &grouped_matmul);
}

void expect_refused(const MatmulPlan& plan, const auto& options, const std::string& words,
                    const Context& context = {}) {
  try {
    plan.run(options, context);
    ADD_FAILURE() << "no error; expected: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(MatmulPlan, refuses_options_that_are_not_its_own) {
  Operands o(1);
  const MatmulPlan plan(o.one());
  const auto refused = [&](const char* words, auto&& change) {
    MatmulOptions options = o.one();
    change(options);
    expect_refused(plan, options, words);
  };
  refused("a differs", [](MatmulOptions& p) { --std::get<TensorView>(p.a).rows; });
  refused("a differs", [](MatmulOptions& p) { std::get<TensorView>(p.a).dtype = DType::f16; });
  refused("the weights differs", [](MatmulOptions& p) {
    std::get<BlockTensorView>(p.b).shape.layout = Layout::tiled_128x4;
  });
  refused("d differs", [](MatmulOptions& p) { ++std::get<MutableTensorView>(p.d).row_stride; });
  refused("the number of matrices", [](MatmulOptions& p) { p.batch = 2; });
  refused("the bias", [&](MatmulOptions& p) {
    p.bias = {o.d.bytes.data(), DType::f32, 1, 40, 40};
  });
  refused("fast_accumulation", [](MatmulOptions& p) { p.fast_accumulation = true; });
  refused("alpha", [](MatmulOptions& p) { p.alpha = std::numeric_limits<float>::infinity(); });
  expect_refused(plan, o.gated(), "another product's");
  expect_refused(plan, o.one(), "made for backend automatic", {.backend = Backend::reference});
}

TEST(MatmulPlan, refuses_what_pointers_break) {
  Operands o(1);
  const MatmulPlan plan(o.one());
  MatmulOptions options = o.one();
  std::get<MutableTensorView>(options.d).data = nullptr;
  expect_refused(plan, options, "null");
  options = o.one();
  std::get<MutableTensorView>(options.d).data = o.a.bytes.data();
  expect_refused(plan, options, "overlaps");
  options = o.one();
  std::get<TensorView>(options.a).data = o.a.bytes.data() + 1;
  expect_refused(plan, options, "a");
}

TEST(MatmulPlan, is_refused_where_the_product_is) {
  Operands o(1);
  MatmulOptions options = o.one();
  std::get<TensorView>(options.a).cols = 64;
  EXPECT_THROW(MatmulPlan{options}, Error);
  EXPECT_THROW((MatmulPlan{o.one(), {.threads = -1}}), Error);
}

TEST(MatmulPlan, of_no_rows_has_nothing_to_do) {
  Operands o(1);
  MatmulOptions options = o.one();
  std::get<TensorView>(options.a).rows = std::get<MutableTensorView>(options.d).rows = 0;
  const MatmulPlan plan(options);
  EXPECT_EQ(plan.describe(), "nothing to do");
  EXPECT_NO_THROW(plan.run(options));
}

}  // namespace
}  // namespace microscale
