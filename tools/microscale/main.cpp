// The command line: subcommands and their options, and how every outcome becomes an exit code. The
// only file that knows CLI11.
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
#include "core/threads.hpp"
#include "help.hpp"
#include "microscale/context.hpp"

namespace microscale {
namespace {

/// What was written for the options, of whichever subcommand it was.
struct Words {
  NumericWords numeric;
  std::string input, output, other, tensor, importance, report, shell, action;
  std::string threads = "0", max_memory = "1GiB", dtype = "bf16", device = "cpu", max_mse,
              global_scale;
  std::vector<std::string> include, ignore, values;
  LaunchWords launch;
  bool resume = false, dry_run = false, compare = false, json = false;
  MmaWords mma;
  OccupancyWords occupancy;
};

/// An option or argument that takes one value; `placeholder` says what of (see choices_of). PATH,
/// FILE and DIR are completed with files.
CLI::Option* add(CLI::App& app, const std::string& names, std::string& target,
                 const std::string& placeholder, const std::string& description) {
  return app.add_option(names, target, description)->type_name(placeholder);
}

CLI::Option* add_patterns(CLI::App& app, const std::string& name, std::vector<std::string>& target,
                          const std::string& description) {
  return app.add_option(name, target, description)->type_name("PATTERN")->allow_extra_args(false);
}

/// Adds the options that choose a format's numbers, and below the help's example what each can be.
void add_numerics(CLI::App& app, Words& words) {
  add(app, "--scale-rule", words.numeric.scale_rule, "RULE",
      "How a block's scale is chosen [search]");
  add(app, "--rounding", words.numeric.rounding, "ROUNDING",
      "How an element is rounded [nearest_even]");
  add(app, "--compat", words.numeric.compat, "TOOL", "Give the bytes that this tool gives");
  add(app, "--seed", words.numeric.seed, "N", "For --rounding stochastic [0]");
  app.footer(fmt::format(
      "{}\n\nFORMAT: {}.\nRULE for nvfp4: {}.\nRULE for others: {}.\nROUNDING: {}.\nTOOL: {}.",
      app.get_footer(), fmt::join(choices_of("FORMAT"), ", "), scale_rule_names(Format::nvfp4),
      scale_rule_names(Format::mxfp4), rounding_names(), compat_names()));
}

void add_threads(CLI::App& app, Words& words) {
  add(app, "--threads", words.threads, "N", "Threads to use [0: all cores]");
}

CLI::App& add_command(CLI::App& app, Words& words, const std::string& name,
                      const std::string& description, const std::string& example) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.add_flag("--json", words.json, "Print one JSON document instead of text");
  command.footer("Example:\n  " + example);
  return command;
}

void add_quantize(CLI::App& app, Words& words) {
  CLI::App& command =
      add_command(app, words, "quantize", "Make a model folder smaller",
                  "microscale quantize Llama-3-8B -o Llama-3-8B-nvfp4 --format nvfp4");
  add(command, "MODEL", words.input, "PATH", "Model folder or .safetensors file")->required();
  add(command, "-o,--output", words.output, "DIR", "Folder to write; made if absent")->required();
  add(command, "--format", words.numeric.format, "FORMAT",
      "What to quantize to: nvfp4, mxfp4 or mxfp8")
      ->required();
  add_numerics(command, words);
  add_patterns(command, "--include", words.include,
               "Quantize only tensors that match this glob, or re:REGEX; may be repeated");
  add_patterns(command, "--ignore", words.ignore,
               "Leave these as they are, beyond the default; may be repeated");
  add(command, "--importance", words.importance, "FILE",
      "Safetensors with E[x^2] of each input column");
  add(command, "--device", words.device, "DEVICE",
      "Compute on cpu, cuda, cuda:N or cuda:all; the same bytes [cpu]");
  add_threads(command, words);
  add(command, "--max-memory", words.max_memory, "SIZE", "Memory to stay under: 512M, 1GiB [1GiB]");
  command.add_flag("--resume", words.resume,
                   "Go on with an interrupted run of the same input and options");
  command.add_flag("--dry-run", words.dry_run, "Print what would be done, write nothing");
  add(command, "--report", words.report, "FILE", "Write an HTML report of what it cost");
}

void add_others(CLI::App& app, Words& words) {
  CLI::App& dequantize =
      add_command(app, words, "dequantize", "Expand a quantized folder to dense weights",
                  "microscale dequantize Llama-3-8B-nvfp4 -o Llama-3-8B-bf16 --dtype bf16");
  add(dequantize, "MODEL", words.input, "PATH", "Quantized folder")->required();
  add(dequantize, "-o,--output", words.output, "DIR", "Folder to write; made if absent")
      ->required();
  add(dequantize, "--dtype", words.dtype, "DTYPE", "bf16, f16 or f32 [bf16]");
  add_threads(dequantize, words);

  CLI::App& inspect = add_command(app, words, "inspect", "Show formats, shapes and histograms",
                                  "microscale inspect Llama-3-8B-nvfp4 model.layers.0.mlp.up_proj");
  add(inspect, "PATH", words.input, "PATH", "Model folder or .safetensors file")->required();
  add(inspect, "TENSOR", words.tensor, "NAME", "One tensor in detail");

  CLI::App& verify = add_command(app, words, "verify", "Check everything a loader relies on",
                                 "microscale verify Llama-3-8B-nvfp4");
  add(verify, "PATH", words.input, "PATH", "Quantized folder")->required();
  add_threads(verify, words);

  CLI::App& compare = add_command(app, words, "compare", "Measure what quantizing cost, by tensor",
                                  "microscale compare Llama-3-8B Llama-3-8B-nvfp4 --max-mse 1%");
  add(compare, "A", words.input, "PATH", "The original")->required();
  add(compare, "B", words.other, "PATH", "What became of it")->required();
  add(compare, "--max-mse", words.max_mse, "SHARE",
      "Exit with 1 above this relative error: 0.01, 1%");
  add_threads(compare, words);

  CLI::App& explain =
      add_command(app, words, "explain", "Show how a block becomes bytes, in bits",
                  "microscale explain 12 10 3 -7 --format mxfp4 --scale-rule floor");
  explain
      .add_option("VALUES", words.values,
                  "Numbers of one block, with or without the word 'block' before them; - reads "
                  "standard input. Or: mma KIND SHAPE, or: occupancy")
      ->type_name("V")
      ->required();
  add(explain, "--format", words.numeric.format, "FORMAT", "Block format to show [mxfp4]");
  add_numerics(explain, words);
  add(explain, "--global-scale", words.global_scale, "G", "NVFP4: the tensor's, as a multiplier");
  explain.add_flag("--compare", words.compare, "The block under every rule and rounding");
  explain.add_flag("--probe", words.mma.probe, "mma: derive the maps by running the instruction");
  add(explain, "--svg", words.mma.svg, "FILE", "mma: draw the maps");
  add(explain, "--elements", words.mma.elements, "A,B", "mma: element types, as in e4m3,e2m1");
  add(explain, "--select-a", words.mma.select_a, "BYTE,THREAD", "mma: selector of A's scales [0,0]");
  add(explain, "--select-b", words.mma.select_b, "BYTE,THREAD", "mma: selector of B's scales [0,0]");
  add(explain, "--regs", words.occupancy.registers, "R", "occupancy: registers of a thread");
  add(explain, "--shared", words.occupancy.shared, "SIZE", "occupancy: shared memory of a block [0]");
  add(explain, "--threads", words.occupancy.threads, "T", "occupancy: threads of a block");
  add(explain, "--gpu", words.occupancy.gpu, "GPU", "occupancy: a100, h200, b200, rtx5090, ... [h200]");
}

void add_last(CLI::App& app, Words& words) {
  CLI::App& bench =
      add_command(app, words, "bench", "Time an operation beside the limit of the machine",
                  "microscale bench quantize --device cuda");
  add(bench, "OPERATION", words.input, "OPERATION", "What to time: quantize (and dequantize)")
      ->required();
  add(bench, "--device", words.device, "DEVICE", "Time on cpu, cuda or cuda:N [cpu]");
  add(bench, "--filter", words.tensor, "TEXT", "Only cases with this in their name");
  add(bench, "--size", words.max_memory, "SIZE", "On the CPU: dense data of a case [1GiB]");
  add_threads(bench, words);

  CLI::App& sass =
      add_command(app, words, "sass", "Count the instructions of assembled GPU kernels",
                  "microscale sass sm_100f --kernel quantize_mxfp4_bf16");
  add(sass, "FILE", words.input, "FILE",
      "A .cubin, its disassembly, or sm_90a, sm_100f or sm_120f: what "
      "this program carries for it")
      ->required();
  add(sass, "--kernel", words.tensor, "TEXT", "Only kernels with this in their name");

  CLI::App& completion = add_command(app, words, "completion", "Print a shell's completion script",
                                     "source <(microscale completion bash)");
  add(completion, "SHELL", words.shell, "SHELL", "bash, zsh or fish")->required();

  add_command(app, words, "version", "Print version and backends", "microscale version --json");
}

void add_ptx(CLI::App& app, Words& words) {
  CLI::App& ptx = add_command(app, words, "ptx", "Explain, run or profile a PTX kernel without a GPU",
                              "microscale ptx run kernel.ptx --kernel scale --grid 4 --block 256 \\\n"
                              "    --arg x=in.npy --arg f32:1.5 --out x=out.npy");
  ptx.footer(fmt::format("{}\n\n{}", ptx.get_footer(), kernel_argument_help()));
  add(ptx, "ACTION", words.action, "ACTION", "explain, run or profile")->required();
  add(ptx, "FILE", words.input, "FILE", "PTX text, as nvcc -ptx writes it")->required();
  for (const LaunchOption& each : launch_options(words.launch))
    (each.words ? add_patterns(ptx, each.name, *each.words, each.description)
                : add(ptx, each.name, *each.word, each.placeholder, each.description))
        ->type_name(each.placeholder);
  add_threads(ptx, words);
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
    console.print(script);
  return exit_success;
}

int run_command(const CLI::App& app, const std::string& name, Words& words, Console& console) {
  const int threads = static_cast<int>(integer_from("--threads", words.threads, 0, 4096));
  if (name == "quantize") {
    QuantizeCommand command{.options = {}, .dry_run = words.dry_run, .report = words.report};
    QuantizeModelOptions& options = command.options;
    options.input = words.input;
    options.output = words.output;
    options.format = format_from(words.numeric.format);
    options.numerics = numerics_from(words.numeric, options.format);
    options.include = words.include;
    options.ignore = words.ignore;
    options.importance = words.importance;
    options.gpus = gpus_from(words.device);
    options.threads = threads;
    options.max_memory = bytes_from("--max-memory", words.max_memory);
    options.resume = words.resume;
    return run(command, console);
  }
  if (name == "dequantize")
    return run(DequantizeCommand{words.input, words.output, dtype_from(words.dtype), threads},
               console);
  if (name == "inspect") return run(InspectCommand{words.input, words.tensor}, console);
  if (name == "verify") return run(VerifyCommand{words.input, threads}, console);
  if (name == "compare") {
    CompareCommand command{words.input, words.other, {}, threads};
    if (!words.max_mse.empty()) command.max_mse = share_from("--max-mse", words.max_mse);
    return run(command, console);
  }
  if (name == "explain") {
    const std::vector<std::string> rest(words.values.begin() + 1, words.values.end());
    if (words.values.front() == "mma") return run(explain_mma_from(rest, words.mma), console);
    if (words.values.front() == "occupancy")
      return run(explain_occupancy_from(rest, words.occupancy), console);
    ExplainCommand command;
    if (!words.numeric.format.empty()) command.format = format_from(words.numeric.format);
    command.numerics = numerics_from(words.numeric, command.format);
    if (words.values.front() == "block") words.values.erase(words.values.begin());
    command.values =
        floats_from(words.values, static_cast<std::size_t>(info(command.format).block));
    if (!words.global_scale.empty())
      command.global_scale = float_from("--global-scale", words.global_scale);
    command.compare = words.compare;
    return run(command, console);
  }
  if (name == "ptx") {
    return run_ptx(words.action, words.input, words.launch, threads, console);
  }
  if (name == "sass") return run(SassCommand{words.input, words.tensor}, console);
  if (name == "bench")
    return run(BenchCommand{words.input, gpus_from(words.device), words.tensor,
                            bytes_from("--size", words.max_memory), threads},
               console);
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
  app.set_version_flag("--version", std::string(tool_version), "Print the version");
  app.footer(
      "Example:\n  microscale quantize MODEL -o OUT --format nvfp4\n\n"
      "microscale COMMAND --help tells more about a command.\n"
      "Exit codes: 0 done, 1 a check failed, 2 usage or unsupported, 3 bad input,\n"
      "4 out of memory, disk or rights, 130 interrupted.");
  app.require_subcommand(1);
  app.get_formatter()->column_width(help_column);
  add_quantize(app, words);
  add_others(app, words);
  add_ptx(app, words);
  add_last(app, words);

  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(command->get_name());
  if (arguments.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("no command given; choose one of {}; see microscale --help",
                            fmt::join(commands, ", ")));
  const std::string& first = arguments.front();
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
    console.print(std::string(tool_version) + "\n");
    return exit_success;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::invalid_argument, usage_message(error, *command));
  }
  return run_command(app, name, words, console);
}

int guarded_main(std::vector<std::string> arguments) {
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
    return failed(ErrorCode::out_of_memory,
                  "out of memory; lower --max-memory or --threads, or free some");
  } catch (const std::system_error& error) {  // std::filesystem's and std::thread's
    return failed(ErrorCode::io, error.what());
  } catch (const std::exception& error) {
    return console.report_error(name, "internal", 4,
                        fmt::format("internal error, please report: {}", error.what()));
  }
}

}  // namespace
}  // namespace microscale

int main(int argc, char** argv) {
  return microscale::guarded_main({argv + (argc > 0), argv + argc});
}
