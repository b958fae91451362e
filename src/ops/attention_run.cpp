// Cuts the queries of every sequence and kv head into tiles of rows, the keys into parts, runs the
// kernel on each pair, and has the parts merged in order. What is cut how depends on shapes alone,
// so no byte depends on the number of threads.
#include "ops/attention_run.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <vector>

#include "formats/integers.hpp"
#include "seam/kernel_table.hpp"
#include "core/threads.hpp"
#include "microscale/error.hpp"
#include "ops/attention_operands.hpp"
#include "ops/backends.hpp"
#include "seam/kv_cache_view.hpp"
#include "reference/attention_merge.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
constexpr std::int64_t key_step = 64;  // parts begin at multiples of this

/// Rows [first, first + count) of a sequence and kv head; row = query token * group + head in it.
struct Tile {
  std::int64_t sequence, kv_head, first, count;
};

/// What the kernel gives for one tile and one part of the keys.
struct Part {
  double *largest, *sum, *output;
};

class Memory {
 public:
  std::uint8_t* reserve(std::int64_t bytes) {
    if (bytes <= bytes_) return data_.get();
    const auto rounded = static_cast<std::size_t>(round_up(bytes, 64));
    data_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(64, rounded)));
    bytes_ = data_ ? bytes : 0;
    if (!data_)
      throw Error(ErrorCode::out_of_memory,
                  "attention: no memory for " + std::to_string(bytes) +
                      " bytes of work space; take fewer sequences a call");
    return data_.get();
  }

 private:
  struct Free {
    void operator()(std::uint8_t* p) const { std::free(p); }
  };
  std::unique_ptr<std::uint8_t, Free> data_;
  std::int64_t bytes_ = 0;
};

class Runner {
 public:
  Runner(const AttentionCall& call, const Context& context, const AttentionKernels& kernels)
      : call_(call),
        context_(context),
        operands_(call, context),
        kernels_(kernels),
        output_(with_strides(call.options.output)),
        workers_(
            static_cast<std::size_t>(context.threads > 0 ? context.threads : available_cores())) {}

  void run() {
    cut();
    if (tiles_.empty()) return;
    if (splits_ == 1)
      run_whole();
    else
      run_parts();
  }

 private:
  /// Every tile from its keys to the output, by one worker.
  void run_whole() {
    const std::int64_t doubles = part_rows_ * (call_.d + 2);
    std::vector<Memory> parts(workers_.size());
    parallel_for_worker(
        static_cast<std::int64_t>(tiles_.size()), threads(), [&](std::int64_t i, int worker) {
          const auto own = static_cast<std::size_t>(worker);
          const Part part = part_at(reinterpret_cast<double*>(
              parts[own].reserve(doubles * static_cast<std::int64_t>(sizeof(double)))));
          const Tile& tile = tiles_[static_cast<std::size_t>(i)];
          attend(tile, 0, part, workers_[own]);
          std::vector<AttentionPart> row(1);
          for (std::int64_t r = 0; r < tile.count; ++r) {
            row[0] = {part.largest + r, part.sum + r, part.output + r * call_.d};
            finish(tile, r, row);
          }
        });
  }

  void run_parts() {
    const std::int64_t part_doubles = part_rows_ * (call_.d + 2);
    constexpr std::int64_t most_doubles = 8 << 20;  // of parts that wait to be merged
    const auto wave = std::max<std::int64_t>(1, most_doubles / (part_doubles * splits_));
    const auto count = static_cast<std::int64_t>(tiles_.size());
    Memory memory;
    auto* const parts =
        reinterpret_cast<double*>(memory.reserve(std::min(wave, count) * splits_ * part_doubles *
                                                 static_cast<std::int64_t>(sizeof(double))));
    const auto part_of = [&](std::int64_t tile, std::int64_t split) {
      return part_at(parts + (tile * splits_ + split) * part_doubles);
    };
    for (std::int64_t first = 0; first < count; first += wave) {
      const std::int64_t tiles = std::min(wave, count - first);
      // The heads of one part of the keys after each other: where they lie side by side, what one
      // brought into the caches serves the next.
      parallel_for_worker(tiles * splits_, threads(), [&](std::int64_t i, int worker) {
        attend(tiles_[static_cast<std::size_t>(first + i % tiles)], i / tiles,
               part_of(i % tiles, i / tiles), workers_[static_cast<std::size_t>(worker)]);
      });
      parallel_for(tiles, context_.threads, [&](std::int64_t i) {
        const Tile& tile = tiles_[static_cast<std::size_t>(first + i)];
        std::vector<AttentionPart> row(static_cast<std::size_t>(splits_));
        for (std::int64_t r = 0; r < tile.count; ++r) {
          for (std::int64_t split = 0; split < splits_; ++split) {
            const Part part = part_of(i, split);
            row[static_cast<std::size_t>(split)] = {part.largest + r, part.sum + r,
                                                    part.output + r * call_.d};
          }
          finish(tile, r, row);
        }
      });
    }
  }

  int threads() const { return static_cast<int>(workers_.size()); }

  Part part_at(double* at) const { return {at, at + part_rows_, at + 2 * part_rows_}; }

  void cut() {
    std::int64_t longest = 0;
    for (std::int64_t s = 0; s < call_.sequences; ++s) {
      const std::int64_t rows = call_.q_length(s) * call_.group();
      longest = std::max(longest, call_.kv_length(s));
      for (std::int64_t g = 0; g < call_.kv_heads; ++g)
        for (std::int64_t r = 0; r < rows; r += kernels_.tile_rows)
          tiles_.push_back({s, g, r, std::min(kernels_.tile_rows, rows - r)});
      part_rows_ = std::max(part_rows_, std::min(kernels_.tile_rows, rows));
    }
    constexpr std::int64_t wanted = 128, least_keys = 512;
    const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(tiles_.size()));
    splits_ = call_.options.splits;
    if (splits_ == 0)
      splits_ = std::max<std::int64_t>(1, std::min(ceil_div(wanted, count), longest / least_keys));
    // Codes of probabilities follow from the largest score of all keys.
    if (call_.probabilities != ProbabilityRule::exact) splits_ = 1;
  }

  AttentionRow row_of(const Tile& tile, std::int64_t r) const {
    const AttentionOptions& o = call_.options;
    const std::int64_t length = call_.kv_length(tile.sequence);
    const std::int64_t q_length = call_.q_length(tile.sequence),
                       position = length - q_length + (tile.first + r) / call_.group();
    const std::int64_t window = std::min(o.window, length + q_length);  // more sees no more
    AttentionRow row;
    row.begin = window > 0 ? std::max<std::int64_t>(0, position - window + 1) : 0;
    row.end = o.causal ? std::min(length, position + 1) : length;
    if (row.begin >= row.end) row.begin = row.end = 0;
    return row;
  }

  std::int64_t head_of(const Tile& tile, std::int64_t r) const {
    return tile.kv_head * call_.group() + (tile.first + r) % call_.group();
  }

  void attend(const Tile& tile, std::int64_t split, const Part& part, Memory& memory) const {
    const std::int64_t length = call_.kv_length(tile.sequence), d = call_.d;
    const std::int64_t step = round_up(ceil_div(length, splits_), key_step);
    std::vector<AttentionRow> rows(static_cast<std::size_t>(tile.count));
    std::int64_t begin = length, end = 0;
    for (std::int64_t r = 0; r < tile.count; ++r) {
      AttentionRow& row = rows[static_cast<std::size_t>(r)] = row_of(tile, r);
      row.begin = std::max(row.begin, split * step);
      row.end = std::min(row.end, (split + 1) * step);
      if (row.begin >= row.end) {
        row.begin = row.end = 0;
        continue;
      }
      begin = std::min(begin, row.begin);
      end = std::max(end, row.end);
    }
    if (begin >= end) {
      std::fill(part.largest, part.largest + tile.count, minus_infinity);
      std::fill(part.sum, part.sum + tile.count, 0.0);
      std::fill(part.output, part.output + tile.count * d, 0.0);
      return;
    }
    const std::int64_t work = kernels_.workspace_bytes(tile.count, end - begin, d);
    const std::int64_t query_at = round_up(work, 64);
    std::uint8_t* scratch =
        memory.reserve(query_at + tile.count * d * static_cast<std::int64_t>(sizeof(double)));
    auto* q = reinterpret_cast<double*>(scratch + query_at);
    for (std::int64_t r = 0; r < tile.count; ++r)
      rows[static_cast<std::size_t>(r)].shift = operands_.query(
          tile.sequence, (tile.first + r) / call_.group(), head_of(tile, r), q + r * d);
    std::vector<AttentionKeys> keys;
    operands_.keys(tile.sequence, tile.kv_head, begin, end, keys);
    kernels_.attend({.q = q,
                     .rows = tile.count,
                     .d = d,
                     .row = rows.data(),
                     .keys = keys,
                     .scale = call_.scale,
                     .softcap = call_.options.softcap,
                     .probabilities = call_.probabilities,
                     .probability_format = call_.v_format,
                     .two_term = call_.two_term,
                     .largest = part.largest,
                     .sum = part.sum,
                     .output = part.output,
                     .workspace = scratch});
  }

  /// Row r from its parts, with its sink.
  void finish(const Tile& tile, std::int64_t r, const std::vector<AttentionPart>& parts) const {
    const std::int64_t head = head_of(tile, r),
                       token = call_.q_first(tile.sequence) + (tile.first + r) / call_.group();
    const double sink = call_.options.sinks ? call_.options.sinks[head] : minus_infinity;
    std::vector<double> weights(parts.size());
    const MergedSum merged = merge_sums(parts.data(), splits_, sink, weights.data());
    const std::int64_t at = token / output_.tokens * output_.batch_stride +
                            token % output_.tokens * output_.token_stride +
                            head * output_.head_stride;
    store_merged(parts.data(), splits_, weights.data(), merged, call_.d, output_.data,
                 output_.dtype, at);
    if (call_.options.log_sum_exp)
      store_dense(static_cast<float>(log_sum_exp(merged)), call_.options.log_sum_exp, DType::f32,
                  token * call_.q_heads + head);
  }

  const AttentionCall& call_;
  const Context& context_;
  AttentionOperands operands_;
  const AttentionKernels& kernels_;
  MutableHeadsView output_;
  std::vector<Memory> workers_;
  std::vector<Tile> tiles_;
  std::int64_t part_rows_ = 0;  // the most rows of a tile
  std::int64_t splits_ = 1;
};

}  // namespace

const AttentionKernels* choose_attention_kernels(const AttentionCall& call,
                                                 const Context& context) {
  if (call.sequences == 0 || call.q_tokens == 0) return nullptr;
  return choose_backend(AttentionOperands::needs_of(call), context).attention;
}

void run_attention(const AttentionCall& call, const Context& context,
                   const AttentionKernels* kernels) {
  if (kernels != nullptr) Runner(call, context, *kernels).run();
}

}  // namespace microscale
