#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace microscale {
namespace {

/// An option or argument that takes one value; `placeholder` says what of (see choices_of). PATH,
/// FILE and DIR are completed with files.
CLI::Option* add(CLI::App& app, const std::string& names, std::string& target,
                 const std::string& placeholder, const std::string& description) {
  return app.add_option(names, target, description)->type_name(placeholder)->transform(unprotected);
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

void add_run(CLI::App& command, Words& words) {
  add_threads(command, words);
  add(command, "--max-memory", words.max_memory, "SIZE", "Memory to stay under: 512M, 1GiB [1GiB]");
  command.add_flag("--resume", words.resume,
                   "Go on with an interrupted run of the same input and options");
  command.add_flag("--dry-run", words.dry_run, "Print what would be done, write nothing");
}

void add_quantize(CLI::App& app, Words& words) {
  CLI::App& command =
      add_command(app, words, "quantize", "Make a model folder smaller",
                  "microscale quantize Llama-3-8B -o Llama-3-8B-nvfp4 --format nvfp4");
  add(command, "MODEL", words.input, "PATH", "Model folder, .safetensors or GGUF file")->required();
  add(command, "-o,--output", words.output, "PATH",
      "Folder to write, made if absent; or a .gguf or .safetensors file")
      ->required();
  add(command, "--format", words.numeric.format, "FORMAT",
      "What to quantize to: nvfp4, mxfp4, mxfp8 or fp8; for ModelOpt fp8_tensor; needed but with "
      "--bits or --fit");
  add(command, "--bits", words.bits, "BITS",
      "Choose each layer's format: the least error with this many bits a weight, as in 4.75");
  add(command, "--fit", words.fit, "SIZE", "The same, so that all files together have this size");
  add(command, "--menu", words.menu, "FORMATS",
      "Out of which --bits and --fit choose, as in nvfp4,fp8,bf16 [all that the container holds, "
      "and bf16: as it is]");
  add_patterns(
      command, "--use", words.use,
      "Layers that match get another format: nvfp4, mxfp4, mxfp8 or fp8 (E4M3, a scale for "
      "each row); the first that matches counts; may be repeated")
      ->type_name("PATTERN=FORMAT");
  add_patterns(command, "--lora", words.lora,
               "LoRA adapter that peft saved, added before quantizing; PATH:0.5 adds half of it; "
               "may be repeated")
      ->type_name("PATH");
  add_numerics(command, words);
  add_patterns(command, "--include", words.include,
               "Quantize only tensors that match this glob, or re:REGEX; may be repeated");
  add_patterns(command, "--ignore", words.ignore,
               "Leave these as they are, beyond the default; may be repeated");
  add(command, "--experts", words.experts, "ORDER",
      "Gate and up of fused experts, where the model does not tell: interleaved or halves");
  command.add_flag("--allow-incomplete", words.allow_incomplete,
                   "Quantize what is there of a model that lacks layers, experts or partners");
  add(command, "--container", words.container, "CONTAINER",
      "How layers are written: compressed-tensors, modelopt, gguf (from a GGUF file), comfyui or "
      "gpt-oss [by the output's name: .gguf, .safetensors (comfyui), else compressed-tensors]");
  add(command, "--activations", words.activations, "ACTIVATIONS",
      "Inputs of the layers as engines run them: dense, or dynamic: to mxfp4 or mxfp8 too [dense]");
  add(command, "--input-scales", words.input_scales, "FILE",
      "NVFP4: JSON or safetensors with the largest magnitude of each layer's input");
  add(command, "--importance", words.importance, "FILE",
      "Statistics of each layer's inputs, E[x^2] and the Hessian, as calibrate makes, or "
      "llama.cpp's imatrix");
  add(command, "--calibrate", words.calibrate, "TEXT",
      "Make these first: the model reads a file, or what sample or random stands for; by the "
      "Python "
      "package");
  command.add_flag("--rotate", words.rotate,
                   "MXFP4 by gptq: merge rotations into the weights before, with --calibrate");
  add(command, "--method", words.method, "METHOD",
      "What is done with them: gptq, block-hessian or search [gptq where there are Hessians]");
  add(command, "--shrink", words.shrink, "PART",
      "By how much the Hessian's numbers off its diagonal shrink [0.1, of few tokens 0.3]");
  add(command, "--damping", words.damping, "PART",
      "What of its mean is added to its diagonal [0.01, more where it takes it]");
  add(command, "--device", words.device, "DEVICE",
      "Compute on cpu, cuda, cuda:N or cuda:all; the same bytes [cpu]");
  add_run(command, words);
  add(command, "--report", words.report, "FILE", "Write an HTML report of what it cost");
}

void add_convert(CLI::App& app, Words& words) {
  CLI::App& convert = add_command(
      app, words, "convert", "Put quantized weights into another container, as they are",
      "microscale convert Llama-3-8B-nvfp4 -o Llama-3-8B-modelopt --to modelopt");
  add(convert, "MODEL", words.input, "PATH", "Quantized folder, .safetensors or GGUF file")
      ->required();
  add(convert, "-o,--output", words.output, "PATH", "What to write; made if absent")->required();
  add(convert, "--to", words.container, "CONTAINER", "How layers are written")->required();
  convert.add_flag("--to-nvfp4", words.to_nvfp4,
                   "MXFP4 becomes NVFP4 also where the container holds both");
  convert.add_flag("--exact", words.exact, "Refuse what would change a value");
  convert.add_flag("--read-back", words.read_back,
                   "Hash all of the output as it is read again, not a sixteenth of it");
  add_run(convert, words);
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
  dequantize.add_flag("--allow-nan", words.allow_nan,
                      "Write NaN where scales or codes are NaN, instead of refusing");

  CLI::App& inspect = add_command(app, words, "inspect", "Show formats, shapes and histograms",
                                  "microscale inspect Llama-3-8B-nvfp4 model.layers.0.mlp.up_proj");
  add(inspect, "PATH", words.input, "PATH", "Model folder, .safetensors or GGUF file")->required();
  add(inspect, "TENSOR", words.tensor, "NAME", "One tensor in detail");
  inspect.add_flag("--engines", words.engines, "Which engine runs it on which processor, and how");

  CLI::App& verify = add_command(app, words, "verify", "Check everything a loader relies on",
                                 "microscale verify Llama-3-8B-nvfp4");
  add(verify, "PATH", words.input, "PATH", "Quantized folder")->required();
  add(verify, "--source", words.other, "PATH",
      "Also against the model it was made of: codes, scale rule, global scale, copies");
  add(verify, "--tp", words.tensor_parallel, "N",
      "Also whether tensor parallelism over N leaves blocks and heads whole");
  add_threads(verify, words);

  CLI::App& repair =
      add_command(app, words, "repair", "Write a quantized folder again as loaders want it",
                  "microscale repair Llama-3-8B-broken -o Llama-3-8B-nvfp4");
  add(repair, "MODEL", words.input, "PATH", "Quantized folder")->required();
  add(repair, "-o,--output", words.output, "DIR", "Folder to write; made if absent");
  repair.add_flag("--dry-run", words.dry_run, "Print what would be done, write nothing");
  add_threads(repair, words);

  CLI::App& compare = add_command(app, words, "compare", "Measure what quantizing cost, by tensor",
                                  "microscale compare Llama-3-8B Llama-3-8B-nvfp4 --max-mse 1%");
  add(compare, "A", words.input, "PATH", "The original")->required();
  add(compare, "B", words.other, "PATH", "What became of it")->required();
  add(compare, "--max-mse", words.max_mse, "SHARE",
      "Exit with 1 if the whole or a tensor is further off: 0.01, 1%");
  add(compare, "--text", words.text, "FILE",
      "Also perplexities and divergence on a text (the Python package, with torch)");
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
  add(explain, "--select-a", words.mma.select_a, "BYTE,THREAD",
      "mma: selector of A's scales [0,0]");
  add(explain, "--select-b", words.mma.select_b, "BYTE,THREAD",
      "mma: selector of B's scales [0,0]");
  add(explain, "--regs", words.occupancy.registers, "R", "occupancy: registers of a thread");
  add(explain, "--shared", words.occupancy.shared, "SIZE",
      "occupancy: shared memory of a block [0]");
  add(explain, "--threads", words.occupancy.threads, "T", "occupancy: threads of a block");
  add(explain, "--gpu", words.occupancy.gpu, "GPU",
      "occupancy: a100, h200, b200, rtx5090, ... [h200]");
}

void add_bench(CLI::App& app, Words& words) {
  CLI::App& bench =
      add_command(app, words, "bench", "Time an operation beside the limit of the machine",
                  "microscale bench matmul --tasks");
  BenchWords& given = words.bench;
  add(bench, "OPERATION", given.operation, "OPERATION",
      "What to time: quantize (and dequantize), matmul or attention")
      ->required();
  add(bench, "--backend,--device", given.backend, "BACKEND",
      "all, cpu (its fastest), amx, avx512, avx2, cuda or cuda:N [all]");
  add(bench, "--filter", given.filter, "TEXT", "Only cases with this in their name");
  bench.add_flag(
      "--tasks", given.tasks,
      "matmul: the four NVFP4 tasks of \"Twelve Attempts at an FP4 Kernel\", all shapes");
  bench.add_flag("--few-rows", given.few_rows,
                 "matmul: 1 to 16 rows by every kernel that takes them, instead");
  bench.add_flag(
      "--plan", given.plan,
      "matmul, attention: which kernels a GPU runs, for described GPUs (none is needed); "
      "nothing is timed");
  add(bench, "--runs", given.runs, "N", "On the CPU: runs of a case; the median counts [7]");
  add(bench, "--size", given.size, "SIZE", "quantize, CPU: dense data of a case [1GiB]");
  add(bench, "--rotate-mib", given.rotate_mib, "N",
      "matmul, CPU: weights before one comes round again; more than the last cache, to see memory "
      "[256]");
  bench.add_flag("--quick", given.quick, "Small cases, to see that all of it works");
  add_threads(bench, words);
}

void add_sass(CLI::App& app, Words& words) {
  CLI::App& sass =
      add_command(app, words, "sass", "Count the instructions of assembled GPU kernels",
                  "microscale sass sm_100f --kernel quantize_mxfp4_bf16");
  add(sass, "FILE", words.input, "FILE",
      "A .cubin, its disassembly, or sm_90a, sm_100f or sm_120f: what "
      "this program carries for it")
      ->required();
  add(sass, "--kernel", words.tensor, "TEXT", "Only kernels with this in their name");
}

void add_last(CLI::App& app, Words& words) {
  CLI::App& completion = add_command(app, words, "completion", "Print a shell's completion script",
                                     "source <(microscale completion bash)");
  add(completion, "SHELL", words.shell, "SHELL", "bash, zsh or fish")->required();

  add_command(app, words, "version", "Print version and backends", "microscale version --json");
}

void add_ptx(CLI::App& app, Words& words) {
  CLI::App& ptx =
      add_command(app, words, "ptx", "Explain, run or profile a PTX kernel without a GPU",
                  "microscale ptx run kernel.ptx --kernel scale --grid 4 --block 256 \\\n"
                  "    --arg x=in.npy --arg f32:1.5 --out x=out.npy");
  ptx.footer(fmt::format("{}\n\n{}", ptx.get_footer(), kernel_argument_help()));
  add(ptx, "ACTION", words.action, "ACTION", "explain, run or profile")->required();
  add(ptx, "FILE", words.input, "FILE", "CUDA source (.cu, by nvcc) or PTX text")->required();
  for (const LaunchOption& each : launch_options(words.launch))
    (each.words ? add_patterns(ptx, each.name, *each.words, each.description)
                : add(ptx, each.name, *each.word, each.placeholder, each.description))
        ->type_name(each.placeholder);
  add_threads(ptx, words);
}

}  // namespace

void add_commands(CLI::App& app, Words& words) {
  add_quantize(app, words);
  add_convert(app, words);
  add_others(app, words);
  add_ptx(app, words);
  add_bench(app, words);
  add_sass(app, words);
  add_last(app, words);
}

}  // namespace microscale
