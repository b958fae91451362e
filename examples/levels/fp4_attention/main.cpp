// FP4 attention from one matrix instruction to packed operands, on the emulator's RTX Blackwell:
// probes the instruction, checks every level against FP64, and prints the tables of
// examples/levels/README.md. --quick: two heads where the tables have 32.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
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

std::string with_share(std::uint64_t part, std::uint64_t all) {
  char text[48];
  std::snprintf(text, sizeof text, " %llu (%.1f %%) |", static_cast<unsigned long long>(part),
                100.0 * static_cast<double>(part) / static_cast<double>(all));
  return text;
}

std::uint64_t sum_of(const Mix& mix) {
  return std::accumulate(mix.begin(), mix.end(), std::uint64_t{0});
}

std::string cells(const Mix& mix) {
  std::string text = " " + std::to_string(sum_of(mix)) + " |";
  for (const std::uint64_t part : mix) text += with_share(part, sum_of(mix));
  return text;
}

/// Of a table with a column for each part and `more`.
void mix_heading(const char* title, const char* more, int columns) {
  std::printf("\n%s\n\n| level | all |", title);
  for (const std::string_view name : part_names)
    std::printf(" %.*s |", static_cast<int>(name.size()), name.data());
  std::printf("%s\n", more);
  for (int i = 0; i < columns + 7; ++i) std::printf("|---");
  std::printf("|\n");
}

/// The kernels as ptxas made them.
class Assembled {
 public:
  explicit Assembled(const std::vector<std::uint8_t>& ptx)
      : module_(memory_, std::string(ptx.begin(), ptx.end())),
        listing_(sass::disassemble(image_beside_program("fp4_attention", "120f", "cubin"), true)) {}

  void print() const {
    std::printf(
        "\nAn SM of sm_120; the last three columns are of d = 64, the others of d = 128\n\n"
        "| level | registers | shared bytes | blocks | warps | calls | byte accesses | FMNMX | "
        "compares | registers | shared bytes | blocks |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const AttentionLevel& level : attention_levels) {
      const sass::Counts counts = sass::count(function(level, 128));
      const emulator::KernelUse use = use_of(level, 128), small = use_of(level, 64);
      const emulator::Occupancy held = emulator::occupancy(gpu_, use);
      std::printf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", level.name,
                  use.registers, static_cast<int>(use.shared), held.blocks, held.warps,
                  counts.calls, counts.byte_shared, counts.min_max, counts.compares,
                  small.registers, static_cast<int>(small.shared),
                  emulator::occupancy(gpu_, small).blocks);
    }
    mix_heading(
        "Instructions assembled; the last three columns are of d = 64, the others of d = 128",
        " all | quantization | MMA |", 3);
    for (const AttentionLevel& level : attention_levels) {
      const Mix small = assembled(function(level, 64));
      std::printf("| %s |%s %d |%s %d |\n", level.name,
                  cells(assembled(function(level, 128))).c_str(), static_cast<int>(sum_of(small)),
                  with_share(small[0], sum_of(small)).c_str(),
                  static_cast<int>(small[static_cast<std::size_t>(Part::matrix)]));
    }
  }

 private:
  const sass::Function& function(const AttentionLevel& level, int d) const {
    for (const sass::Function& each : listing_.functions)
      if (each.name == entry_of(level, d)) return each;
    throw std::runtime_error("not in the cubin: " + entry_of(level, d));
  }
  emulator::KernelUse use_of(const AttentionLevel& level, int d) const {
    const std::int64_t fixed = module_.info(entry_of(level, d)).shared_bytes;
    return {function(level, d).registers, fixed + dynamic_bytes(level, d), attention_threads};
  }

  const emulator::MultiprocessorLimits& gpu_ = emulator::limits_of("rtx5070ti");
  emulator::Memory memory_;
  emulator::Module module_;
  sass::Listing listing_;
};

void executed_table(const std::vector<std::uint8_t>& ptx, const AttentionShape& shape) {
  emulator::EmulatorDevice device(12, 0);
  device.options.statistics = true;
  const AttentionKernels kernels(device, ptx);
  const AttentionInput input = attention_input(AttentionData::uniform, shape, 1);
  mix_heading(("PTX instructions that the warps of a head execute, d = " + std::to_string(shape.d) +
               ", " + std::to_string(shape.keys) + " keys")
                  .c_str(),
              " global accesses, sectors each | shared accesses, passes each |", 2);
  for (const AttentionLevel& level : attention_levels) {
    kernels.run(level, input, ScaleRule::rceil);
    double sectors = 0, global = 0, conflicts = 0, shared = 0;
    for (const auto& each : device.last_report.instructions) {
      sectors += static_cast<double>(each.sectors);
      global += static_cast<double>(each.global_requests);
      conflicts += static_cast<double>(each.bank_conflicts);
      shared += static_cast<double>(each.shared_requests);
    }
    std::printf("| %s |%s %.0f, %.1f | %.0f, %.2f |\n", level.name,
                cells(executed(device.last_report)).c_str(), global, sectors / global, shared,
                1 + conflicts / shared);
  }
}

/// Cosines, an input a column and a level a row, under both rules; every result is checked.
class Cosines {
 public:
  explicit Cosines(const AttentionKernels& kernels) : kernels_(kernels) {}

  void add(const std::string& name, const AttentionInput& input) {
    std::fprintf(stderr, "%s\n", name.c_str());
    heading_ += " " + name + " |";
    const AttentionTruth exact = attention_truth(input);
    std::map<std::array<bool, 3>, AttentionTruth> computed;
    for (std::size_t row = 0; row < std::size(attention_levels); ++row) {
      const AttentionLevel& level = attention_levels[row];
      for (const ScaleRule rule : {ScaleRule::rceil, ScaleRule::amax_ceil}) {
        AttentionTruth& own = computed[{level.operands == Operands::f32_halved, level.half_values,
                                        rule == ScaleRule::rceil}];
        if (own.value.empty()) own = attention_truth(as_computed(input, level, rule));
        const std::vector<float> got = kernels_.run(level, input, rule);
        check(level, name, worst_of_bound(got, own));
        char text[16];
        std::snprintf(text, sizeof text, " %.4f", mean_cosine(got, exact, input.shape.heads));
        rows_[row] += text;
      }
      rows_[row] += " |";
    }
    ++columns_;
  }

  void print(const char* title) const {
    std::printf("\n%s\n\n| level |%s\n|---|", title, heading_.c_str());
    for (int i = 0; i < columns_; ++i) std::printf("---|");
    for (std::size_t row = 0; row < std::size(attention_levels); ++row)
      std::printf("\n| %s |%s", attention_levels[row].name, rows_[row].c_str());
    std::printf("\n\nNo result is off what its level multiplied by more than %.3f of the bound.\n",
                worst_);
  }

 private:
  void check(const AttentionLevel& level, const std::string& name, double off) {
    if (!(off <= 1))
      throw std::runtime_error(std::string(level.name) + ", " + name + ": off by " +
                               std::to_string(off) + " of what it may be");
    worst_ = std::max(worst_, off);
  }

  const AttentionKernels& kernels_;
  std::string heading_;
  std::array<std::string, std::size(attention_levels)> rows_;
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
    Assembled(ptx).print();
  executed_table(ptx, {128, quick ? 128 : 1024, 1});
  const auto heads = [&](AttentionShape shape) {
    if (quick) shape.heads = std::min(shape.heads, 2);
    return shape;
  };
  Cosines exact(kernels), uniform(kernels);
  for (const AttentionShape& shape : correctness_shapes)
    exact.add(named(heads(shape)), attention_input(AttentionData::exact, heads(shape), 2));
  exact.print(
      "The article's correctness configurations, operands that E2M1 holds: cosine with scales "
      "rounded up, with the article's");
  const AttentionShape article = heads({128, 64, 32});
  uniform.add("d 128, 64 keys, no 1 / sqrt(d)",
              attention_input(AttentionData::uniform, article, 3, 1.0));
  for (const AttentionShape& shape : benchmark_shapes)
    uniform.add(named(heads(shape)), attention_input(AttentionData::uniform, heads(shape), 4));
  uniform.print("Its test that gave 0.81 and its benchmark configurations, U[-1, 1]: the same");
} catch (const std::exception& error) {
  std::fprintf(stderr, "levels_fp4_attention: %s\n", error.what());
  return 1;
}
