// Model families: the names, types and shapes of their tensors, with the verdict on each, from the
// files of tests/checkpoint/families; folders made of them; and the account of what became of every
// tensor.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checkpoint/compressed_tensors.hpp"
#include "checkpoint/model_plan.hpp"
#include "checkpoint/tensor_name.hpp"
#include "model_builder.hpp"
#include "support/paths.hpp"

namespace microscale::testing {

struct FamilyTensor {
  std::string verdict;  // "quantize", "split", "drop", "quantized", "keep:router", ...
  StoredType type = StoredType::bf16;
  std::vector<std::int64_t> shape;
  std::string name;
};

struct Family {
  std::string name, config;
  std::vector<FamilyTensor> tensors;
};

/// "a.{0,1}.b" stands for a.0.b and a.1.b.
inline std::vector<std::string> expand(const std::string& text) {
  const std::size_t open = text.find('{');
  if (open == std::string::npos) return {text};
  const std::size_t close = text.find('}', open);
  std::vector<std::string> all;
  std::istringstream numbers(text.substr(open + 1, close - open - 1));
  for (std::string number; std::getline(numbers, number, ',');) {
    for (const std::string& rest : expand(text.substr(close + 1))) {
      all.push_back(text.substr(0, open) + number + rest);
    }
  }
  return all;
}

inline Family read_family(const std::filesystem::path& path) {
  Family family;
  family.name = path.stem().string();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space), rest = line.substr(space + 1);
    if (word == "title") continue;
    if (word == "config") {
      family.config = rest;
      continue;
    }
    std::istringstream fields(rest);
    std::string type, shape, names;
    fields >> type >> shape >> names;
    FamilyTensor tensor;
    tensor.verdict = word;
    tensor.type = stored_type_from_name(type).value();
    std::istringstream sizes(shape == "-" ? "" : shape);
    for (std::string size; std::getline(sizes, size, 'x');) tensor.shape.push_back(std::stol(size));
    for (const std::string& name : expand(names)) {
      family.tensors.push_back(tensor);
      family.tensors.back().name = name;
    }
  }
  return family;
}

inline std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::test_data() + "/checkpoint/families")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline Family family_called(const std::string& name) {
  return read_family(testing::test_data() + "/checkpoint/families/" + name + ".txt");
}

/// Scales as tools write them: above 0.
inline void make_positive(TestTensor& scales) {
  const std::size_t size = scales.type == StoredType::f32 ? 4 : 1;
  for (std::size_t i = size - 1; i < scales.bytes.size(); i += size) {
    char& byte = scales.bytes[i];
    byte = static_cast<char>(byte & 0x7F);
    if (size == 1 && byte == 0) byte = 1;
  }
}

/// Of random weights, in one file.
inline TestModel model_of(const Family& family, unsigned seed) {
  TestModel model;
  model.config = family.config;
  for (const FamilyTensor& tensor : family.tensors) {
    TestTensor& made = model.shards[0][tensor.name];
    made = random_tensor(tensor.type, tensor.shape, seed++);
    const bool codes = tensor.verdict == "quantized";
    if (codes && tensor.name.find("scale") != std::string::npos) make_positive(made);
  }
  return model;
}

/// In the words of the family files.
inline std::string verdict_of(const TensorTreatment& tensor) {
  switch (tensor.decision.treatment) {
    case Treatment::quantize:
      return "quantize";
    case Treatment::split:
      return "split";
    case Treatment::drop:
      return "drop";
    case Treatment::copy:
      break;
  }
  return "keep:" + std::string(name_of(tensor.decision.kept));
}

/// Names of output tensors that the plan promises, each with the input tensor it comes from.
inline std::map<std::string, std::string> promised_outputs(const ModelPlan& plan) {
  std::map<std::string, std::string> promised;
  const auto add_layer = [&](const std::string& module, std::int64_t rows, std::int64_t cols,
                             const std::string& from) {
    const LayerTensors layer = compressed_layer(plan.format, module, rows, cols);
    for (const PlannedTensor& part : {layer.codes, layer.scales, layer.global_scale}) {
      if (!part.name.empty()) promised[part.name] = from;
    }
  };
  for (const TensorTreatment& tensor : plan.tensors) {
    const TensorEntry& entry = *tensor.entry;
    switch (tensor.decision.treatment) {
      case Treatment::copy:
        promised[entry.name] = entry.name;
        break;
      case Treatment::drop:
        break;
      case Treatment::quantize:
        add_layer(std::string(module_of(entry.name)), entry.shape[0], entry.shape[1], entry.name);
        break;
      case Treatment::split:
        for (const MatrixSlice& slice :
             slice_experts(entry.name, *tensor.verdict.part, *tensor.experts)) {
          if (entry.shape.size() == 3) {
            add_layer(slice.module, slice.rows, slice.cols, entry.name);
          } else {
            promised[slice.module + ".bias"] = entry.name;
          }
        }
    }
  }
  return promised;
}

/// What is wrong with an output: tensors that are missing, that nothing promised, or copies that
/// differ; one line each, none if all is accounted for.
inline std::vector<std::string> account(const ModelPlan& plan, const TestTensors& input,
                                        const TestTensors& output) {
  std::vector<std::string> problems;
  const auto promised = promised_outputs(plan);
  for (const auto& [name, from] : promised) {
    const auto found = output.find(name);
    if (found == output.end()) {
      problems.push_back(fmt::format("{} of {} is missing", name, from));
    } else if (name == from && input.contains(from) && info(plan.format).code_bits == 4 &&
               found->second != input.at(from)) {
      problems.push_back(name + " is no copy");
    }
  }
  for (const auto& [name, tensor] : output) {
    if (!promised.contains(name)) problems.push_back(name + " came from nowhere");
  }
  for (const TensorTreatment& tensor : plan.tensors) {
    if (!input.contains(tensor.entry->name)) {
      problems.push_back(tensor.entry->name + " was not in the input");
    }
  }
  if (plan.tensors.size() != input.size()) problems.push_back("the plan forgets tensors");
  return problems;
}

/// The tensors of the dense model that a plan reads, as they are written where they are kept; every
/// tensor of the folder is one of them or a part of one.
inline TestTensors read_as_dense(const ModelPlan& plan, const TestTensors& folder) {
  TestTensors dense;
  std::vector<std::uint8_t> scratch;
  std::size_t used = 0;
  for (const DenseTensor& tensor : plan.view.tensors) {
    TestTensor& read = dense[tensor.entry.name];
    read = {copied_type(tensor), tensor.entry.shape, std::string(copied_bytes(tensor), '\0')};
    auto* bytes = reinterpret_cast<std::uint8_t*>(read.bytes.data());
    take(read_copied(tensor, 0, {bytes, read.bytes.size()}, scratch));
    used += tensor.weight ? tensor.weight->facts().parts.size() : 1;
  }
  EXPECT_EQ(used, folder.size()) << "a tensor is forgotten, or used twice";
  return dense;
}

}  // namespace microscale::testing
