// quantize: the plan, the report, the refusals and their exit codes. What is written, and that it
// is the same bytes whatever happens, is tested in tests/checkpoint.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "microscale/cuda.hpp"
#include "tools/checkpoint_folders.hpp"

namespace microscale::testing {
namespace {

/// Writes the dense form of the small model; gives its path.
std::string dense_model(const Folders& folders) {
  const Outcome made = microscale({"dequantize", folders.quantized(), "-o", folders.dense()});
  EXPECT_EQ(made.code, 0) << made.err;
  return folders.dense();
}

TEST(QuantizeCommand, converts_reports_and_passes_verify) {
  const Folders folders;
  const std::string model = dense_model(folders), output = folders.nowhere(),
                    page = output + ".html";
  const Outcome run =
      microscale({"quantize", model, "-o", output, "--format", "nvfp4", "--report", page});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("tensors quantized to nvfp4"), std::string::npos) << run.out;
  EXPECT_NE(run.err.find("quantize: "), std::string::npos);  // progress, not on standard output
  EXPECT_EQ(microscale({"verify", output}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(page));
}

TEST(QuantizeCommand, dry_run_shows_the_plan_and_writes_nothing) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const Outcome run =
      microscale({"quantize", model, "-o", folders.nowhere(), "--format", "mxfp4", "--dry-run"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.out.find("linear weight"), std::string::npos) << run.out;
  EXPECT_FALSE(std::filesystem::exists(folders.nowhere()));
  const Outcome json = microscale(
      {"quantize", model, "-o", folders.nowhere(), "--format", "mxfp4", "--dry-run", "--json"});
  EXPECT_TRUE(Json::accept(json.out)) << json.out;
}

TEST(QuantizeCommand, chooses_formats_within_a_budget) {
  const Folders folders;
  const std::string model = dense_model(folders), page = folders.nowhere() + ".html";
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"quantize", model, "-o", folders.nowhere()};
    words.insert(words.end(), more.begin(), more.end());
    return microscale(words);
  };
  const Outcome dry = run({"--bits", "6", "--dry-run"});
  ASSERT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.out.find("at most 6 bits a weight, of nvfp4, mxfp4, mxfp8, fp8 and bf16"),
            std::string::npos)
      << dry.out;
  EXPECT_NE(dry.out.find("all nvfp4"), std::string::npos) << dry.out;
  EXPECT_NE(dry.out.find("instead"), std::string::npos) << dry.out;
  EXPECT_FALSE(std::filesystem::exists(folders.nowhere()));
  const Outcome json = run({"--bits", "6", "--menu", "nvfp4,bf16", "--dry-run", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json choice = Json::parse(json.out)["choice"];
  EXPECT_LE(choice["bits"].get<double>(), 6);
  EXPECT_EQ(choice["menu"], Json::parse(R"(["nvfp4", "bf16"])"));
  const Outcome made = run({"--bits", "6", "--report", page});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("--importance"), std::string::npos) << "says that weights' errors count";
  EXPECT_EQ(microscale({"verify", folders.nowhere()}).code, 0);
  EXPECT_NE(read_file(page).find("<section id=\"choice\">"), std::string::npos);
}

TEST(QuantizeCommand, refuses_budgets_that_are_none) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const auto refused = [&](std::vector<std::string> more, const std::string& phrase) {
    std::vector<std::string> words{"quantize", model, "-o", folders.nowhere()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome run = microscale(words);
    EXPECT_EQ(run.code, 2) << run.out;
    EXPECT_NE(run.err.find(phrase), std::string::npos) << run.err;
    EXPECT_FALSE(std::filesystem::exists(folders.nowhere()));
  };
  refused({}, "--format is required");
  refused({"--bits", "5", "--format", "nvfp4"}, "leave one out");
  refused({"--bits", "5", "--fit", "1GiB"}, "give one");
  refused({"--bits", "few"}, "--bits got 'few'");
  refused({"--fit", "lots"}, "--fit got 'lots'");
  refused({"--bits", "5", "--menu", "nvfp4,mxfp5"}, "did you mean");
  refused({"--bits", "5", "--menu", "nvfp4,,bf16"}, "--menu does not know ''");
  refused({"--menu", "nvfp4,bf16", "--format", "nvfp4"}, "--menu has no effect");
  refused({"--bits", "3"}, "at least 4.25 bits a weight and at most");
  refused({"--fit", "1K"}, "take at least");
}

TEST(QuantizeCommand, gives_layers_the_format_that_use_names) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const auto dry_run = [&](const std::string& use) {
    return microscale({"quantize", model, "-o", folders.nowhere(), "--format", "nvfp4", "--use",
                       use, "--dry-run", "--json"});
  };
  const Outcome run = dry_run("*=fp8");
  ASSERT_EQ(run.code, 0) << run.err;
  std::size_t fp8 = 0;
  const Json plan = Json::parse(run.out);
  for (const Json& tensor : plan["tensors"]) fp8 += tensor["format"] == "fp8";
  EXPECT_GT(fp8, 0u);
  EXPECT_EQ(dry_run("*").code, 2);
  EXPECT_EQ(dry_run("=fp8").code, 2);
  EXPECT_NE(dry_run("*=int4").err.find("--use does not know 'int4'"), std::string::npos);
  EXPECT_EQ(dry_run("no_such=fp8").code, 2);
}

TEST(QuantizeCommand, writes_the_container_that_is_asked_for) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const auto quantize = [&](const std::string& container, const std::string& format) {
    return microscale({"quantize", model, "-o", folders.nowhere(), "--format", format,
                       "--container", container, "--json"});
  };
  EXPECT_NE(quantize("modelop", "nvfp4").err.find("did you mean modelopt"), std::string::npos);
  EXPECT_NE(quantize("modelopt", "mxfp4").code, 0);
  const Outcome run = quantize("modelopt", "nvfp4");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["container"], "modelopt");
  EXPECT_TRUE(std::filesystem::exists(folders.nowhere() + "/hf_quant_config.json"));
  EXPECT_EQ(microscale({"verify", folders.nowhere()}).code, 0);
}

TEST(QuantizeCommand, writes_one_file_where_the_outputs_name_asks_for_it) {
  const Folders folders;
  const std::string model = dense_model(folders), file = folders.nowhere() + ".safetensors",
                    page = folders.nowhere() + ".html";
  const std::vector<std::string> words{"quantize", model,   "-o",       file,
                                       "--format", "nvfp4", "--report", page};
  const Outcome run = microscale(words);
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_NE(run.err.find("ends in .safetensors, which asks for the container comfyui"),
            std::string::npos)
      << run.err;
  EXPECT_TRUE(std::filesystem::is_regular_file(file));
  EXPECT_TRUE(std::filesystem::exists(page));
  EXPECT_EQ(microscale({"verify", file}).code, 0);
  const Outcome again = microscale(words);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("is there already"), std::string::npos) << again.err;
  const Outcome gguf =  // the sample says not how many layers it has
      microscale({"quantize", model, "-o", folders.nowhere() + ".gguf", "--format", "nvfp4"});
  EXPECT_EQ(gguf.code, 3);
  EXPECT_NE(gguf.err.find("num_hidden_layers"), std::string::npos) << gguf.err;
}

TEST(QuantizeCommand, tells_engines_to_quantize_activations) {
  const Folders folders;
  const std::string model = dense_model(folders), output = folders.nowhere();
  std::vector<std::string> words{"quantize", model,           "-o",     output, "--format",
                                 "mxfp8",    "--activations", "dynamic"};
  auto with = [&](const std::string& more) {
    auto all = words;
    all.push_back(more);
    return microscale(all);
  };
  EXPECT_NE(with("--dry-run").out.find("Engines are told to quantize the inputs"),
            std::string::npos);
  const Outcome run = with("--json");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["activations"], "dynamic");
  const Json config = Json::parse(read_file(output + "/config.json"));
  EXPECT_EQ(
      config["quantization_config"]["config_groups"]["group_0"]["input_activations"]["dynamic"],
      true);
  EXPECT_EQ(microscale({"verify", output}).code, 0);
  words[5] = "nvfp4";
  EXPECT_EQ(with("--dry-run").code, 2);
  words[6] = "--input-scales";
  words[7] = folders.dense() + "/../amax.json";
  write_file(words[7], "{}");
  const Outcome missing = with("--dry-run");
  EXPECT_EQ(missing.code, 3);
  EXPECT_NE(missing.err.find("have no number"), std::string::npos) << missing.err;
  words[6] = "--activations";
  words[7] = "static";
  EXPECT_NE(with("--dry-run").err.find("choose one of dense, dynamic"), std::string::npos);
}

TEST(QuantizeCommand, says_what_stays_behind_and_why) {
  const Folders folders;
  const std::string model = dense_model(folders), output = folders.nowhere();
  write_file(model + "/pytorch_model.bin", "x");
  write_file(model + "/checkpoint-10/optimizer.pt", "x");
  write_file(model + "/spk_dict.pt", "x");
  write_file(model + "/tokenizer.model", "version https://git-lfs.github.com/spec/v1\n");
  const std::vector<std::string> words{"quantize", model, "-o", output, "--format", "nvfp4"};
  auto with = [&](const std::string& more) {
    auto all = words;
    all.push_back(more);
    return all;
  };
  for (const Outcome& run : {microscale(with("--dry-run")), microscale(words)}) {
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_NE(run.out.find("left out: checkpoint-10 (checkpoint of a training run)"),
              std::string::npos)
        << run.out;
    EXPECT_NE(run.out.find("left out: pytorch_model.bin (weights in another format)"),
              std::string::npos);
    EXPECT_NE(run.err.find("note: 'tokenizer.model' is a Git LFS pointer"), std::string::npos);
  }
  EXPECT_TRUE(std::filesystem::exists(output + "/spk_dict.pt"));
  const Json plan = Json::parse(microscale({"quantize", model, "-o", output + "2", "--format",
                                            "nvfp4", "--dry-run", "--json"})
                                    .out);
  EXPECT_EQ(plan["left_out"][1]["file"], "microscale_manifest.json");
  EXPECT_EQ(plan["left_out"][2]["file"], "pytorch_model.bin");
  EXPECT_EQ(plan["left_out"][2]["reason"], "weights in another format");
  EXPECT_EQ(plan["notices"].size(), 1u);
}

TEST(QuantizeCommand, resumes_a_finished_run_by_saying_so) {
  const Folders folders;
  const std::string model = dense_model(folders), output = folders.nowhere();
  const std::vector<std::string> words{"quantize", model,   "-o",      output,
                                       "--format", "nvfp4", "--resume"};
  EXPECT_EQ(microscale(words).code, 0);
  std::filesystem::remove(output + "/config.json");
  const Outcome again = microscale(words);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out.find("Already done: '" + output + "' holds the weights"), 0u) << again.out;
  EXPECT_NE(again.out.find("\nwritten again: config.json\n"), std::string::npos) << again.out;
  EXPECT_EQ(again.out.find("Quantized on"), std::string::npos);
  EXPECT_EQ(microscale({"verify", output}).code, 0);
  auto with_json = words;
  with_json.push_back("--json");
  EXPECT_EQ(Json::parse(microscale(with_json).out)["already_done"], true);
}

TEST(QuantizeCommand, computes_on_a_gpu_or_says_that_there_is_none) {
  const Folders folders;
  const std::string model = dense_model(folders), cpu = folders.nowhere(), gpu = cpu + "_gpu";
  const auto quantize = [&](const std::string& output, const std::string& device) {
    return microscale({"quantize", model, "-o", output, "--format", "nvfp4", "--device", device});
  };
  const Outcome on_cpu = quantize(cpu, "cpu");
  EXPECT_EQ(on_cpu.code, 0) << on_cpu.err;
  EXPECT_NE(on_cpu.out.find("Quantized on the CPU."), std::string::npos) << on_cpu.out;
  EXPECT_EQ(quantize(gpu, "cuda:1000").code, 2);
  EXPECT_FALSE(std::filesystem::exists(gpu));
  for (const std::string device : {"cuda", "cuda:0", "cuda:all"}) {
    const Outcome on_gpu = quantize(gpu, device);
    if (cuda::device_count() == 0) {
      EXPECT_EQ(on_gpu.code, 2);
      EXPECT_NE(on_gpu.err.find(cuda::unavailable_reason()), std::string::npos) << on_gpu.err;
      continue;
    }
    EXPECT_EQ(on_gpu.code, 0) << on_gpu.err;
    const Outcome same = bash("diff -r '" + cpu + "' '" + gpu + "' && rm -r '" + gpu + "'");
    EXPECT_EQ(same.code, 0) << same.out;
  }
}

TEST(QuantizeCommand, keeps_its_report_off_the_model) {
  const Folders folders;
  const std::string model = dense_model(folders), output = folders.nowhere(),
                    weights = model + "/model.safetensors",
                    before = bash("sha256sum '" + weights + "'").out;
  for (const std::string& report :
       {weights, output, output + "/model.safetensors", output + "/config.json"}) {
    for (const char* more : {"--dry-run", "--json"}) {
      const Outcome run = microscale(
          {"quantize", model, "-o", output, "--format", "nvfp4", "--report", report, more});
      EXPECT_EQ(run.code, 2) << report;
      EXPECT_NE(run.err.find("name another file"), std::string::npos) << run.err;
    }
  }
  EXPECT_EQ(bash("sha256sum '" + weights + "'").out, before);
  EXPECT_FALSE(std::filesystem::exists(output));
  const Outcome inside = microscale(
      {"quantize", model, "-o", output, "--format", "nvfp4", "--report", output + "/cost.html"});
  EXPECT_EQ(inside.code, 0) << inside.err;
  EXPECT_TRUE(std::filesystem::exists(output + "/cost.html"));
}

TEST(QuantizeCommand, refuses_a_method_that_is_none_or_has_no_statistics) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const auto refusal = [&](const std::vector<std::string>& options) {
    std::vector<std::string> words{"quantize", model,   "-o",       folders.nowhere(),
                                   "--format", "nvfp4", "--dry-run"};
    words.insert(words.end(), options.begin(), options.end());
    const Outcome run = microscale(words);
    EXPECT_EQ(run.code, 2) << run.err;
    return run.err;
  };
  EXPECT_NE(refusal({"--method", "best"}).find("one of auto, search, block-hessian, gptq"),
            std::string::npos);
  EXPECT_NE(refusal({"--method", "gptq"}).find("no effect without statistics"), std::string::npos);
  EXPECT_NE(refusal({"--damping", "a"}).find("--damping got 'a'"), std::string::npos);
}

TEST(QuantizeCommand, refuses_a_nan_and_takes_the_mended_model_into_the_same_folder) {
  const Folders folders;
  SmallModel model;
  model.add_floats("a.o_proj.weight", {16, 32}, std::vector<float>(16 * 32, NAN));
  model.write(folders.dense());
  const std::vector<std::string> words = {"quantize",        folders.dense(), "-o",
                                          folders.nowhere(), "--format",      "nvfp4"};
  EXPECT_EQ(microscale(words).code, 3);
  model.add_floats("a.o_proj.weight", {16, 32}, std::vector<float>(16 * 32, 1.0f));
  model.write(folders.dense());
  EXPECT_EQ(microscale(words).code, 0);
}

TEST(QuantizeCommand, ends_with_the_code_of_what_is_wrong) {
  const Folders folders;
  const std::string model = dense_model(folders);
  const auto code = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"quantize", model};
    words.insert(words.end(), more.begin(), more.end());
    return microscale(words).code;
  };
  EXPECT_EQ(code({"-o", folders.nowhere()}), 2);                        // no format
  EXPECT_EQ(code({"-o", folders.nowhere(), "--format", "nvpf4"}), 2);   // unknown
  EXPECT_EQ(code({"-o", folders.nowhere(), "--format", "mxint8"}), 2);  // no container
  EXPECT_EQ(code({"-o", model, "--format", "nvfp4"}), 2);               // output is input
  EXPECT_EQ(
      microscale({"quantize", folders.quantized(), "-o", folders.nowhere(), "--format", "nvfp4"})
          .code,
      3);
  EXPECT_FALSE(std::filesystem::exists(folders.nowhere()));
}

}  // namespace
}  // namespace microscale::testing
