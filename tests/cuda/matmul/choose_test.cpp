// The rules that every plan keeps, whatever the cost models say of which is fastest: what plans
// there are is the table of docs/matmul.md (plan_table_test.cpp).
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/matmul.hpp"
#include "fake_device.hpp"
#include "matmul/product_calls.hpp"
#include "operations_support.hpp"

namespace microscale::cuda {
namespace {

using test::ProductCall, test::Wanted;

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};

/// A product of any kind.
Wanted any_product(std::mt19937& random) {
  const auto among = [&](std::initializer_list<std::int64_t> all) {
    return all.begin()[random() % all.size()];
  };
  const auto one_in = [&](unsigned count) { return random() % count == 0; };
  Wanted w;
  w.b = formats[one_in(4) ? random() % 4 : random() % 2];
  if (one_in(2)) w.a = one_in(2) ? w.b : formats[random() % 4];
  if (one_in(4)) w.type = DType::f16;
  w.m = among({1, 1, 2, 8, 9, 16, 17, 40, 64, 130, 300, 1024, 2048, 8192});
  w.n = among({8, 48, 100, 128, 512, 4096, 8192});
  w.k = among({32, 64, 96, 192, 1024, 2304, 8192, 65536});
  w.packed = one_in(2);
  w.experts = one_in(5);
  w.gated = !w.experts && one_in(5);
  w.matrices = w.experts ? among({1, 4, 33, 128}) : one_in(4) ? among({2, 3, 8}) : 1;
  w.fast = one_in(4);
  w.constant = one_in(3);
  if (one_in(4) && w.n % 32 == 0) {
    w.d = formats[random() % 4];
    w.rule = one_in(2)              ? ScaleRule::search
             : w.d == Format::nvfp4 ? ScaleRule::nearest
                                    : ScaleRule::floor;
  }
  return w;
}

std::string family_of(const Plan& plan) {
  const std::string text = describe(plan);
  const std::size_t packs = text.starts_with("packs, then ") ? 12 : 0;
  return text.substr(packs, text.find_first_of(" ,;", packs) - packs);
}

class Choose : public ::testing::Test {
 protected:
  static constexpr int products = 3000;
  test::FakeDevice hopper{9, 0}, datacenter{10, 0}, consumer{12, 0};
  std::vector<test::FakeDevice*> all{&hopper, &datacenter, &consumer};
};

// Every launch that a plan stands for names a kernel that the architecture has (load_kernel refuses
// others), and the workspace that a plan asks for is enough: what it passes on begins within.
TEST_F(Choose, plans_name_kernels_there_are_and_reach_every_family) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  std::map<std::string, int> reached;
  std::mt19937 random(1);
  for (int i = 0; i < products; ++i) {
    const ProductCall made(any_product(random));
    test::FakeDevice& device = *all[i % 3];
    device.launches.clear();
    const Plan plan = choose(DeviceFacts(device), made.product());
    ++reached[family_of(plan)];
    const auto bytes = static_cast<std::size_t>(plan.workspace_bytes());
    run_matmul(device, plan, made.call(), {test::memory(20), bytes}, nullptr);
    EXPECT_FALSE(device.launches.empty());
    for (const auto& seen : device.launches) {
      EXPECT_LE(seen.call.shared_bytes, most_shared_bytes) << seen.name;
      for (std::size_t at = 0; at + 8 <= seen.args.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, seen.args.data() + at, 8);
        if (word >> 40 != 20) continue;  // no pointer into the workspace
        EXPECT_LE(word & ((std::uint64_t{1} << 40) - 1), bytes) << seen.name;
      }
    }
    EXPECT_EQ(device.waits, 0);
  }
  for (const char* family :
       {"few_rows", "in_registers", "expanded", "block_scaled", "tcgen05", "vector", "fallback"})
    EXPECT_GT(reached[family], 0) << family;
  EXPECT_EQ(reached.size(), 7u);
}

TEST_F(Choose, is_a_function_of_the_call) {
  if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  std::mt19937 random(2);
  for (int i = 0; i < products; ++i) {
    Wanted wanted = any_product(random);
    const ProductCall made(wanted);
    wanted.shift = 32;
    const ProductCall elsewhere(wanted);
    const DeviceFacts facts(*all[i % 3]);
    const std::string plan = describe(choose(facts, made.product()));
    EXPECT_EQ(describe(choose(facts, made.product())), plan);
    EXPECT_EQ(describe(choose(facts, elsewhere.product())), plan) << "other memory";
    EXPECT_EQ(matmul_workspace_bytes(*all[i % 3], made.call()),
              choose(facts, made.product()).workspace_bytes());
  }
}

// The bytes of d depend on the plan; so they do not on whether weights are known to be constant.
TEST_F(Choose, does_not_look_at_what_changes_no_result) {
  std::mt19937 random(3);
  const DeviceFacts facts(described_gpu("h200"));
  for (int i = 0; i < products; ++i) {
    Wanted wanted = any_product(random);
    wanted.constant = false;
    const std::string plan = describe(choose(facts, ProductCall(wanted).product()));
    wanted.constant = true;
    EXPECT_EQ(describe(choose(facts, ProductCall(wanted).product())), plan);
  }
}

// A workspace that was asked for with other pointers is enough.
TEST_F(Choose, asks_for_the_same_workspace_wherever_codes_lie) {
  const DeviceFacts facts(consumer);
  Wanted wanted{.a = Format::nvfp4, .m = 1, .n = 128, .k = 128};
  const Plan aligned = choose(facts, ProductCall(wanted).product());
  wanted.b_off = 16;
  const Plan other = choose(facts, ProductCall(wanted).product());
  EXPECT_EQ(family_of(aligned), "vector");
  EXPECT_EQ(family_of(other), "fallback");
  EXPECT_EQ(aligned.workspace_bytes(), other.workspace_bytes());
}

TEST_F(Choose, plans_nothing_where_d_has_no_element) {
  const DeviceFacts facts(hopper);
  for (const Wanted& w : {Wanted{.m = 0}, Wanted{.n = 0}, Wanted{.matrices = 0}}) {
    const Plan plan = choose(facts, ProductCall(w).product());
    EXPECT_TRUE(std::holds_alternative<Plan::Nothing>(plan.family));
    EXPECT_EQ(plan.workspace_bytes(), 0);
  }
}

// An expert's rows are the same bytes whatever rows the others have, so what is chosen may depend
// on how many there are in all, never on how they are shared out: no plan reads expert_rows.
TEST_F(Choose, does_not_read_device_memory) {
  std::mt19937 random(4);
  for (int i = 0; i < products; ++i) {
    Wanted wanted = any_product(random);
    wanted.experts = true, wanted.gated = false;
    // Memory of these calls does not exist: a look at it would end the program.
    EXPECT_NO_THROW(choose(DeviceFacts(described_gpu("h200")), ProductCall(wanted).product()));
  }
}

TEST_F(Choose, refuses_more_tiles_than_a_grid_has) {
  Product product = ProductCall({.a = Format::nvfp4, .m = 64, .k = 64}).product();
  product.rows.m = std::int64_t{1} << 40;
  test::expect_error(ErrorCode::unsupported, "make it several products",
                     [&] { choose(DeviceFacts(described_gpu("rtx5090")), product); });
  // Where coordinates of the copy engine would not do, other kernels take it.
  const Plan elsewhere = choose(DeviceFacts(described_gpu("b200")), product);
  EXPECT_EQ(family_of(elsewhere), "fallback");
}

}  // namespace
}  // namespace microscale::cuda
