#include "checkpoint/layer_groups.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "checkpoint/fused_groups.hpp"
#include "checkpoint/ignore_list.hpp"
#include "checkpoint/pattern.hpp"
#include "checkpoint/stray_weights.hpp"
#include "checkpoint/tensor_name.hpp"

namespace microscale {
namespace {

struct Layers {
  std::set<std::string> names, experts;  // of experts the module that holds them all
};
using ByFormat = std::map<WeightFormat, Layers>;

// "layers.3.mlp.experts" of "model.language_model.layers.3.mlp.experts": what is left where a
// loader gives the path before it another name.
std::string_view within_the_model(std::string_view experts) {
  const auto layer = repeated_layer_of(experts);
  return layer ? experts.substr(layer->stack.size() - leaf_of(layer->stack).size()) : experts;
}

// What takes all experts of a layer, and none of another format.
std::string expression_for(const std::string& experts, WeightFormat format,
                           const ByFormat& layers) {
  const std::string_view tail = within_the_model(experts);
  const auto is_alike = [&](const std::string& other) { return within_the_model(other) == tail; };
  const bool unique = std::none_of(layers.begin(), layers.end(), [&](const auto& each) {
    return each.first != format &&
           std::any_of(each.second.experts.begin(), each.second.experts.end(), is_alike);
  });
  const bool whole = tail.size() == experts.size();
  return "re:" + std::string(whole || !unique ? "" : ".*\\.") +
         escaped(unique ? tail : std::string_view(experts)) + "\\..*";
}

ByFormat sort_layers(const ModelPlan& plan) {
  ByFormat layers;
  std::map<std::string, std::set<std::string>> fused;  // members
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) {
      const std::string& module = matrix.slice.module;
      if (const auto experts = expert_layer_of(module)) {
        layers[matrix.format].experts.emplace(*experts);
        continue;
      }
      layers[matrix.format].names.insert(module);
      const auto name = fused_name_of(module);
      if (!name) continue;
      fused[*name].insert(module);
      if (fused[*name].size() > 1) layers[matrix.format].names.insert(*name);
    }
  }
  return layers;
}

// The ignore list: of the model's tensors, and of the files beside it, which stay as they are.
std::vector<std::string> modules_to_ignore(const ModelPlan& plan, const Classifier& classifier) {
  std::vector<TensorTreatment> all = plan.tensors;
  for (const ModelShard& stray : plan.model.strays) {
    if (is_adapter(stray)) continue;
    for (const TensorEntry& entry : stray.header.tensors) {
      if (plan.view.find(entry.name) || plan.model.find(entry.name)) continue;
      TensorTreatment& treatment = all.emplace_back();
      treatment.entry = &entry;
      treatment.verdict = classifier.judge(entry);
      treatment.decision.linear = treatment.verdict.linear;
    }
  }
  return ignored_modules(all);
}

std::vector<std::string> modules_in(const ModelPlan& plan) {
  std::vector<std::string> modules;
  for (const ShardPlan& shard : plan.shards) {
    for (const QuantizedMatrix& matrix : shard.matrices) modules.push_back(matrix.slice.module);
  }
  return modules;
}

}  // namespace

std::vector<LayerGroup> layer_groups(const ModelPlan& plan, const QuantizeModelOptions& options) {
  const ByFormat layers = sort_layers(plan);
  std::vector<WeightFormat> order;
  for (const UseFormat& use : options.use) order.push_back(use.format);
  if (options.keep_codes || options.choice)
    order.assign(all_weight_formats().begin(), all_weight_formats().end());
  order.push_back(*weight_format_of(options.format));
  if (layers.size() < 2) {
    const WeightFormat only = layers.empty() ? order.back() : layers.begin()->first;
    return {{scheme_of(options, only), {"Linear"}}};
  }
  std::vector<LayerGroup> groups;
  std::set<WeightFormat> seen;
  // The last one stands for all that no --use names, wherever it is named too.
  if (layers.contains(order.back())) seen.insert(order.back());
  const auto add = [&](WeightFormat format) {
    const Layers& of = layers.at(format);
    LayerGroup group{scheme_of(options, format), {of.names.begin(), of.names.end()}};
    group.layers = group.targets;
    group.layers.insert(group.layers.end(), of.experts.begin(), of.experts.end());
    for (const std::string& experts : of.experts) {
      group.targets.push_back(expression_for(experts, format, layers));
    }
    groups.push_back(std::move(group));
  };
  for (const WeightFormat format : order) {
    if (layers.contains(format) && seen.insert(format).second) add(format);
  }
  if (layers.contains(order.back())) add(order.back());
  return groups;
}

Result<Descriptions> describe_layers(const ModelPlan& plan, const QuantizeModelOptions& options,
                                     const Classifier& classifier) {
  return writer_of(options.container)
      .describe(plan.model.config_text.value_or(""), layer_groups(plan, options),
                modules_to_ignore(plan, classifier), modules_in(plan));
}

}  // namespace microscale
