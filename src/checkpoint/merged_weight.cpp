#include "checkpoint/merged_weight.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint/classifier.hpp"
#include "checkpoint/json.hpp"
#include "reference/dense.hpp"

namespace microscale {
namespace {

constexpr std::int64_t piece = 16384;  // elements of a factor in memory at once, at most
constexpr std::int64_t widest = 1024;  // columns
constexpr std::int64_t most_rows = 256;

WeightFacts facts_of(const DenseTensor& base, const ModelTensor& part) {
  WeightFacts facts;
  facts.name = base.entry.name;
  facts.shape = base.entry.shape;
  facts.type = StoredType::f32;
  facts.copied = copied_type(base);
  facts.description =
      fmt::format("{} with an adapter added",
                  base.weight ? base.weight->facts().description : to_string(base.entry.type));
  if (base.weight) {
    facts.parts = base.weight->facts().parts;
    facts.transposed = base.weight->facts().transposed;
  } else {
    facts.parts = {&part};
  }
  return facts;
}

// A rectangle of a matrix in a file, as FP64, to `out` with `step` between rows.
Status read_rectangle(const InputFile& file, const TensorEntry& entry, std::int64_t row,
                      std::int64_t rows, std::int64_t col, std::int64_t cols,
                      std::vector<double>& out) {
  const DType type = *dense_type(entry.type);
  const std::int64_t size = size_of(type), width = entry.shape[1];
  const bool whole = cols == width;
  const std::int64_t runs = whole ? 1 : rows, run = whole ? rows * cols : cols;
  out.resize(static_cast<std::size_t>(rows * cols));
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(run * size));
  for (std::int64_t i = 0; i < runs; ++i) {
    const std::int64_t at = (row + i) * width + col;
    Status read = file.read_at(entry.begin + static_cast<std::uint64_t>(at * size), bytes);
    if (!read) return read;
    for (std::int64_t j = 0; j < run; ++j) {
      out[static_cast<std::size_t>(i * run + j)] =
          static_cast<double>(load_dense(bytes.data(), type, j));
    }
  }
  return success();
}

void transpose(std::vector<double>& matrix, std::int64_t rows, std::int64_t cols) {
  std::vector<double> turned(matrix.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) {
      turned[static_cast<std::size_t>(j * rows + i)] =
          matrix[static_cast<std::size_t>(i * cols + j)];
    }
  }
  matrix = std::move(turned);
}

// Rows of the left factor [rows, rank] and columns of the right one [rank, cols].
struct Factors {
  std::vector<double> left, right;
};

Status read_left(const AddedPair& added, std::int64_t row, std::int64_t rows, Factors& factors) {
  const LoraPair& pair = *added.pair;
  if (!pair.transposed) {
    return read_rectangle(*added.file, pair.b, row, rows, 0, pair.rank, factors.left);
  }
  Status read = read_rectangle(*added.file, pair.a, 0, pair.rank, row, rows, factors.left);
  if (read) transpose(factors.left, pair.rank, rows);
  return read;
}

Status read_right(const AddedPair& added, std::int64_t col, std::int64_t cols, Factors& factors) {
  const LoraPair& pair = *added.pair;
  if (!pair.transposed) {
    return read_rectangle(*added.file, pair.a, 0, pair.rank, col, cols, factors.right);
  }
  Status read = read_rectangle(*added.file, pair.b, col, cols, 0, pair.rank, factors.right);
  if (read) transpose(factors.right, cols, pair.rank);
  return read;
}

// sums[c] += factor * left . right[:, c]
void add_products(const double* left, const std::vector<double>& right, std::int64_t rank,
                  std::int64_t cols, double factor, double* sums) {
  for (std::int64_t k = 0; k < rank; ++k) {
    const double scaled = factor * left[k];
    const double* row = right.data() + k * cols;
    for (std::int64_t c = 0; c < cols; ++c) sums[c] += scaled * row[c];
  }
}

class Merger {
 public:
  Merger(const ModelFolder& model, DenseView& view) : model_(model), view_(view) {}

  Result<std::string> add(const LoraAdapter& adapter) {
    for (const LoraPair& pair : adapter.pairs) {
      const DenseTensor* tensor = view_.find(pair.module + ".weight");
      const auto refuse = [&](const std::string& why) {
        return Failure{
            ErrorCode::bad_input,
            fmt::format("quantize: the adapter '{}' does not fit: {}", adapter.path.string(), why)};
      };
      if (!tensor) {
        return refuse(
            fmt::format("{} is for {}, and the model has no such weight (its first is "
                        "{}); take the model that the adapter was trained on",
                        in_quotes(pair.a.name), in_quotes(pair.module + ".weight"),
                        in_quotes(view_.tensors.front().entry.name)));
      }
      const std::int64_t outputs = pair.b.shape[0], inputs = pair.a.shape[1];
      const std::vector<std::int64_t> wanted =
          pair.transposed ? std::vector{inputs, outputs} : std::vector{outputs, inputs};
      if (tensor->entry.shape != wanted) {
        return refuse(
            fmt::format("{} [{}] and lora_B [{}] change a weight [{}], but {} is [{}]; "
                        "take the model that the adapter was trained on",
                        in_quotes(pair.a.name), fmt::join(pair.a.shape, ", "),
                        fmt::join(pair.b.shape, ", "), fmt::join(wanted, ", "),
                        in_quotes(tensor->entry.name), fmt::join(tensor->entry.shape, ", ")));
      }
      if (!tensor->weight && !dense_type(tensor->entry.type)) {
        return refuse(fmt::format("{} is of type {}, to which nothing is added here",
                                  in_quotes(tensor->entry.name), to_string(tensor->entry.type)));
      }
      pairs_[tensor->entry.name].push_back({&pair, &adapter.file});
    }
    return fmt::format("{} weights have the adapter '{}' added, times {:g}", adapter.pairs.size(),
                       adapter.path.string(), adapter.weight);
  }

  void finish() {
    for (DenseTensor& tensor : view_.tensors) {
      const auto found = pairs_.find(tensor.entry.name);
      if (found == pairs_.end()) continue;
      const ModelTensor* part =
          tensor.weight ? &tensor.weight->codes() : model_.find(tensor.entry.name);
      view_.merged.push_back(
          std::make_unique<MergedWeight>(tensor, *part, std::move(found->second)));
      tensor.weight = view_.merged.back().get();
      tensor.entry.type = StoredType::f32;
      tensor.entry.end =
          tensor.entry.begin + static_cast<std::uint64_t>(tensor.weight->elements()) * 4;
    }
  }

 private:
  const ModelFolder& model_;
  DenseView& view_;
  std::map<std::string_view, std::vector<AddedPair>> pairs_;  // by name of the tensor
};

}  // namespace

MergedWeight::MergedWeight(const DenseTensor& base, const ModelTensor& part,
                           std::vector<AddedPair> pairs)
    : StoredWeight(facts_of(base, part)), base_(base), pairs_(std::move(pairs)) {}

void MergedWeight::will_need(std::int64_t first, std::int64_t count) const {
  if (base_.weight) return base_.weight->will_need(first, count);
  const auto size = static_cast<std::uint64_t>(bits_per_element(base_.entry.type) / 8);
  base_.file->will_need(base_.entry.begin + static_cast<std::uint64_t>(first) * size,
                        static_cast<std::uint64_t>(count) * size);
}

Status MergedWeight::decode(std::int64_t first, std::int64_t count,
                            std::span<std::uint8_t> out) const {
  const std::int64_t cols = facts().shape[1];
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t row = (first + done) / cols, col = (first + done) % cols;
    std::int64_t rows = 1, width = std::min(cols - col, count - done);
    if (width == cols) rows = std::min(most_rows, (count - done) / cols);
    Status read = decode_rows(row, rows, col, width,
                              out.subspan(static_cast<std::size_t>(done * 4),
                                          static_cast<std::size_t>(rows * width * 4)));
    if (!read) return read;
    done += rows * width;
  }
  return success();
}

// The rectangle row by row without gaps: whole rows, or a piece of one.
Status MergedWeight::decode_rows(std::int64_t row, std::int64_t rows, std::int64_t col,
                                 std::int64_t cols, std::span<std::uint8_t> out) const {
  const DType type = *dense_type(base_.entry.type);
  const std::int64_t size = size_of(type), first = row * facts().shape[1] + col;
  // Narrow values go to the end of `out`, and are widened from the front.
  const auto narrow = out.last(static_cast<std::size_t>(rows * cols * size));
  if (Status read = base_.read(static_cast<std::uint64_t>(first * size), narrow); !read)
    return read;
  std::int64_t rank = 1;
  for (const AddedPair& added : pairs_) rank = std::max(rank, added.pair->rank);
  const std::int64_t part = std::clamp(piece / rank, std::int64_t{4}, widest);
  const std::int64_t group = std::clamp(piece / rank, std::int64_t{1}, most_rows);
  std::vector<Factors> factors(pairs_.size());
  auto* to = reinterpret_cast<float*>(out.data());
  for (std::int64_t i = 0; i < rows * cols; ++i) to[i] = load_dense(narrow.data(), type, i);
  std::vector<double> sums(static_cast<std::size_t>(part));
  for (std::int64_t begin = 0; begin < rows; begin += group) {
    const std::int64_t some = std::min(group, rows - begin);
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      if (Status read = read_left(pairs_[p], row + begin, some, factors[p]); !read) return read;
    }
    for (std::int64_t at = 0; at < cols; at += part) {
      const std::int64_t width = std::min(part, cols - at);
      for (std::size_t p = 0; p < pairs_.size(); ++p) {
        if (Status read = read_right(pairs_[p], col + at, width, factors[p]); !read) return read;
      }
      for (std::int64_t r = 0; r < some; ++r) {
        float* line = to + (begin + r) * cols + at;
        for (std::int64_t c = 0; c < width; ++c)
          sums[static_cast<std::size_t>(c)] = static_cast<double>(line[c]);
        for (std::size_t p = 0; p < pairs_.size(); ++p) {
          const LoraPair& pair = *pairs_[p].pair;
          add_products(factors[p].left.data() + r * pair.rank, factors[p].right, pair.rank, width,
                       pair.factor, sums.data());
        }
        for (std::int64_t c = 0; c < width; ++c)
          line[c] = static_cast<float>(sums[static_cast<std::size_t>(c)]);
      }
    }
  }
  return success();
}

Result<std::vector<LoraAdapter>> open_adapters(const std::vector<LoraUse>& uses) {
  std::vector<LoraAdapter> adapters;
  for (const LoraUse& use : uses) {
    auto adapter = open_lora_adapter(use);
    if (!adapter) return adapter.failure();
    adapters.push_back(std::move(adapter.value()));
  }
  return adapters;
}

Status check_added(const std::vector<LoraAdapter>& added, const QuantizeModelOptions& options) {
  if (added.size() == options.lora.size()) return success();
  return Failure{ErrorCode::unsupported,
                 fmt::format("quantize: nothing is added to the weights of the container {}; leave "
                             "out --lora, or merge the adapter first",
                             to_string(options.container))};
}

Result<std::vector<std::string>> merge_adapters(const std::vector<LoraAdapter>& adapters,
                                                const ModelFolder& model, DenseView& view) {
  Merger merger(model, view);
  std::vector<std::string> sentences;
  for (const LoraAdapter& adapter : adapters) {
    auto sentence = merger.add(adapter);
    if (!sentence) return sentence.failure();
    sentences.push_back(std::move(sentence.value()));
  }
  merger.finish();
  return sentences;
}

}  // namespace microscale
