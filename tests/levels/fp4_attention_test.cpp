// The levels of examples/levels/fp4_attention, executed by the emulator: what one matrix
// instruction holds where, what each level computes, and what the levels differ in.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "emulator/device.hpp"
#include "emulator/occupancy.hpp"
#include "fp4_attention/mix.hpp"
#include "fp4_attention/probe.hpp"
#include "image.hpp"
#include "microscale/error.hpp"
#include "sass/counts.hpp"
#include "sass/disassemble.hpp"

namespace levels {
namespace {

using microscale::ScaleRule;
using microscale::emulator::EmulatorDevice;
using microscale::emulator::LaunchOptions;
using microscale::emulator::Schedule;

constexpr ScaleRule both_rules[] = {ScaleRule::rceil, ScaleRule::amax_ceil};

std::vector<std::uint8_t> image(const char* kind) {
  return bytes_of_file(std::string(MICROSCALE_LEVELS) + "/fp4_attention.sm_120f." + kind);
}

class Fp4AttentionLevels : public ::testing::Test {
 protected:
  void SetUp() override {
    ptx = image("ptx");
    if (ptx.empty()) GTEST_SKIP() << "this build has no compiled levels: it was made without nvcc";
  }
  std::vector<float> run(const AttentionLevel& level, const AttentionInput& input,
                         ScaleRule rule = ScaleRule::rceil, const LaunchOptions& options = {}) {
    EmulatorDevice device(12, 0, options);
    const std::vector<float> got = AttentionKernels(device, ptx).run(level, input, rule);
    report = device.last_report;
    return got;
  }
  std::vector<float> probe(const char* entry, const std::vector<std::uint32_t>& operands) const {
    EmulatorDevice device(12, 0);
    return AttentionKernels(device, ptx).probe(entry, operands);
  }
  std::vector<std::uint8_t> ptx;
  microscale::emulator::LaunchReport report;
};

double relative_error(const std::vector<float>& got, const AttentionTruth& truth) {
  double difference = 0, energy = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - truth.value[i]) * (got[i] - truth.value[i]);
    energy += truth.value[i] * truth.value[i];
  }
  return std::sqrt(difference / energy);
}

/// The first of that number.
const AttentionLevel& level(int number) {
  for (const AttentionLevel& each : attention_levels)
    if (each.name[0] - '0' == number) return each;
  throw std::out_of_range("level " + std::to_string(number));
}

TEST_F(Fp4AttentionLevels, one_finds_every_element_by_identity_matrices) {
  std::vector<std::uint32_t> operands = identity_probes();
  EXPECT_EQ(wrong_results(probe("attention_1_probe", operands)), 0);
  // With the rows of a's second register taken for the columns of its third, it does not.
  for (std::size_t i = 0; i < operands.size(); i += 8) std::swap(operands[i + 1], operands[i + 2]);
  EXPECT_GT(wrong_results(probe("attention_1_probe", operands)), 1000);
}

TEST_F(Fp4AttentionLevels, one_finds_the_lanes_of_scales) {
  const ScaleLanes lanes = scale_lanes(probe("attention_1_probe", scale_probes(0)));
  const ScaleLanes others = scale_lanes(probe("attention_1_probe_byte_2_lane_1", scale_probes(2)));
  for (int lane = 0; lane < 32; ++lane) {
    const auto i = static_cast<std::size_t>(lane);
    const int row = lane % 4 < 2 ? lane / 4 + 8 * (lane % 4) : -1;
    EXPECT_EQ(lanes.row[i], row) << lane;
    EXPECT_EQ(others.row[i], row) << lane;
    EXPECT_EQ(lanes.column[i], lane % 4 == 0 ? lane / 4 : -1) << lane;
    EXPECT_EQ(others.column[i], lane % 4 == 1 ? lane / 4 : -1) << lane;
  }
  // A byte that the selector does not name has no part.
  for (const int row : scale_lanes(probe("attention_1_probe", scale_probes(1))).row)
    EXPECT_EQ(row, -1);
}

TEST_F(Fp4AttentionLevels, one_gives_the_numbers_of_the_article) {
  std::vector<std::uint32_t> operands(32 * 8, 0x08080808);  // 1.0 in its container
  const auto with_scales = [&](std::uint32_t a, std::uint32_t b) {
    for (std::size_t i = 0; i < operands.size(); i += 8) operands[i + 6] = a, operands[i + 7] = b;
    return probe("attention_1_probe", operands);
  };
  EXPECT_EQ(with_scales(127, 127), std::vector<float>(128, 32.0f));
  EXPECT_EQ(with_scales(130, 127), std::vector<float>(128, 256.0f));
  // 0x22 has a bit outside of the container's middle four.
  std::fill(operands.begin(), operands.end(), 0x22222222);
  try {
    with_scales(127, 127);
    FAIL() << "bits beside the code went unnoticed";
  } catch (const microscale::Error& error) {
    EXPECT_NE(std::string(error.what()).find("padding"), std::string::npos) << error.what();
  }
}

TEST_F(Fp4AttentionLevels, give_the_same_bits_where_nothing_rounds) {
  for (AttentionShape shape : correctness_shapes) {
    shape.heads = std::min(shape.heads, 2);
    const AttentionInput input = attention_input(AttentionData::exact, shape, 2);
    const AttentionTruth truth = attention_truth(input);
    for (const ScaleRule rule : both_rules) {
      const std::vector<float> first = run(level(2), input, rule);
      EXPECT_LE(worst_of_bound(first, truth), 1);
      EXPECT_GT(mean_cosine(first, truth, shape.heads), 1 - 1e-12);
      for (const AttentionLevel& each : attention_levels)
        EXPECT_EQ(run(each, input, rule), first) << each.name << ", d " << shape.d;
    }
  }
}

TEST_F(Fp4AttentionLevels, compute_what_was_quantized) {
  for (const AttentionShape& shape : {AttentionShape{128, 128, 1}, {64, 192, 2}})
    for (const ScaleRule rule : both_rules) {
      const AttentionInput input = attention_input(AttentionData::spread, shape, 5);
      for (const AttentionLevel& each : attention_levels) {
        const std::vector<float> got = run(each, input, rule);
        const AttentionTruth own = attention_truth(as_computed(input, each, rule));
        EXPECT_LE(worst_of_bound(got, own), 1) << each.name;
        EXPECT_LT(relative_error(got, own), 2e-6) << each.name;
        EXPECT_GT(relative_error(got, attention_truth(input)), 1e-2) << each.name;
      }
    }
}

TEST_F(Fp4AttentionLevels, differ_in_rounding_only_where_they_say_so) {
  AttentionInput input = attention_input(AttentionData::uniform, {128, 128, 1}, 6);
  const std::vector<float> fused = run(level(2), input), staged = run(level(4), input);
  EXPECT_EQ(run(level(3), input), fused);
  for (const AttentionLevel& each : attention_levels) {
    if (each.operands != Operands::f32_halved) continue;
    EXPECT_EQ(run(each, input), staged) << each.name;
  }
  // FP16 staging shows: v is rounded, and some codes are others.
  EXPECT_NE(staged, fused);
  const AttentionInput as_fused = as_computed(input, level(2), ScaleRule::rceil),
                       as_staged = as_computed(input, level(4), ScaleRule::rceil);
  const auto elements = static_cast<std::ptrdiff_t>(input.k.size());
  const std::ptrdiff_t same =
      std::inner_product(as_fused.k.begin(), as_fused.k.end(), as_staged.k.begin(),
                         std::ptrdiff_t{0}, std::plus<>(), std::equal_to<>());
  EXPECT_LT(same, elements - elements / 2000);
  EXPECT_GT(same, elements - elements / 500);
  const AttentionTruth of_fused = attention_truth(as_fused);
  EXPECT_GT(relative_error(staged, of_fused), 1e-4);
  // What FP16 holds is quantized alike before and within.
  input = as_staged;
  for (float& q : input.q) q *= 0.75f;
  const std::vector<float> first = run(level(2), input);
  for (const AttentionLevel& each : attention_levels) {
    if (each.operands == Operands::packed) continue;
    EXPECT_EQ(run(each, input), first) << each.name;
  }
}

TEST_F(Fp4AttentionLevels, reach_a_cosine_of_095_where_the_articles_rule_stops_at_083) {
  const AttentionShape shape{128, 64, 32};
  const AttentionInput input = attention_input(AttentionData::uniform, shape, 3, 1.0);
  const AttentionTruth exact = attention_truth(input);
  for (const int number : {6, 7, 8}) {
    const double up = mean_cosine(run(level(number), input, ScaleRule::rceil), exact, 32);
    const double article = mean_cosine(run(level(number), input, ScaleRule::amax_ceil), exact, 32);
    EXPECT_GE(up, 0.95) << level(number).name;
    EXPECT_LE(up, 0.98) << level(number).name;
    EXPECT_GE(article, 0.80) << level(number).name;
    EXPECT_LE(article, 0.87) << level(number).name;
  }
}

TEST_F(Fp4AttentionLevels, weigh_equal_keys_equally) {
  AttentionInput input = attention_input(AttentionData::uniform, {64, 128, 1}, 7);
  std::fill(input.q.begin(), input.q.end(), 0.0f);
  std::fill(input.v.begin(), input.v.end(), 1.0f);
  for (const AttentionLevel& each : attention_levels)
    EXPECT_EQ(run(each, input), std::vector<float>(64 * 64, 1.0f)) << each.name;
}

TEST_F(Fp4AttentionLevels, give_the_same_bits_in_any_order) {
  const AttentionInput input = attention_input(AttentionData::uniform, {64, 128, 2}, 8);
  for (const AttentionLevel& each : attention_levels)
    EXPECT_EQ(run(each, input, ScaleRule::rceil, {.schedule = Schedule::random, .seed = 9}),
              run(each, input, ScaleRule::rceil, {.schedule = Schedule::reverse}))
        << each.name;
}

TEST_F(Fp4AttentionLevels, execute_half_the_products_when_packed) {
  for (const int d : {64, 128}) {
    const AttentionInput input = attention_input(AttentionData::exact, {d, 128, 1}, 2);
    for (int number = 2; number <= 8; ++number) {
      run(level(number), input, ScaleRule::rceil, {.statistics = true});
      const Mix mix = executed(report);
      const std::uint64_t products = 4 * (128 / 8) * static_cast<std::uint64_t>(d) / 32;
      EXPECT_EQ(mix[static_cast<std::size_t>(Part::matrix)], number == 8 ? products / 2 : products);
      EXPECT_EQ(mix[static_cast<std::size_t>(Part::quantization)] == 0, number >= 7);
    }
  }
}

TEST_F(Fp4AttentionLevels, read_v_from_global_memory_once_only_from_three_on) {
  const AttentionInput input = attention_input(AttentionData::exact, {128, 64, 1}, 2);
  const auto requests = [&](int number) {
    run(level(number), input, ScaleRule::rceil, {.statistics = true});
    std::uint64_t sum = 0;
    for (const auto& each : report.instructions)
      if (each.opcode == "ld") sum += each.global_requests;
    return sum;
  };
  EXPECT_EQ(requests(2) - requests(3), 4 * 64 * 16 - 64 * 128 / 32);  // a key and eight elements
}

class Fp4AttentionSass : public Fp4AttentionLevels {
 protected:
  void SetUp() override {
    Fp4AttentionLevels::SetUp();
    if (IsSkipped()) return;
    ASSERT_FALSE(microscale::sass::find_nvdisasm().empty()) << microscale::sass::nvdisasm_advice();
  }
  static const microscale::sass::Function& of(const AttentionLevel& level, int d = 128) {
    static const microscale::sass::Listing listing =
        microscale::sass::disassemble(image("cubin"), true);
    for (const auto& each : listing.functions)
      if (each.name == entry_of(level, d)) return each;
    throw std::out_of_range(entry_of(level, d));
  }
  static const microscale::sass::Function& of(int number, int d = 128) {
    return of(level(number), d);
  }
};

TEST_F(Fp4AttentionSass, shows_what_each_level_changes) {
  using microscale::sass::count;
  for (const int d : {64, 128}) {
    const auto products = [&](int number) {
      return assembled(of(number, d))[static_cast<std::size_t>(Part::matrix)];
    };
    for (int number = 2; number <= 7; ++number) EXPECT_EQ(products(number), d / 32u);
    EXPECT_EQ(products(8), d / 64u);
    for (int number = 2; number <= 4; ++number) EXPECT_EQ(count(of(number, d)).calls, 66);
    for (int number = 5; number <= 8; ++number) EXPECT_EQ(count(of(number, d)).calls, 2);
    EXPECT_GT(count(of(5, d)).min_max, count(of(4, d)).min_max + 60);
    EXPECT_EQ(count(of(5, d)).byte_shared, d == 128 ? 170 : 118);  // 66 stores, 104 loads
    EXPECT_LE(count(of(6, d)).byte_shared, 2);                     // of scales
    for (int number = 2; number <= 8; ++number) EXPECT_EQ(count(of(number, d)).local_loads, 0);
  }
}

TEST_F(Fp4AttentionSass, is_mostly_quantization_until_that_leaves) {
  for (int number = 2; number <= 8; ++number) {
    const Mix mix = assembled(of(number));
    std::uint64_t all = 0;
    for (const std::uint64_t part : mix) all += part;
    const double share = static_cast<double>(mix[0]) / static_cast<double>(all);
    const double least = number <= 4 ? 0.55 : number <= 6 ? 0.4 : 0, most = number <= 6 ? 0.7 : 0;
    EXPECT_GE(share, least) << level(number).name;
    EXPECT_LE(share, most) << level(number).name;
  }
}

TEST_F(Fp4AttentionSass, converts_two_elements_an_instruction_where_the_machine_can) {
  const AttentionLevel* convert = nullptr;
  for (const AttentionLevel& each : attention_levels)
    if (each.entry == std::string("attention_6_hardware_cvt")) convert = &each;
  ASSERT_TRUE(convert);
  EXPECT_EQ(microscale::sass::count(of(*convert)).fp4_conversions, 2 * 16);  // q's and k's loop
  EXPECT_LT(3 * assembled(of(*convert))[0], assembled(of(6))[0]);
}

TEST_F(Fp4AttentionSass, leaves_room_for_as_many_blocks_as_the_table_says) {
  microscale::emulator::Memory memory;
  const microscale::emulator::Module module(memory, std::string(ptx.begin(), ptx.end()));
  const std::map<int, std::pair<int, int>> expected{
      {2, {49664, 2}}, {3, {82432, 1}}, {4, {33280, 2}}, {5, {33280, 2}},
      {6, {33280, 2}}, {7, {33280, 2}}, {8, {25088, 3}}};
  for (const auto& [number, held] : expected) {
    const auto& kernel = of(number);
    const auto shared = module.info(kernel.name).shared_bytes + dynamic_bytes(level(number), 128);
    EXPECT_EQ(shared, held.first) << kernel.name;
    for (const auto& gpu : microscale::emulator::known_gpus()) {
      if (gpu.major != 12) continue;
      EXPECT_EQ(occupancy(gpu, {kernel.registers, shared, attention_threads}).blocks, held.second)
          << kernel.name << " on " << gpu.name;
    }
  }
}

TEST(Fp4AttentionMix, goes_by_opcode_and_then_by_file) {
  EXPECT_EQ(part_of("QMMA.SF.16832.F32.E2M1.E2M1.E8", "a/softmax.cuh"), Part::matrix);
  EXPECT_EQ(part_of("mma", ""), Part::matrix);
  EXPECT_EQ(part_of("LDS.U8", "quantize.cuh"), Part::movement);
  EXPECT_EQ(part_of("cvt", "x/cuda/ptx/scalar.cuh"), Part::movement);
  EXPECT_EQ(part_of("cvt", "x/quantize.cuh"), Part::quantization);
  EXPECT_EQ(part_of("SHFL.IDX", "2_fused.cuh"), Part::softmax);
  EXPECT_EQ(part_of("FSETP.GEU.AND", "x/thresholds.cuh"), Part::quantization);
  EXPECT_EQ(part_of("FFMA", "x/softmax.cuh"), Part::softmax);
  EXPECT_EQ(part_of("BRA", "x/2_fused.cuh"), Part::other);
}

}  // namespace
}  // namespace levels
