// The order of the checks, what they add up to, and the rules that need only headers and file
// names.
#include "checkpoint/verify_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "checkpoint/completeness.hpp"
#include "checkpoint/dense_output.hpp"
#include "checkpoint/loader_steps.hpp"
#include "checkpoint/model_facts.hpp"
#include "checkpoint/safetensors_writer.hpp"
#include "checkpoint/stray_weights.hpp"
#include "checkpoint/verify_scales.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

// So that one mistake made everywhere does not bury the others.
constexpr std::int64_t findings_per_rule = 50;

// The folder cannot be opened as a model. One reason is known; every broken header is worth
// telling.
Findings explain_unreadable(const fs::path& path, const Failure& reason) {
  Findings findings;
  std::error_code error;
  const char* rule = "unreadable";
  if (fs::is_directory(path, error)) {
    if (const auto files = list_folder(path)) {
      if (unfinished_mark(files.value().to_copy, files.value().left_out)) rule = "unfinished";
      for (const std::string& name : files.value().top_level_safetensors) {
        const auto file = InputFile::open(path / name);
        const auto header = file ? read_safetensors_header(file.value()) : file.failure();
        if (header) continue;
        findings.push_back(
            make_finding(Severity::error, "bad-safetensors", "", "", header.failure().message));
        findings.back().file = name;
      }
    }
  }
  const bool told = std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
    return finding.message == reason.message;
  });
  if (!told) {
    findings.insert(findings.begin(), make_finding(Severity::error, rule, "", "", reason.message));
  }
  return findings;
}

// Keeps the first of each rule and says how many there are besides.
Findings capped(Findings findings) {
  std::map<std::string, std::int64_t> counts;
  Findings kept;
  for (Finding& finding : findings) {
    const std::string rule = finding.rule;
    if (++counts[rule] <= findings_per_rule) kept.push_back(std::move(finding));
  }
  for (const auto& [rule, count] : counts) {
    if (count <= findings_per_rule) continue;
    const auto last = std::find_if(kept.rbegin(), kept.rend(),
                                   [&, &name = rule](const Finding& f) { return f.rule == name; });
    const Severity severity = last->severity;
    kept.insert(last.base(),
                make_finding(severity, rule, "", "",
                             fmt::format("{} more findings of the kind '{}' are not listed",
                                         count - findings_per_rule, rule)));
  }
  return kept;
}

std::int64_t count(const Findings& findings, Severity severity) {
  return std::count_if(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.severity == severity; });
}

}  // namespace

std::int64_t VerifyReport::errors() const { return count(findings, Severity::error); }
std::int64_t VerifyReport::warnings() const { return count(findings, Severity::warning); }

void verify_files(const QuantizedFolder& folder, bool is_folder, Findings& findings) {
  const ModelFolder& model = folder.model;
  for (const ModelShard& shard : model.shards) {
    if (!shard.side && !has_known_format(shard.header.metadata)) {
      findings.push_back(make_finding(Severity::error, "metadata-format", shard.name, "",
                                      "its metadata has no \"format\" of pt, tf, flax or mlx, so "
                                      "transformers refuses the file; add "
                                      "\"format\": \"pt\""));
    }
  }
  for (const std::string& notice : model.notices) {
    findings.push_back(make_finding(Severity::warning, "index", "", "", notice));
  }
  if (const auto file = unfinished_run(model)) {
    findings.push_back(
        make_finding(Severity::error, "unfinished", *file, "",
                     "the run that wrote this folder did not finish; finish it (quantize "
                     "--resume) or remove the folder"));
  }
  for (const LeftOutFile& file : model.left_out_files) {
    const std::string name = file.path.string();
    if (name == dequantize_marker) continue;
    if (file.path.extension() == ".partial") {
      findings.push_back(make_finding(
          Severity::error, "unfinished", name, "",
          "an unfinished file of an earlier run; run that again to its end, or remove the file"));
    } else if (file.path.extension() == ".safetensors" && !file.path.has_parent_path() &&
               file.reason != no_tensors) {
      findings.push_back(
          make_finding(Severity::warning, "stray-file", name, "",
                       fmt::format("no part of the model ({}), but loaders that read every "
                                   ".safetensors file read it too; move it elsewhere",
                                   file.reason)));
    }
  }
  for (const std::string& name : model.pointers) {
    findings.push_back(make_finding(
        Severity::warning, "lfs-pointer", name, "",
        "a Git LFS pointer in place of the file itself; fetch that with `git lfs pull`"));
  }
  if (is_folder && !model.config_text) {
    const Severity severity = folder.modules.empty() ? Severity::warning : Severity::error;
    findings.push_back(
        make_finding(severity, "no-config", "config.json", "",
                     "missing, so no loader knows what the tensors are; copy it from the "
                     "original model or convert that again"));
  } else if (is_folder && model.config_text) {
    const auto facts = read_model_facts(*model.config_text);
    if (!facts || facts.value().names_model()) return;
    findings.push_back(
        make_finding(Severity::warning, "no-config", "config.json", "",
                     "it names no model (model_type, architectures or _class_name), so no loader "
                     "knows what the tensors are; copy it from the original model, with the "
                     "quantization_config of this one"));
  }
}

void verify_headers(const QuantizedFolder& folder, Findings& findings) {
  findings.insert(findings.end(), folder.unusable.begin(), folder.unusable.end());
  const auto description = read_description(folder, findings);
  const QuantizationConfig* config = description ? &description->config : nullptr;
  verify_config(folder, description ? &*description : nullptr, findings);
  if (!folder.planned) {
    verify_scale_parts(folder, findings);
    for (Finding& step : find_loader_steps(folder.model)) findings.push_back(std::move(step));
  }
  verify_groups(folder, findings);
  verify_kept(folder, config, findings);
  if (!folder.planned) verify_kv_cache(folder.model, config, findings);
}

VerifyReport verify_checkpoint(const fs::path& path, const VerifyOptions& options,
                               const ProgressCallback& progress) {
  VerifyReport report;
  auto model = open_model_folder(path);
  if (!model) {
    if (model.failure().code != ErrorCode::bad_input) take(std::move(model));
    report.findings = explain_unreadable(path, model.failure());
    return report;
  }
  const QuantizedFolder folder = take(sort_quantized_folder(std::move(model.value())));
  std::error_code error;
  report.readable = true;
  report.tensors = static_cast<std::int64_t>(folder.model.tensors.size());
  report.modules = static_cast<std::int64_t>(folder.modules.size() + folder.weights.size());
  report.bytes = folder.model.tensor_bytes();
  verify_files(folder, fs::is_directory(path, error), report.findings);
  verify_headers(folder, report.findings);
  for (const Gap& gap : find_gaps(folder.model)) {
    Findings& findings = report.findings;
    findings.push_back(make_finding(
        gap.certain ? Severity::error : Severity::warning, gap.rule, "", "",
        gap.message +
            (gap.certain ? "; download or convert the model again" : "; one of them is wrong")));
    findings.back().tensor = gap.name;  // the message has it
  }
  if (options.tensor_parallel > 0) {
    report.parallel = verify_tp(folder, options.tensor_parallel, report.findings);
  }
  if (!options.source.empty()) {
    report.source =
        verify_source(folder, options.source, options.threads, progress, report.findings);
  }
  const auto manifest = read_manifest(folder.model.root, report.findings);
  std::optional<TensorHashes> hashes;
  if (manifest) hashes.emplace(lengths_of(folder.model));
  verify_values(folder, options.threads, progress, report.findings, hashes ? &*hashes : nullptr);
  verify_scales(folder.model, folder.weights, report.findings);
  if (manifest) verify_manifest(folder.model, *manifest, *hashes, report.findings);
  report.findings = capped(std::move(report.findings));
  return report;
}

std::vector<std::string> verify_model(const VerifyModelOptions& options) {
  std::vector<std::string> problems;
  for (Finding& finding : verify_checkpoint(options.input, {.threads = options.threads}).findings) {
    if (finding.severity == Severity::error) problems.push_back(std::move(finding.message));
  }
  return problems;
}

}  // namespace microscale
