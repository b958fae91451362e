// Whether a model is all there. A download that lost a file, or a script that lost a layer, leaves
// folders that open and load, and compute nonsense.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_facts.hpp"
#include "checkpoint/model_folder.hpp"

namespace microscale {

/// Something that a whole model has and this one lacks.
struct Gap {
  const char* rule;     // of verify: "files-missing", "layers-missing", ...
  std::string name;     // of what is missing, or of what lacks it
  std::string message;  // "of 32 layers of 'model.layers' 1 is missing: 7"
  bool certain = true;  // else config.json may be what is wrong: a warning
};

/// By names alone: files of a numbered set, layers (their numbers, and num_hidden_layers), experts
/// (their numbers, and the number in config.json), and layers without a partner that the
/// layers elsewhere have, or that there is none without (gate without up, q without k). Of one
/// shard of several nothing is known.
std::vector<Gap> find_gaps(const ModelFolder& model, const ModelFacts& facts);

/// The same with the facts of its config.json; of one that cannot be read, without.
std::vector<Gap> find_gaps(const ModelFolder& model);

/// "not complete: ..." or "maybe not complete: ...".
std::string sentence_of(const Gap& gap);

/// The first and how many more there are, in one sentence part; empty for none.
std::string summary_of(const std::vector<Gap>& gaps);

/// What quantize does with gaps: one sentence each where `allow`, else a failure that names the
/// first certain one.
Result<std::vector<std::string>> accept_gaps(const ModelFolder& model, const ModelFacts& facts,
                                             bool allow);

}  // namespace microscale
