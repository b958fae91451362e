// The command line: which command runs with what was written, and how every outcome becomes an exit
// code. Only this file and options.cpp know CLI11.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "arguments.hpp"
#include "commands.hpp"
#include "completion.hpp"
#include "console.hpp"
#include "core/backend_name.hpp"
#include "core/threads.hpp"
#include "help.hpp"
#include "launched_ranks.hpp"
#include "options.hpp"
#include "program.hpp"
#include "microscale/context.hpp"

namespace microscale {
namespace {

// The package's own command line does these, and does not come here.
Error of_the_package(const std::string& what) {
  return Error(ErrorCode::unsupported,
               fmt::format("{} runs models, for which it needs PyTorch: pip install "
                           "'microscale[transformers]', whose `microscale` and `python -m "
                           "microscale` do it",
                           what));
}

ArgumentShape shape_of(const CLI::Option& option) {
  ArgumentShape shape;
  const std::string placeholder = option.get_type_name();
  for (const std::string& name : option.get_snames()) shape.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) shape.names.push_back("--" + name);
  shape.description = option.get_description();
  shape.choices = choices_of(placeholder);
  shape.takes_value = option.get_items_expected_max() > 0;
  shape.is_path = placeholder == "PATH" || placeholder == "FILE" || placeholder == "DIR";
  return shape;
}

/// The App tree without CLI11, for completion.
std::vector<CommandShape> shapes_of(const CLI::App& app) {
  std::vector<CommandShape> shapes;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandShape shape{command->get_name(), command->get_description(), {}, {}};
    for (const CLI::Option* option : command->get_options())
      (option->get_positional() ? shape.positionals : shape.options).push_back(shape_of(*option));
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

int run_completion(const CLI::App& app, const Words& words, Console& console) {
  std::vector<ArgumentShape> global;
  for (const CLI::Option* option : app.get_options()) global.push_back(shape_of(*option));
  const std::string script = completion_script(words.shell, "microscale", shapes_of(app), global);
  if (script.empty()) {
    const std::vector<std::string> shells = choices_of("SHELL");
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no completion for '{}'{}; choose one of {}", words.shell,
                            did_you_mean(words.shell, shells), fmt::join(shells, ", ")));
  }
  if (console.json)
    console.print_json({{"shell", words.shell}, {"script", script}});
  else
    console.print_as_is(script);
  return exit_success;
}

/// Each option of explain belongs to one of the things it explains.
void refuse_others_options(std::string_view mode, const Words& words) {
  const auto refuse = [&](std::string_view owner,
                          std::initializer_list<std::pair<const char*, bool>> options) {
    for (const auto& [option, given] : options)
      if (given && mode != owner)
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("{} is of explain {}; leave it out of explain {}", option, owner, mode));
  };
  const NumericWords& numeric = words.numeric;
  const MmaWords& mma = words.mma;
  const OccupancyWords& occupancy = words.occupancy;
  refuse("block", {{"--format", !numeric.format.empty()},
                   {"--scale-rule", !numeric.scale_rule.empty()},
                   {"--rounding", !numeric.rounding.empty()},
                   {"--compat", !numeric.compat.empty()},
                   {"--seed", !numeric.seed.empty()},
                   {"--global-scale", !words.global_scale.empty()},
                   {"--compare", words.compare}});
  refuse("mma", {{"--probe", mma.probe},
                 {"--svg", !mma.svg.empty()},
                 {"--elements", !mma.elements.empty()},
                 {"--select-a", !mma.select_a.empty()},
                 {"--select-b", !mma.select_b.empty()}});
  refuse("occupancy", {{"--regs", !occupancy.registers.empty()},
                       {"--shared", !occupancy.shared.empty()},
                       {"--threads", !occupancy.threads.empty()},
                       {"--gpu", !occupancy.gpu.empty()}});
}

int run_explain(Words& words, Console& console) {
  const std::string mode = words.values.front();
  const std::vector<std::string> rest(words.values.begin() + 1, words.values.end());
  refuse_others_options(mode == "mma" || mode == "occupancy" ? mode : "block", words);
  if (mode == "mma") return run_explain_mma(rest, words.mma, console);
  if (mode == "occupancy") return run_explain_occupancy(rest, words.occupancy, console);
  if (words.compare && words.numeric.compat.empty() &&
      !(words.numeric.scale_rule.empty() && words.numeric.rounding.empty()))
    throw Error(ErrorCode::invalid_argument,
                "--compare shows every scale rule and rounding; leave --scale-rule and "
                "--rounding out");
  ExplainCommand command;
  if (!words.numeric.format.empty()) command.format = format_from(words.numeric.format);
  command.numerics = numerics_from(words.numeric, command.format, words.compare);
  command.values = floats_from(mode == "block" ? rest : words.values,
                               static_cast<std::size_t>(info(command.format).block));
  if (!words.global_scale.empty())
    command.global_scale = float_from("--global-scale", words.global_scale);
  command.compare = words.compare;
  return run(command, console);
}

int run_command(const CLI::App& app, const std::string& name, Words& words, Console& console) {
  const int threads = static_cast<int>(integer_from("--threads", words.threads, 0, 4096));
  if (name == "quantize") {
    if (!words.calibrate.empty()) throw of_the_package("--calibrate");
    if (words.rotate)
      throw Error(ErrorCode::invalid_argument,
                  "--rotate goes with --calibrate; of statistics that are there, microscale rotate "
                  "makes the model and the statistics to quantize by");
    QuantizeCommand command{.options = {}, .dry_run = words.dry_run, .report = words.report};
    QuantizeModelOptions& options = command.options;
    options.input = words.input;
    options.output = words.output;
    options.include = words.include;
    options.ignore = words.ignore;
    options.allow_incomplete = words.allow_incomplete;
    if (!words.experts.empty()) options.experts = expert_order_from(words.experts);
    if (!words.activations.empty()) options.activations = activations_from(words.activations);
    options.container = words.container.empty() ? container_for(options.output)
                                                : container_from("--container", words.container);
    if (words.container.empty() && options.container != Container::compressed_tensors) {
      console.note(
          fmt::format("note: the output's name ends in {}, which asks for the container {}",
                      options.output.extension().string(), to_string(options.container)));
    }
    for (const std::string& text : words.lora) options.lora.push_back(lora_from(text));
    for (const std::string& text : words.use) options.use.push_back(use_from(text));
    options.input_scales = words.input_scales;
    options.budget = budget_from(words.bits, words.fit, words.menu, words.numeric.format);
    choose_format(words.numeric, options);
    options.importance = words.importance;
    options.statistics = statistics_from(words.method, words.shrink, words.damping);
    options.gpus = gpus_from(words.device);
    options.threads = threads;
    options.max_memory = bytes_from("--max-memory", words.max_memory);
    options.resume = words.resume;
    return run(command, console);
  }
  if (name == "convert") {
    ConvertModelOptions options;
    options.input = words.input;
    options.output = words.output;
    options.container = container_from("--to", words.container);
    options.to_nvfp4 = words.to_nvfp4;
    options.exact = words.exact;
    options.read_back = words.read_back;
    options.threads = threads;
    options.max_memory = bytes_from("--max-memory", words.max_memory);
    options.resume = words.resume;
    return run(ConvertCommand{std::move(options), words.dry_run}, console);
  }
  if (name == "dequantize")
    return run(DequantizeCommand{words.input, words.output, dtype_from(words.dtype), threads,
                                 words.allow_nan},
               console);
  if (name == "inspect")
    return run(InspectCommand{words.input, words.tensor, words.engines}, console);
  if (name == "repair")
    return run(RepairCommand{{words.input, words.output, threads, words.dry_run}}, console);
  if (name == "verify") {
    VerifyCommand command{words.input, threads, 0, words.other};
    if (!words.tensor_parallel.empty())
      command.tensor_parallel =
          static_cast<int>(integer_from("--tp", words.tensor_parallel, 1, 4096));
    return run(command, console);
  }
  if (name == "compare") {
    if (!words.text.empty()) throw of_the_package("--text");
    CompareCommand command{words.input, words.other, {}, threads};
    if (!words.max_mse.empty()) command.max_mse = share_from("--max-mse", words.max_mse);
    return run(command, console);
  }
  if (name == "explain") return run_explain(words, console);
  if (name == "ptx") {
    return run_ptx(words.action, words.input, words.launch, threads, console);
  }
  if (name == "sass") return run(SassCommand{words.input, words.tensor}, console);
  if (name == "bench") return run_bench(words.bench, threads, console);
  return name == "completion" ? run_completion(app, words, console) : run_version(console);
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// One sentence for what CLI11 could not parse.
std::string usage_message(const CLI::ParseError& error, const CLI::App& app) {
  const std::vector<std::string> left = app.remaining();
  std::string what = error.what();
  if (!left.empty()) {
    const std::string word = left.front().substr(0, left.front().find('='));
    what = fmt::format("unexpected {} '{}'{}", word[0] == '-' ? "option" : "argument", word,
                       word[0] == '-' ? did_you_mean(word, option_names(app)) : "");
  }
  const std::string name = app.get_parent() ? app.get_name() + " " : "";
  return fmt::format("{}; see microscale {}--help", what, name);
}

int run_arguments(Console& console, std::vector<std::string> arguments, std::string& name) {
  Words words;
  CLI::App app("Block-scaled numbers (MXFP4, NVFP4, MXFP8) for model checkpoints.", "microscale");
  app.set_version_flag("--version", tool_version(), "Print the version");
  app.footer(
      "Example:\n  microscale quantize MODEL -o OUT --format nvfp4\n\n"
      "microscale COMMAND --help tells more about a command.\n"
      "Exit codes: 0 done, 1 a check failed, 2 usage or unsupported, 3 a file's\n"
      "contents are wrong, 4 no such file, memory, room or rights, 130 interrupted.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(help_column);
  add_commands(app, words);

  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command->get_name());
  if (arguments.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no command given; choose one of {}; see microscale --help",
                            fmt::join(commands, ", ")));
  const std::string& first = arguments.front();
  if (first == "calibrate" || first == "evaluate" || first == "rotate") throw of_the_package(first);
  const CLI::App* command = &app;
  if (first[0] != '-') {
    if (std::find(commands.begin(), commands.end(), first) == commands.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("no command '{}'{}; choose one of {}", first,
                              did_you_mean(first, commands), fmt::join(commands, ", ")));
    command = app.get_subcommand(first);
    name = first;
    if (name == "explain") protect_negative_numbers(arguments);
  }
  try {
    app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // it wants them backwards
  } catch (const CLI::CallForHelp&) {
    console.json = false;
    console.print(wrapped_help(app.help(), console.out.width > 0 ? console.out.width : 80));
    return exit_success;
  } catch (const CLI::CallForVersion&) {
    console.print(tool_version() + "\n");
    return exit_success;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, usage_message(error, *command));
  }
  backend_of_environment();  // every command refuses an unknown name
  return run_command(app, name, words, console);
}

int run_and_report(std::vector<std::string> arguments) {
  Console console;
  for (const std::string& word : arguments) console.json = console.json || word == "--json";
  std::string name;
  const auto failed = [&](ErrorCode code, const std::string& message) {
    return console.report_error(name, to_string(code), exit_code(code), message);
  };
  try {
    const int code = run_arguments(console, std::move(arguments), name);
    console.flush();
    return code;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    const char* advice = name == "quantize" ? "lower --max-memory or --threads, or free some"
                         : name == "ptx"    ? "give smaller arrays, or free some"
                                            : "free some";
    return failed(ErrorCode::out_of_memory, fmt::format("out of memory; {}", advice));
  } catch (const std::system_error& error) {  // std::filesystem's and std::thread's
    return failed(ErrorCode::io, error.what());
  } catch (const std::exception& error) {
    return console.report_error(name, "internal", 4,
                                fmt::format("internal error, please report: {}", error.what()));
  }
}

}  // namespace

int run_program(std::vector<std::string> arguments) {
  const int code = run_and_report(std::move(arguments));
  leave_ranks(code);
  return code;
}

}  // namespace microscale
