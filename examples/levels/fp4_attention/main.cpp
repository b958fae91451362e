// FP4 attention from one matrix instruction to packed operands, on the emulator's RTX Blackwell:
// probes the instruction, checks every level against FP64, and prints the tables of
// examples/levels/README.md. --quick: two heads where the tables have 32.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "../image.hpp"
#include "emulator/device.hpp"
#include "emulator/occupancy.hpp"
#include "mix.hpp"
#include "probe.hpp"
#include "sass/counts.hpp"
#include "sass/cubin.hpp"
#include "sass/disassemble.hpp"

namespace {

using namespace levels;
using namespace microscale;

constexpr ScaleRule rules[] = {ScaleRule::rceil, ScaleRule::amax_ceil};

void probe_table(const AttentionKernels& kernels) {
  const int wrong = wrong_results(kernels.probe("attention_1_probe", identity_probes()));
  if (wrong > 0) throw std::runtime_error("identity matrices: " + std::to_string(wrong) + " wrong");
  std::printf(
      "Identity matrices at 32 x 32 shifts: every result as the fragments' formulas say.\n\n"
      "| selectors: byte, lane of b | lanes 0 to 7 scale rows | lanes 0 to 7 scale columns |\n"
      "|---|---|---|\n");
  for (const auto& [entry, byte, selectors] : {std::tuple{"attention_1_probe", 0, "0, 0"},
                                               {"attention_1_probe_byte_2_lane_1", 2, "2, 1"}}) {
    const ScaleLanes lanes = scale_lanes(kernels.probe(entry, scale_probes(byte)));
    std::printf("| %s |", selectors);
    for (const auto* each : {&lanes.row, &lanes.column}) {
      for (std::size_t i = 0; i < 8; ++i)
        (*each)[i] < 0 ? std::printf(" -") : std::printf(" %d", (*each)[i]);
      std::printf(" |");
    }
    std::printf("\n");
  }
}

void print_mix(const Mix& mix) {
  std::uint64_t all = 0;
  for (const std::uint64_t part : mix) all += part;
  std::printf(" %llu |", static_cast<unsigned long long>(all));
  for (const std::uint64_t part : mix)
    std::printf(" %llu (%.1f %%) |", static_cast<unsigned long long>(part),
                100.0 * static_cast<double>(part) / static_cast<double>(all));
  std::printf("\n");
}

void mix_heading(const char* title) {
  std::printf("\n%s\n\n| level | all |", title);
  for (const std::string_view name : part_names)
    std::printf(" %.*s |", static_cast<int>(name.size()), name.data());
  std::printf("\n|---|---|---|---|---|---|---|\n");
}

void assembled_tables(const std::vector<std::uint8_t>& ptx, const std::vector<std::uint8_t>& cubin,
                      int d) {
  emulator::Memory memory;
  const emulator::Module module(memory, std::string(ptx.begin(), ptx.end()));
  const sass::Listing listing = sass::disassemble(cubin, true);
  const auto function = [&](const AttentionLevel& level) -> const sass::Function& {
    for (const sass::Function& each : listing.functions)
      if (each.name == entry_of(level, d)) return each;
    throw std::runtime_error("not in the cubin: " + entry_of(level, d));
  };
  std::printf(
      "\nd = %d, assembled for sm_120f\n\n| level | registers | shared bytes | blocks an SM | "
      "warps of 48 | bound by | calls | byte stores and loads | FMNMX | compares |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n",
      d);
  for (const AttentionLevel& level : attention_levels) {
    const sass::Function& kernel = function(level);
    const sass::Counts counts = sass::count(kernel);
    const auto shared = module.info(kernel.name).shared_bytes + dynamic_bytes(level, d);
    const auto held = emulator::occupancy(emulator::limits_of("rtx5070ti"),
                                          {kernel.registers, shared, attention_threads});
    std::string bound;
    for (const auto limit : held.binding)
      bound += (bound.empty() ? "" : ", ") + std::string(name_of(limit));
    std::printf("| %s | %d | %d | %d | %d | %s | %d | %d | %d | %d |\n", level.name,
                kernel.registers, static_cast<int>(shared), held.blocks, held.warps, bound.c_str(),
                counts.calls, counts.byte_shared, counts.min_max, counts.compares);
  }
  mix_heading(("d = " + std::to_string(d) + ", instructions assembled").c_str());
  for (const AttentionLevel& level : attention_levels) {
    std::printf("| %s |", level.name);
    print_mix(assembled(function(level)));
  }
}

void executed_table(const std::vector<std::uint8_t>& ptx, const AttentionShape& shape) {
  emulator::EmulatorDevice device(12, 0);
  device.options.statistics = true;
  const AttentionKernels kernels(device, ptx);
  const AttentionInput input = attention_input(AttentionData::uniform, shape, 1);
  mix_heading(("d = " + std::to_string(shape.d) + ", " + std::to_string(shape.keys) +
               " keys: PTX instructions that the warps of a head execute, and where they wait")
                  .c_str());
  std::string waits =
      "\n| level | sectors a global access | passes a shared access |\n|---|---|---|\n";
  for (const AttentionLevel& level : attention_levels) {
    kernels.run(level, input, ScaleRule::rceil);
    std::printf("| %s |", level.name);
    print_mix(executed(device.last_report));
    double sectors = 0, requests = 0, conflicts = 0, accesses = 0;
    for (const auto& each : device.last_report.instructions) {
      sectors += static_cast<double>(each.sectors);
      requests += static_cast<double>(each.global_requests);
      conflicts += static_cast<double>(each.bank_conflicts);
      accesses += static_cast<double>(each.shared_requests);
    }
    char row[160];
    std::snprintf(row, sizeof row, "| %s | %.1f of %.0f | %.2f of %.0f |\n", level.name,
                  sectors / requests, requests, 1 + conflicts / accesses, accesses);
    waits += row;
  }
  std::printf("%s", waits.c_str());
}

/// A column of cosines: one input, all levels, checked.
class Columns {
 public:
  explicit Columns(const AttentionKernels& kernels) : kernels_(kernels) {}

  void add(const std::string& name, const AttentionInput& input) {
    heading_ += " " + name + " |";
    const AttentionTruth exact = attention_truth(input);
    std::size_t row = 0;
    for (const ScaleRule rule : rules) {
      const AttentionLevel* before = nullptr;
      AttentionTruth computed;
      for (const AttentionLevel& level : attention_levels) {
        if (!before || before->half_values != level.half_values ||
            (before->operands == Operands::f32_halved) != (level.operands == Operands::f32_halved))
          computed = attention_truth(as_computed(input, level, rule));
        before = &level;
        const std::vector<float> got = kernels_.run(level, input, rule);
        const double off = worst_of_bound(got, computed);
        if (!(off <= 1))
          throw std::runtime_error(std::string(level.name) + ", " + name + ": off by " +
                                   std::to_string(off) + " of what it may be");
        worst_ = std::max(worst_, off);
        char cell[32];
        std::snprintf(cell, sizeof cell, " %.4f |", mean_cosine(got, exact, input.shape.heads));
        if (rows_.size() <= row) rows_.push_back(std::string("| ") + level.name + " |");
        rows_[row++] += cell;
        std::fprintf(stderr, "%s: %s\n", name.c_str(), level.name);
      }
    }
    ++columns_;
  }

  void print() const {
    for (std::size_t rule = 0; rule < std::size(rules); ++rule) {
      std::printf("\nCosine, %s\n\n| level |%s\n|---|",
                  rules[rule] == ScaleRule::rceil ? "scales rounded up (amax / scale <= 6)"
                                                  : "the article's scales (2^ceil(log2 amax))",
                  heading_.c_str());
      for (int i = 0; i < columns_; ++i) std::printf("---|");
      std::printf("\n");
      for (std::size_t i = 0; i < std::size(attention_levels); ++i)
        std::printf("%s\n", rows_[rule * std::size(attention_levels) + i].c_str());
    }
    std::printf("\nEvery result within %.2f of its bound, against FP64 of what was multiplied.\n",
                worst_);
  }

 private:
  const AttentionKernels& kernels_;
  std::string heading_;
  std::vector<std::string> rows_;
  int columns_ = 0;
  double worst_ = 0;
};

std::string named(const AttentionShape& shape) {
  return "d " + std::to_string(shape.d) + ", " + std::to_string(shape.keys) + " keys, " +
         std::to_string(shape.heads) + (shape.heads == 1 ? " head" : " heads");
}

}  // namespace

int main(int argc, char** argv) try {
  const bool quick = argc > 1 && std::string_view(argv[1]) == "--quick";
  const auto ptx = image_beside_program("fp4_attention", "120f", "ptx");
  emulator::EmulatorDevice device(12, 0);
  const AttentionKernels kernels(device, ptx);
  probe_table(kernels);
  if (sass::find_nvdisasm().empty())
    std::printf("\nNot disassembled: %s\n", std::string(sass::nvdisasm_advice()).c_str());
  else
    for (const int d : {128, 64})
      assembled_tables(ptx, image_beside_program("fp4_attention", "120f", "cubin"), d);
  executed_table(ptx, {128, quick ? 128 : 1024, 1});
  const auto heads = [&](AttentionShape shape) {
    if (quick) shape.heads = std::min(shape.heads, 2);
    return shape;
  };
  Columns exact(kernels), uniform(kernels);
  std::printf(
      "\nOperands that E2M1 holds exactly (the article's six correctness configurations)\n");
  for (const AttentionShape& shape : correctness_shapes)
    exact.add(named(heads(shape)), attention_input(AttentionData::exact, heads(shape), 2));
  exact.print();
  std::printf(
      "\nU[-1, 1]: 64 keys without 1 / sqrt(d) (the article's 0.81), then its six benchmark "
      "configurations\n");
  const AttentionShape article = heads({128, 64, 32});
  uniform.add("64 keys, scale 1", attention_input(AttentionData::uniform, article, 3, 1.0));
  for (const AttentionShape& shape : benchmark_shapes)
    uniform.add(named(heads(shape)), attention_input(AttentionData::uniform, heads(shape), 4));
  uniform.print();
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_fp4_attention: %s\n", error.what());
  return 1;
}
