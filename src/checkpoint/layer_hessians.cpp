#include "checkpoint/layer_hessians.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/json.hpp"
#include "checkpoint/weight_format.hpp"
#include "core/threads.hpp"
#include "microscale/error.hpp"
#include "seam/hessian_kernels.hpp"

namespace microscale {
namespace {

// Of Hessians that are made ready together, while they are: enough of small ones for many workers.
constexpr std::int64_t piece_bytes = std::int64_t{128} << 20;

}  // namespace

LayerHessians::LayerHessians(const ModelPlan& plan, const QuantizeModelOptions& options,
                             const Importance* statistics)
    : plan_(plan), options_(options), statistics_(statistics) {
  const StatisticsMethod method = options.statistics.method;
  if (method == StatisticsMethod::search) statistics_ = nullptr;
  if (method == StatisticsMethod::block_hessian) method_ = HessianMethod::block_hessian;
  for (const ShardPlan& shard : plan.shards)
    for (const QuantizedMatrix& matrix : shard.matrices)
      if (has(matrix)) most_cols_ = std::max(most_cols_, matrix.slice.cols);
}

std::optional<LayerHessians::Key> LayerHessians::key_of(const QuantizedMatrix& matrix) const {
  if (!statistics_ || matrix.kept) return std::nullopt;
  const auto format = blocks_of(matrix.format);
  if (format != Format::nvfp4 && format != Format::mxfp4) return std::nullopt;
  const std::string* owner = statistics_->hessian_of(matrix.slice.module);
  if (!owner) return std::nullopt;
  return Key{*owner, *format};
}

std::optional<LayerHessians::Key> LayerHessians::key_of(const Unit& unit) const {
  if (unit.kind != Unit::Kind::quantize) return std::nullopt;
  return key_of(plan_.shards[unit.shard].matrices[unit.item]);
}

const PreparedHessian& LayerHessians::of(const QuantizedMatrix& matrix) const {
  return *ready_.at(*key_of(matrix));
}

std::int64_t LayerHessians::bytes_of(const QuantizedMatrix& matrix) const {
  const std::int64_t cols = matrix.slice.cols;
  const HessianBytes bytes = hessian_bytes(cols, *blocks_of(matrix.format), method_);
  return bytes.making + bytes.kept + cols * cols * std::int64_t{sizeof(float)};
}

std::vector<std::vector<Unit>> LayerHessians::pieces(const std::vector<Unit>& units) const {
  std::vector<std::vector<Unit>> pieces(1);
  std::map<Key, std::size_t> places;
  std::vector<std::vector<Unit>> by_hessian;
  std::vector<std::int64_t> sizes;
  for (const Unit& unit : units) {
    const auto key = key_of(unit);
    if (!key) {
      pieces.front().push_back(unit);
      continue;
    }
    const auto [place, is_new] = places.emplace(*key, by_hessian.size());
    if (is_new) {
      by_hessian.emplace_back();
      sizes.push_back(bytes_of(plan_.shards[unit.shard].matrices[unit.item]));
    }
    by_hessian[place->second].push_back(unit);
  }
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < by_hessian.size(); ++i) {
    if (bytes > 0 && bytes + sizes[i] > piece_bytes) {
      pieces.emplace_back();
      bytes = 0;
    }
    bytes += sizes[i];
    pieces.back().insert(pieces.back().end(), by_hessian[i].begin(), by_hessian[i].end());
  }
  return pieces;
}

void LayerHessians::make_ready(const std::vector<Unit>& piece, int threads) {
  std::map<Key, std::int64_t> wanted;
  for (const Unit& unit : piece)
    if (const auto key = key_of(unit))
      wanted.emplace(*key, plan_.shards[unit.shard].matrices[unit.item].slice.cols);
  std::erase_if(ready_, [&](const auto& ready) { return !wanted.contains(ready.first); });
  std::vector<std::pair<Key, std::int64_t>> missing;
  for (const auto& each : wanted)
    if (!ready_.contains(each.first)) missing.push_back(each);
  // A single one has all threads for itself.
  std::vector<std::shared_ptr<const PreparedHessian>> made(missing.size());
  parallel_for(static_cast<std::int64_t>(missing.size()), threads, [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    made[at] = make(missing[at].first, missing[at].second, threads);
  });
  for (std::size_t i = 0; i < made.size(); ++i) {
    const Key& key = missing[i].first;
    if (made[i]->damping() > options_.statistics.damping) damped_[key.first] = made[i]->damping();
    if (made[i]->dead_columns() > 0) dead_columns_[key.first] = made[i]->dead_columns();
    ready_[key] = std::move(made[i]);
  }
}

std::shared_ptr<const PreparedHessian> LayerHessians::make(const Key& key, std::int64_t cols,
                                                           int threads) const {
  std::vector<float> hessian(static_cast<std::size_t>(cols * cols));
  take(statistics_->read_hessian(key.first, hessian));
  HessianOptions options;
  options.hessian = hessian;
  options.cols = cols;
  options.format = key.second;
  options.method = method_;
  options.shrink = options_.statistics.shrink.value_or(statistics_->shrink(key.first, cols));
  options.damping = options_.statistics.damping;
  try {
    return std::make_shared<const PreparedHessian>(options, Context{.threads = threads});
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("quantize: the Hessian of {} in '{}': {}", in_quotes(key.first),
                            statistics_->file().path().string(), error.what()));
  }
}

std::int64_t LayerHessians::bytes() const {
  std::map<Key, std::int64_t> each;
  for (const ShardPlan& shard : plan_.shards)
    for (const QuantizedMatrix& matrix : shard.matrices)
      if (const auto key = key_of(matrix)) each.emplace(*key, bytes_of(matrix));
  std::int64_t largest = 0, all = 0;
  for (const auto& [key, bytes] : each) {
    largest = std::max(largest, bytes);
    all += bytes;
  }
  return std::max(largest, std::min(all, piece_bytes));
}

std::int64_t LayerHessians::worker_bytes() const {
  // A group of rows: weights, errors, codes, and scales.
  return most_cols_ * hessian_rows * (2 * std::int64_t{sizeof(float)} + 2);
}

std::vector<std::string> LayerHessians::notices() const {
  std::vector<std::string> notices;
  if (!damped_.empty()) {
    const auto most = std::max_element(damped_.begin(), damped_.end(),
                                       [](auto& a, auto& b) { return a.second < b.second; });
    notices.push_back(fmt::format(
        "the Hessians of {} layers, {} among them, were damped by up to {:g} times their mean "
        "instead of {:g}, as they could not be factored otherwise: too few tokens, or too little "
        "precision; more tokens help",
        damped_.size(), in_quotes(most->first), most->second, options_.statistics.damping));
  }
  if (!dead_columns_.empty()) {
    std::int64_t columns = 0;
    for (const auto& [module, count] : dead_columns_) columns += count;
    notices.push_back(fmt::format(
        "{} input columns of {} layers, {} among them, were 0 for every token of the calibration; "
        "they count as the mean of the others",
        columns, dead_columns_.size(), in_quotes(dead_columns_.begin()->first)));
  }
  return notices;
}

}  // namespace microscale
