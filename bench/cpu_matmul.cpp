#include "cpu_matmul.hpp"

#include <algorithm>

#include "clock.hpp"
#include "core/threads.hpp"
#include "matmul_operands.hpp"
#include "memory_limits.hpp"

namespace microscale::bench {
namespace {

constexpr const char* option = "--rotate-mib";

int threads_of(const CpuMatmulOptions& options) {
  return options.context.threads > 0 ? options.context.threads : available_cores();
}

class Measurement {
 public:
  Measurement(const MatmulCase& c, const CpuMatmulOptions& options)
      : case_(c), options_(options), operands_(c) {
    if (few_rows()) {
      const auto bytes = static_cast<std::size_t>(c.weight_bytes());
      copies_ = std::max<std::size_t>(1, (options.rotate + bytes - 1) / bytes);
    }
    for (std::size_t i = 0; i < copies_; ++i) add_copy();
    output_.resize(static_cast<std::size_t>(c.rows() * c.n));
  }

  Result run(const CpuMatmulLimits& limits, const Watcher& watcher) {
    Result row{.name = case_.name, .threads = limits.threads};
    row.operations = case_.operations();
    row.bytes = case_.bytes();
    run_copy(0);
    const double roundings = static_cast<double>(case_.k) + 8;  // of the longest kernel's sum
    row.error = worst_sampled_error(case_, operands_, roundings * 0x1p-24, [&](std::int64_t index) {
      return output_[static_cast<std::size_t>(index)];
    });
    std::vector<double> times, reads, peaks;
    std::string peak_name;
    std::size_t copy = 0;
    const int rounds = few_rows() ? 4 * options_.runs : options_.runs;
    for (int r = 0; r < rounds && !watcher.stopped(); ++r) {
      times.push_back(seconds_of([&] { run_copy(copy++ % copies_); }));
      reads.push_back(seconds_of([&] {
        const HostMemory& weights = memory_[copy++ % copies_];
        move_bytes(weights.data(), weights.size(), nullptr, 0, limits.threads);
      }));
      const Peak now = (codes_by_codes() ? codes_peak : arithmetic_peak)(
          options_.context.backend, limits.threads, options_.brief);
      peaks.push_back(now.operations);
      peak_name = now.name;
    }
    if (times.empty()) return row;
    row.seconds = median(times);
    const double read = median(reads) * row.bytes / case_.weight_bytes();
    const double peak = median(peaks), multiply = peak > 0 ? row.operations / peak : 0;
    row.arithmetic = multiply > read;
    row.limit = row.arithmetic ? peak_name : "read";
    row.limit_seconds = std::max(read, multiply);
    return row;
  }

 private:
  bool codes_by_codes() const {
    return case_.m >= 16 && case_.input && info(*case_.input).code_bits == 4 &&
           info(case_.weights).code_bits == 4;
  }
  bool few_rows() const { return case_.kind != ProductKind::grouped && case_.m <= 16; }

  // The first is what the operands are, or is packed of them; the others are copies of its bytes.
  void add_copy() {
    const HostMemory& from = memory_.empty() ? operands_.weights() : memory_[0];
    if (case_.packed && memory_.empty()) {
      PackOptions options{.b = operands_.weights_in(operands_.weights().data(), 0),
                          .matrices = case_.matrices()};
      if (case_.kind == ProductKind::gated)
        options.up = operands_.weights_in(operands_.weights().data(), 1);
      memory_.emplace_back(static_cast<std::size_t>(packed_weights_bytes(options)), option);
      packed_ = pack_weights(options, memory_[0].span());
      return;
    }
    HostMemory copy(from.size(), option);
    copy_bytes(from.data(), copy.data(), copy.size(), 0);
    memory_.push_back(std::move(copy));
  }

  void run_copy(std::size_t copy) {
    const HostMemory& memory = memory_[copy];
    const std::int64_t rows = case_.kind == ProductKind::grouped ? case_.rows() : case_.m;
    MatmulOperandsView view{
        .a = operands_.input_in(operands_.input().data()),
        .b = packed_,
        .d = MutableTensorView{output_.data(), case_.output, rows, case_.n, case_.n},
        .offsets = operands_.offsets().data()};
    if (case_.packed) {
      PackedWeights packed = packed_;
      packed.bytes = memory.span();
      view.b = packed;
    } else {
      view.b = operands_.weights_in(memory.data(), 0);
      if (case_.kind == ProductKind::gated) view.up = operands_.weights_in(memory.data(), 1);
    }
    multiply(case_, view, options_.context);
  }

  const MatmulCase& case_;
  const CpuMatmulOptions& options_;
  MatmulOperands operands_;
  std::size_t copies_ = 1;
  std::vector<HostMemory> memory_;
  PackedWeights packed_;
  std::vector<std::uint16_t> output_;
};

/// What the project set out for: the share of reading for one row of FP4 weights, and 2.5 of the
/// 5.8 TFLOP/s of two cores with AMX for many.
double share_to_reach(const MatmulCase& c, const Result& row) {
  const bool fp4 = info(c.weights).code_bits == 4;
  if (c.kind != ProductKind::plain || c.input || !fp4) return 0;
  if (c.m == 1 && row.limit == "read") return 0.85;
  return c.m == 512 && row.limit == "AMX" ? 0.43 : 0;
}

}  // namespace

CpuMatmulLimits cpu_matmul_limits(const CpuMatmulOptions& options) {
  const int threads = threads_of(options);
  const HostMemory memory(std::max<std::size_t>(options.rotate, 1 << 20), option);
  std::vector<double> reads, peaks, code_peaks;
  CpuMatmulLimits limits{.threads = threads, .peak = {}, .codes = {}};
  for (int run = 0; run < std::max(options.runs, 3); ++run) {
    reads.push_back(
        seconds_of([&] { move_bytes(memory.data(), memory.size(), nullptr, 0, threads); }));
    limits.peak = arithmetic_peak(options.context.backend, threads, options.brief);
    limits.codes = codes_peak(options.context.backend, threads, options.brief);
    peaks.push_back(limits.peak.operations);
    code_peaks.push_back(limits.codes.operations);
  }
  limits.read = static_cast<double>(memory.size()) / median(reads);
  limits.peak.operations = median(peaks);
  limits.codes.operations = median(code_peaks);
  return limits;
}

void measure_matmul(const std::vector<MatmulCase>& cases, const CpuMatmulOptions& options,
                    const CpuMatmulLimits& limits, const Watcher& watcher) {
  measure_each(cases, options.filter, watcher, [&](const MatmulCase& c) {
    Result row = Measurement(c, options).run(limits, watcher);
    row.must = share_to_reach(c, row);
    return row;
  });
}

}  // namespace microscale::bench
