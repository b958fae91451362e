#include "checkpoint/choice_groups.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "checkpoint/format_choice.hpp"
#include "checkpoint/recipe.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {
namespace {

std::int64_t bytes_of(const PlannedTensor& tensor) {
  if (tensor.name.empty()) return 0;
  const auto bytes = stored_bytes(tensor.type, tensor.shape);
  return bytes ? static_cast<std::int64_t>(bytes.value()) : 0;
}

// Codes and the scales of blocks or rows.
std::int64_t coded_bytes(const QuantizedMatrix& matrix, WeightFormat format,
                         const QuantizeModelOptions& options) {
  const LayerTensors layer = writer_of(options.container)
                                 .layer(scheme_of(options, format), matrix.slice.module,
                                        matrix.slice.rows, matrix.slice.cols);
  return bytes_of(layer.codes) + bytes_of(layer.scales);
}

bool can_be(const QuantizedMatrix& matrix, WeightFormat format, const ContainerWriter& writer) {
  const MatrixSlice& slice = matrix.slice;
  if (format == matrix.format) return true;  // in the plan already
  return block_problem(slice.cols, format).empty() &&
         writer.obstacle(format, slice.rows, slice.cols).empty();
}

}  // namespace

std::vector<MenuFormat> lines_of(const QuantizeModelOptions& options) {
  std::vector<MenuFormat> lines = options.budget.menu;
  for (const UseFormat& use : options.use) {
    if (std::find(lines.begin(), lines.end(), MenuFormat(use.format)) == lines.end())
      lines.push_back(use.format);
  }
  return lines;
}

Result<std::vector<ChoiceGroup>> choice_groups(const ModelPlan& plan,
                                               const QuantizeModelOptions& options) {
  const auto recipe =
      Recipe::create(*weight_format_of(options.format), {}, {}, options.use, options.container);
  if (!recipe) return recipe.failure();
  const std::vector<MenuFormat> lines = lines_of(options);
  const std::size_t open_lines = options.budget.menu.size();
  const ContainerWriter& writer = writer_of(options.container);
  std::vector<ChoiceGroup> groups;
  std::map<std::string, std::size_t> by_name;
  std::set<std::size_t> seen;  // tensors
  for (std::size_t shard = 0; shard < plan.shards.size(); ++shard) {
    for (std::size_t item = 0; item < plan.shards[shard].matrices.size(); ++item) {
      const QuantizedMatrix& matrix = plan.shards[shard].matrices[item];
      const TensorTreatment& tensor = plan.tensors[matrix.tensor];
      std::string name = choice_group_of(tensor.entry->name);
      const auto [found, added] = by_name.try_emplace(name, groups.size());
      if (added) {
        GroupFormats facts{std::move(name), 0, 0, {}, {}, 0};
        facts.errors.resize(lines.size());
        facts.bytes.resize(lines.size());
        groups.push_back({std::move(facts), {}, recipe.value().uses(*tensor.entry)});
      }
      ChoiceGroup& group = groups[found->second];
      group.matrices.push_back({shard, item});
      ++group.facts.layers;
      group.facts.weights += matrix.slice.rows * matrix.slice.cols;
      const bool first_of_tensor = seen.insert(matrix.tensor).second;
      for (std::size_t line = 0; line < lines.size(); ++line) {
        const MenuFormat format = lines[line];
        const bool open = group.fixed ? format == MenuFormat(matrix.format) : line < open_lines;
        if (!open || (format && !can_be(matrix, *format, writer))) {
          group.facts.errors[line] = std::numeric_limits<double>::infinity();
          continue;
        }
        if (format) {
          group.facts.bytes[line] += coded_bytes(matrix, *format, options);
        } else if (first_of_tensor) {
          group.facts.bytes[line] += static_cast<std::int64_t>(copied_bytes(*tensor.source));
        }
      }
    }
  }
  return groups;
}

}  // namespace microscale
