// The classes of the results of conversions. They can be pickled: a pool of processes that converts
// models hands them over.
#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "checkpoint/choose_formats.hpp"
#include "checkpoint/format_choice.hpp"
#include "core/result.hpp"
#include "interruptible.hpp"
#include "microscale/checkpoint.hpp"
#include "operands.hpp"

namespace microscale::python {
namespace {

using Names = std::vector<std::string>;

// What each is made of, as Python's own types, and the way back.

auto state_of(const TensorPlan& t) {
  return std::tuple(t.name, t.dtype, t.shape, int(t.treatment), t.reason, t.format, t.group, t.file,
                    t.input_amax, t.bytes_before, t.bytes_after);
}

auto state_of(const ConversionPlan& p) {
  return std::tuple(p.tensors, p.copied_files, p.dropped_files, p.dropped_reasons, p.notices,
                    p.bytes_before, p.bytes_after, p.disk_needed, p.disk_free, p.computed_on,
                    p.choice ? to_text(*p.choice) : std::string());
}

auto state_of(const DequantizedModel& m) {
  Names names, reasons;
  for (const LeftOut& out : m.left_out) {
    names.push_back(out.name);
    reasons.push_back(out.reason);
  }
  return std::tuple(names, reasons, m.notices);
}

auto state_of(const ConvertedModel& m) {
  return std::tuple(m.plan, m.already_done, m.weights, m.blocks, m.cast, m.searched, m.searched_mse,
                    m.hash_before, m.hash_after);
}

auto state_of(const RepairReport& r) {
  return std::tuple(r.changes, r.found, r.written, r.blocks, r.blocks_inexact, r.scales_changed,
                    r.codes_changed, r.relative_change);
}

void set_state(TensorPlan& t, const decltype(state_of(std::declval<TensorPlan>()))& state) {
  int treatment = 0;
  std::tie(t.name, t.dtype, t.shape, treatment, t.reason, t.format, t.group, t.file, t.input_amax,
           t.bytes_before, t.bytes_after) = state;
  t.treatment = static_cast<Treatment>(treatment);
}

void set_state(ConversionPlan& p, const decltype(state_of(std::declval<ConversionPlan>()))& state) {
  std::string choice;
  std::tie(p.tensors, p.copied_files, p.dropped_files, p.dropped_reasons, p.notices, p.bytes_before,
           p.bytes_after, p.disk_needed, p.disk_free, p.computed_on, choice) = state;
  if (!choice.empty()) p.choice = take(choice_from(choice));
}

void set_state(DequantizedModel& m,
               const decltype(state_of(std::declval<DequantizedModel>()))& state) {
  const auto& [names, reasons, notices] = state;
  for (std::size_t i = 0; i < names.size(); ++i) m.left_out.push_back({names[i], reasons.at(i)});
  m.notices = notices;
}

void set_state(ConvertedModel& m, const decltype(state_of(std::declval<ConvertedModel>()))& state) {
  std::tie(m.plan, m.already_done, m.weights, m.blocks, m.cast, m.searched, m.searched_mse,
           m.hash_before, m.hash_after) = state;
}

void set_state(RepairReport& r, const decltype(state_of(std::declval<RepairReport>()))& state) {
  std::tie(r.changes, r.found, r.written, r.blocks, r.blocks_inexact, r.scales_changed,
           r.codes_changed, r.relative_change) = state;
}

template <class T>
void make_picklable(nb::class_<T>& type) {
  type.def(
          "__getstate__", [](const T& self) { return state_of(self); },
          nb::sig("def __getstate__(self) -> tuple[Any, ...]"))
      .def(
          "__setstate__",
          [](T& self, const decltype(state_of(std::declval<T>()))& state) {
            new (&self) T{};
            set_state(self, state);
          },
          nb::sig("def __setstate__(self, state: tuple[Any, ...]) -> None"));
}

void bind_plan(nb::module_& module) {
  nb::class_<TensorPlan> tensor(module, "TensorPlan", "What becomes of one tensor of a model.");
  tensor.def_ro("name", &TensorPlan::name)
      .def_ro("dtype", &TensorPlan::dtype, "As stored: 'BF16', ...")
      .def_prop_ro(
          "shape", [](const TensorPlan& plan) { return tuple_of(plan.shape); },
          nb::for_getter(nb::sig("def shape(self) -> tuple[int, ...]")))
      .def_prop_ro(
          "treatment",
          [](const TensorPlan& plan) {
            return plan.treatment == Treatment::quantize ? "quantize"
                   : plan.treatment == Treatment::split  ? "split"
                   : plan.treatment == Treatment::drop   ? "drop"
                                                         : "copy";
          },
          "'quantize', 'split' (stacked experts: each its own module), 'copy' or 'drop'.")
      .def_prop_ro(
          "reason", [](const TensorPlan& plan) { return sentence_of(plan.reason); },
          nb::for_getter(nb::sig("def reason(self) -> str")), "Why, in words.")
      .def_ro("group", &TensorPlan::group,
              "Tensors of one name share an NVFP4 global scale; empty: none.")
      .def_ro("file", &TensorPlan::file, "Of the output.")
      .def_ro("format", &TensorPlan::format, "'nvfp4', ...; empty for what is not quantized.")
      .def_ro("input_amax", &TensorPlan::input_amax,
              "That the stored scale of its inputs is made of; None: there is none.")
      .def_ro("bytes_before", &TensorPlan::bytes_before)
      .def_ro("bytes_after", &TensorPlan::bytes_after)
      .def("__repr__", [](const TensorPlan& plan) {
        return fmt::format("TensorPlan('{}', {} {}: {})", plan.name, plan.dtype,
                           shape_text(plan.shape), plan.reason);
      });
  make_picklable(tensor);
  nb::class_<ConversionPlan> plan(module, "ConversionPlan",
                                  "What a conversion does, tensor by tensor.");
  plan.def_ro("tensors", &ConversionPlan::tensors, "In the order of the input.",
              nb::for_getter(nb::sig("def tensors(self) -> list[TensorPlan]")))
      .def_prop_ro(
          "copied_files", [](const ConversionPlan& plan) { return texts_of(plan.copied_files); },
          nb::for_getter(nb::sig("def copied_files(self) -> list[str]")), "Tokenizer and the like.")
      .def_prop_ro(
          "left_out",
          [](const ConversionPlan& plan) {
            nb::dict reasons;
            for (std::size_t i = 0; i < plan.dropped_files.size(); ++i)
              reasons[text_of(plan.dropped_files[i])] = sentence_of(plan.dropped_reasons.at(i));
            return reasons;
          },
          nb::for_getter(nb::sig("def left_out(self) -> dict[str, str]")),
          "Files that stay behind, and why.")
      .def_prop_ro(
          "notices", [](const ConversionPlan& plan) { return sentences_of(plan.notices); },
          nb::for_getter(nb::sig("def notices(self) -> list[str]")),
          "Oddities of the input, a sentence each.")
      .def_ro("bytes_before", &ConversionPlan::bytes_before, "Of all tensors.")
      .def_ro("bytes_after", &ConversionPlan::bytes_after)
      .def_ro("disk_needed", &ConversionPlan::disk_needed)
      .def_ro("disk_free", &ConversionPlan::disk_free)
      .def_ro("computed_on", &ConversionPlan::computed_on, "In words: 'the CPU'.")
      .def_prop_ro(
          "choice",
          [](const ConversionPlan& plan) -> nb::object {
            if (!plan.choice) return nb::none();
            return nb::module_::import_("json").attr("loads")(to_json(report_on(*plan.choice)));
          },
          nb::for_getter(nb::sig("def choice(self) -> dict[str, Any] | None")),
          "What a budget led to, as `quantize --json` has it: bits, error, groups, curve; else "
          "None.")
      .def("__repr__", [](const ConversionPlan& plan) {
        return fmt::format("ConversionPlan({} tensors, {} bytes to {})", plan.tensors.size(),
                           plan.bytes_before, plan.bytes_after);
      });
  make_picklable(plan);
}

void bind_written(nb::module_& module) {
  nb::class_<DequantizedModel> model(module, "DequantizedModel",
                                     "What a dense model was written without.");
  model
      .def_prop_ro(
          "left_out",
          [](const DequantizedModel& model) {
            nb::dict reasons;
            for (const LeftOut& out : model.left_out)
              reasons[text_of(out.name)] = sentence_of(out.reason);
            return reasons;
          },
          nb::for_getter(nb::sig("def left_out(self) -> dict[str, str]")),
          "Files and tensors that stay behind, and why.")
      .def_prop_ro(
          "notices", [](const DequantizedModel& model) { return sentences_of(model.notices); },
          nb::for_getter(nb::sig("def notices(self) -> list[str]")),
          "Oddities of the input, a sentence each.")
      .def("__repr__", [](const DequantizedModel& model) {
        return fmt::format("DequantizedModel({} left out, {} notices)", model.left_out.size(),
                           model.notices.size());
      });
  make_picklable(model);
  nb::class_<ConvertedModel> converted(module, "ConvertedModel",
                                       "What convert_model put into another container.");
  converted.def_ro("plan", &ConvertedModel::plan)
      .def_ro("already_done", &ConvertedModel::already_done, "By an earlier run.")
      .def_ro("weights", &ConvertedModel::weights, "Matrices that keep their codes.")
      .def_ro("blocks", &ConvertedModel::blocks, "As they are in the output.")
      .def_ro("blocks_cast", &ConvertedModel::cast, "Of these, MXFP4 that became NVFP4.")
      .def_ro("blocks_searched", &ConvertedModel::searched,
              "Of these, those that stand for other values than before.")
      .def_ro("hash_before", &ConvertedModel::hash_before, "Of the values of the input's blocks.")
      .def_ro("hash_after", &ConvertedModel::hash_after, "Of those of the output.")
      .def_prop_ro("same_values", &ConvertedModel::same_values)
      .def("__repr__", [](const ConvertedModel& model) {
        return fmt::format("ConvertedModel({} weights, {})", model.weights,
                           model.same_values() ? "the same values" : "other values");
      });
  make_picklable(converted);
  nb::class_<RepairReport> report(module, "RepairReport", "What repair_model changed.");
  report
      .def_prop_ro(
          "changes", [](const RepairReport& report) { return sentences_of(report.changes); },
          nb::for_getter(nb::sig("def changes(self) -> list[str]")),
          "A sentence each; empty: nothing to repair.")
      .def_ro("found", &RepairReport::found, "Errors that verify_model's rules found.")
      .def_ro("written", &RepairReport::written)
      .def_ro("blocks", &RepairReport::blocks, "Of layers that got another global scale.")
      .def_ro("blocks_inexact", &RepairReport::blocks_inexact,
              "Of these, those that stand for other values than before.")
      .def_ro("scales_changed", &RepairReport::scales_changed, "Block scales.")
      .def_ro("codes_changed", &RepairReport::codes_changed)
      .def_ro("relative_change", &RepairReport::relative_change,
              "Squares of the changes, against those of the values.")
      .def("__repr__", [](const RepairReport& report) {
        return fmt::format("RepairReport({} changes, {})", report.changes.size(),
                           report.written ? "written" : "not written");
      });
  make_picklable(report);
}

}  // namespace

void bind_model_results(nb::module_& module) {
  bind_plan(module);
  bind_written(module);
}

}  // namespace microscale::python
