#include "checkpoint/convert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "checkpoint/conversion_report.hpp"
#include "checkpoint/file_facts.hpp"
#include "checkpoint/finished_run.hpp"
#include "checkpoint/kept_check.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/memory_budget.hpp"
#include "checkpoint/merged_weight.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/unit_runner.hpp"
#include "core/threads.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

namespace fs = std::filesystem;

// Beside the workers: the journal's line, tables that grow, the pool of threads.
constexpr std::int64_t shared_bytes = std::int64_t{8} << 20;
// Input per batch: enough that the end of one, where workers wait for the last, costs little.
constexpr std::int64_t least_batch_bytes = std::int64_t{256} << 20;
constexpr std::int64_t batch_bytes_per_worker = std::int64_t{64} << 20;

class Converter {
 public:
  Converter(const QuantizeModelOptions& options, const ProgressCallback& progress,
            const TileQuantizerFactory& quantizers, const ModelPlan& plan, Ranks& ranks)
      : options_(options),
        progress_(progress),
        quantizers_(quantizers),
        plan_(plan),
        ranks_(ranks),
        report_(start_report(plan, options)),
        shards_(plan, plan.one_file ? folder_that_holds(options.output) : options.output),
        runner_(plan, options, shards_,
                [this](std::int64_t bytes, std::string_view item) { advance(bytes, item); }) {}

  // Workers and the journal: from here on the output folder holds something.
  void open();
  ModelReport run();
  std::uint64_t hash_after() const { return hash_after_; }
  std::vector<std::string> mended() { return runner_.hessians().notices(); }

 private:
  // Workers and their buffers, within the memory limit.
  void hire_workers();
  // The journal, new or resumed; afterwards done_ and owner_ say which shards this rank converts.
  void open_journal();
  // A file that another run or rank has finished.
  Status take_over(FinishedFile file);
  // What the other ranks have finished.
  void gather();
  void check_room() const;
  // Of tensors that no shard to be written takes up: done before the start.
  std::int64_t dropped_bytes() const;
  void convert_shards();
  void run_units(const std::vector<Unit>& units, const std::vector<Unit>& more);
  void run_piece(const std::vector<Unit>& units, const std::vector<Unit>& more);
  void finish_shard(std::size_t shard);
  void write_other_files();
  void write_manifest(ManifestContents contents);
  // Reads what options_.keep_codes has written, or some of it; throws where its values are others.
  void check_values();
  bool is_first() const { return ranks_.rank() == 0; }
  // Tells the caller how far it is, and stops if that is the answer.
  void advance(std::int64_t bytes, std::string_view item);

  const QuantizeModelOptions& options_;
  const ProgressCallback& progress_;
  const TileQuantizerFactory& quantizers_;
  const ModelPlan& plan_;
  Ranks& ranks_;
  ModelReport report_;
  OutputShards shards_;
  UnitRunner runner_;
  std::vector<Workspace> workspaces_;  // one a worker
  Fingerprint fingerprint_;
  std::optional<Journal> journal_;
  std::vector<bool> done_;     // by shard: finished by an earlier run or another rank
  std::vector<int> owner_;     // by shard: the rank that converts it; -1: done before the start
  std::mutex finish_mutex_;    // guards report_ and journal_
  std::mutex progress_mutex_;  // guards bytes_done_, and one callback at a time
  std::uint64_t hash_after_ = 0;
  std::int64_t bytes_done_ = 0, bytes_total_ = 0;  // of the input: of this rank's shards
};

void Converter::open() {
  hire_workers();
  open_journal();
}

ModelReport Converter::run() {
  if (is_first()) check_room();
  advance(dropped_bytes(), "");
  convert_shards();
  if (!is_first()) journal_.reset();  // rank 0 takes it over
  ranks_.wait_for_all();
  if (plan_.one_file) {
    if (options_.keep_codes) check_values();
  } else if (is_first()) {
    gather();
    write_other_files();
  }
  return std::move(report_);
}

void Converter::hire_workers() {
  // The report is there already; what the tensors of the shards in work cost comes on top.
  const auto costs = static_cast<std::int64_t>(plan_.tensors.size() * sizeof(TensorCost) / 4);
  // One more than cores, so that they have work while one worker waits for the disk.
  const int cores = std::max(available_cores() + 1, static_cast<int>(options_.gpus.size()));
  const int wanted = options_.threads > 0 ? options_.threads : cores;
  const int workers = workers_within(options_.max_memory, resident_bytes(),
                                     costs + shared_bytes + runner_.hessians().bytes(),
                                     runner_.worker_bytes(), wanted);
  for (int i = 0; i < workers; ++i) workspaces_.push_back(runner_.make_workspace(quantizers_, i));
}

void Converter::convert_shards() {
  const auto workers = static_cast<std::int64_t>(workspaces_.size());
  const std::int64_t batch_bytes = std::max(least_batch_bytes, workers * batch_bytes_per_worker);
  std::vector<bool> left_alone(owner_.size());
  for (std::size_t shard = 0; shard < owner_.size(); ++shard)
    left_alone[shard] = owner_[shard] != ranks_.rank();
  const std::vector<Batch> batches = make_schedule(plan_, left_alone, batch_bytes);
  for (const Batch& batch : batches) {
    for (const Unit& unit : batch.convert) shards_.expect(unit.shard, 1);
  }
  run_units({}, batches.front().measure);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    run_units(batches[i].convert,
              i + 1 < batches.size() ? batches[i + 1].measure : std::vector<Unit>());
  }
}

// `units`, and meanwhile what the next batch has to measure.
void Converter::run_units(const std::vector<Unit>& units, const std::vector<Unit>& measure) {
  const auto pieces = runner_.hessians().pieces(units);
  for (std::size_t i = 0; i < pieces.size(); ++i)
    run_piece(pieces[i], i == 0 ? measure : std::vector<Unit>());
  runner_.settle_global_scales(measure);
}

void Converter::run_piece(const std::vector<Unit>& units, const std::vector<Unit>& measure) {
  const auto total = static_cast<std::int64_t>(units.size() + measure.size());
  const auto at = [&](std::int64_t i) -> const Unit& {
    const auto index = static_cast<std::size_t>(i);
    return index < units.size() ? units[index] : measure[index - units.size()];
  };
  const auto workers = static_cast<int>(workspaces_.size());
  runner_.hessians().make_ready(units, workers);
  parallel_for_worker(total, workers, [&](std::int64_t i, int worker) {
    if (i + workers < total) runner_.prefetch(at(i + workers));
    const Unit& unit = at(i);
    const bool done = runner_.run(unit, workspaces_[static_cast<std::size_t>(worker)]);
    if (done && shards_.finish_unit(unit.shard)) finish_shard(unit.shard);
  });
  take(runner_.scan().result());
}

Status Converter::take_over(FinishedFile file) {
  const auto shard =
      std::find_if(plan_.shards.begin(), plan_.shards.end(),
                   [&](const ShardPlan& candidate) { return candidate.name == file.name; });
  if (shard == plan_.shards.end() || !is_intact(options_.output, file)) return success();
  const auto index = static_cast<std::size_t>(shard - plan_.shards.begin());
  if (file.hashes.size() != plan_.shards[index].layout.tensors.size()) return success();
  shards_.set_hashes(index, std::move(file.hashes));
  if (Status restored = restore_shard_report(file.report, plan_, index, report_); !restored) {
    return restored;
  }
  done_[index] = true;
  return success();
}

void Converter::open_journal() {
  done_.assign(plan_.shards.size(), false);
  if (plan_.one_file) {
    owner_.assign(plan_.shards.size(), 0);
    bytes_total_ = plan_.summary.bytes_before;
    return;
  }
  fingerprint_ = take(fingerprint_of(plan_, options_));
  const Fingerprint wanted = fingerprint_from(ranks_.from_first(to_text(fingerprint_)));
  if (const std::string other = difference(wanted, fingerprint_); !other.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("quantize: rank {} was started otherwise than rank 0: {}; give all "
                            "ranks the same input and options",
                            ranks_.rank(), other));
  }
  const auto visit = [this](FinishedFile file) { return take_over(std::move(file)); };
  if (is_first()) journal_ = take(open_output_folder(options_, fingerprint_, visit));
  ranks_.wait_for_all();
  if (!is_first()) {
    take(Journal::read(options_.output, fingerprint_, visit));
    journal_ = take(Journal::start(options_.output, fingerprint_, ranks_.rank()));
  }
  ranks_.wait_for_all();  // rank 0 writes to its journal from here on
  owner_ = share_out(plan_, done_, ranks_.count());
  for (const TensorTreatment& tensor : plan_.tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.source->stored_bytes());
    if (done_[tensor.shard]) bytes_done_ += bytes;
    if (done_[tensor.shard] || owner_[tensor.shard] == ranks_.rank()) bytes_total_ += bytes;
  }
}

void Converter::gather() {
  for (std::size_t shard = 0; shard < owner_.size(); ++shard)
    done_[shard] = owner_[shard] == -1 || owner_[shard] == ranks_.rank();
  take(journal_->absorb_others(fingerprint_,
                               [this](FinishedFile file) { return take_over(std::move(file)); }));
  for (std::size_t shard = 0; shard < owner_.size(); ++shard) {
    if (done_[shard]) continue;
    throw Error(ErrorCode::io,
                fmt::format("quantize: rank {} has ended, but '{}' is not in '{}' as it left it; "
                            "let all ranks write to one file system, and run again with --resume",
                            owner_[shard], plan_.shards[shard].name, options_.output.string()));
  }
}

void Converter::check_room() const {
  std::uint64_t needed = static_cast<std::uint64_t>(plan_.summary.disk_needed);
  for (std::size_t shard = 0; shard < done_.size(); ++shard) {
    // What an interrupted run has reserved is given back when its file is begun again.
    const fs::path path = options_.output / plan_.model.shards[shard].name;
    needed -= std::min(needed, done_[shard] ? plan_.shards[shard].layout.file_size
                                            : allocated_bytes(partial_path(path)));
  }
  for (const fs::path& file : plan_.model.other_files) {
    needed -= std::min(needed, allocated_bytes(options_.output / file));
  }
  const std::uint64_t free = take(free_space(options_.output));
  if (needed <= free) return;
  throw Error(
      ErrorCode::io,
      fmt::format("quantize: {} bytes are needed {} '{}' but only {} are free; make room and run "
                  "again{}, or choose another disk",
                  needed, plan_.one_file ? "for" : "in", options_.output.string(), free,
                  plan_.one_file ? "" : " with --resume"));
}

std::int64_t Converter::dropped_bytes() const {
  std::int64_t bytes = 0;
  for (const TensorTreatment& tensor : plan_.tensors) {
    if (tensor.decision.treatment == Treatment::drop && owner_[tensor.shard] == ranks_.rank()) {
      bytes += static_cast<std::int64_t>(tensor.source->stored_bytes());
    }
  }
  return bytes;
}

void Converter::advance(std::int64_t bytes, std::string_view item) {
  std::lock_guard lock(progress_mutex_);
  bytes_done_ += bytes;
  if (!progress_ || progress_(bytes_done_, bytes_total_, item)) return;
  const std::string output = options_.output.string();
  throw Error(
      ErrorCode::interrupted,
      plan_.one_file
          ? fmt::format("quantize: interrupted; nothing was written to '{}'", output)
          : fmt::format("quantize: interrupted; run again with --resume to finish '{}'", output));
}

void Converter::finish_shard(std::size_t shard) {
  if (plan_.one_file) {
    take(check_unchanged(plan_.model));
    shards_.commit(shard);
    runner_.report_shard(shard, report_);
    return;
  }
  const std::filesystem::path path = shards_.commit(shard);
  const std::string digest = take(sample_digest(path));
  std::lock_guard lock(finish_mutex_);
  runner_.report_shard(shard, report_);
  take(journal_->record({plan_.shards[shard].name, plan_.shards[shard].layout.file_size, digest,
                         shard_report_text(plan_, report_, shard), shards_.hashes(shard)}));
}

void Converter::write_other_files() {
  ManifestContents manifest;
  for (const std::filesystem::path& name : plan_.model.other_files) {
    advance(0, name.string());
    // An interrupted run may have copied it: not twice at a time, as check_room has promised.
    std::error_code ignored;
    std::filesystem::remove(options_.output / name, ignored);
    manifest.other_files[name.string()] = take(copy_into_place(
        plan_.model.root / name, options_.output / name, workspaces_.front().input));
  }
  for (const MadeFile& file : plan_.model.made_files) {
    take(write_file_atomically(options_.output / file.name, file.text));
  }
  take(check_unchanged(plan_.model));
  if (!plan_.index_text.empty()) {
    take(write_file_atomically(options_.output / plan_.model.index_name, plan_.index_text));
  }
  for (const auto& [name, text] : plan_.other_texts) {
    take(write_file_atomically(options_.output / name, text));
  }
  write_manifest(std::move(manifest));
  if (options_.keep_codes) check_values();
  take(write_file_atomically(options_.output / "config.json", plan_.config_text));
  take(journal_->remove());
}

void Converter::check_values() {
  std::vector<TileBuffers> buffers;
  for (const Workspace& work : workspaces_) buffers.push_back(work.quantizer->buffers());
  const OutputToCheck output{options_.output, runner_.kept_hashes(),
                             options_.keep_codes->read_back};
  hash_after_ = hash_of_output(plan_, output, buffers,
                               [this](std::string_view module) { advance(0, module); });
  const KeptSums sums = total_kept(report_);
  if (hash_after_ == sums.hash_expected) return;
  throw Error(ErrorCode::io,
              fmt::format("convert: the weights in '{}' do not have the values that were written; "
                          "check the disk and memory of this machine, and convert again into "
                          "another folder",
                          options_.output.string()));
}

void Converter::write_manifest(ManifestContents contents) {
  contents.made_of = take(origin_of(plan_, options_));
  for (std::size_t shard = 0; shard < plan_.shards.size(); ++shard) {
    contents.files.push_back(
        {plan_.shards[shard].name, &plan_.shards[shard].layout.tensors, shards_.hashes(shard)});
  }
  take(
      write_file_atomically(options_.output / manifest_name, manifest_text(contents, tool_name())));
}

}  // namespace

Conversion convert_settled(const QuantizeModelOptions& options, const ProgressCallback& progress,
                           const TileQuantizerFactory& quantizers, Ranks& ranks) {
  ModelPlan plan = take(make_model_plan(options));
  take(check_added(plan.adapters, options));
  const bool nothing = std::all_of(plan.shards.begin(), plan.shards.end(),
                                   [](const ShardPlan& shard) { return shard.matrices.empty(); });
  if (nothing) {
    const bool by_user =
        std::any_of(plan.tensors.begin(), plan.tensors.end(),
                    [](const TensorTreatment& tensor) { return tensor.decision.by_user; });
    throw Error(
        by_user ? ErrorCode::invalid_argument : ErrorCode::bad_input,
        fmt::format("quantize: nothing in '{}' would be quantized{}; see why with --dry-run",
                    options.input.string(),
                    by_user ? ", by --ignore and by what is kept in any case" : ""));
  }
  // Rank 0 looks before it makes the folder, so that none of the others sees what it made.
  if (plan.one_file) take(check_file_to_write(options, ranks.count()));
  const bool ended = options.resume && ranks.rank() == 0 && looks_finished(options);
  if (!ranks.from_first(ended ? "finished" : "").empty()) {
    FinishedRun finished{.done = true};
    if (ranks.rank() == 0) finished = take(mend_finished_run(plan, options, progress));
    ModelReport report = start_report(plan, options);
    return {std::move(plan.summary), std::move(report), std::move(finished)};
  }
  std::error_code error;
  const bool made = !std::filesystem::exists(options.output, error);
  std::optional<Converter> converter(std::in_place, options, progress, quantizers, plan, ranks);
  converter->open();
  try {
    ModelReport report = converter->run();
    // Blocks that were searched because others kept their codes are no sample of a weight.
    const auto told = options.keep_codes ? std::vector<std::string>() : unusual_errors(report);
    for (const auto& sentences : {told, converter->mended(), not_finite_sentences(report)}) {
      plan.summary.notices.insert(plan.summary.notices.end(), sentences.begin(), sentences.end());
    }
    return {std::move(plan.summary), std::move(report), {}, converter->hash_after()};
  } catch (const Error& failed) {
    converter.reset();
    // What is wrong with the input stays wrong: a user who mends it starts the conversion again.
    if (failed.code() == ErrorCode::bad_input && !plan.one_file) {
      // Finished files are hours of search and wait for --resume; codes that were only moved are
      // soon moved again, and with what is wrong here the command that helps is another one.
      if (options.keep_codes && made && ranks.count() == 1) remove_files_of(plan, options.output);
      forget_fruitless_run(options.output, made);
    }
    throw;
  }
}

}  // namespace microscale
