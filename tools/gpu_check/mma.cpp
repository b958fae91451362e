// Every matrix instruction of a Hopper GPU against the emulator's arithmetic (instructions.hpp).
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "cuda/device/device.hpp"
#include "instructions.hpp"
#include "support/mma_kernels.hpp"
#include "support/mma_replay.hpp"

namespace microscale::cuda {
namespace {

namespace tensor = emulator::tensor;
using Words = std::vector<std::uint32_t>;

struct Options {
  std::string cubin, raw, golden;
  int rounds = 1;
};

/// One kernel: how its cases are made, and what the model makes of them.
struct Subject {
  std::string name;
  int threads = 0, case_words = 0, result_words = 0, cases = 0;  // cases of each spread and round
  std::function<Words(testing::Spread, std::uint64_t)> make;
  std::function<Words(const Words&)> model;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const tensor::MmaShape& shape : testing::hopper_mma_shapes()) {
    const int results = result_registers(shape, shape.d);
    all.push_back(
        {testing::kernel_name(shape), 32, 32 * (a_registers(shape) + b_registers(shape) + results),
         32 * results, testing::mma_golden_cases,
         [shape](testing::Spread s, std::uint64_t seed) { return mma_case(shape, s, seed); },
         [shape](const Words& w) {
           return testing::model_mma(shape, tensor::Generation::hopper, w);
         }});
  }
  for (const testing::WgmmaVariant& v : testing::hopper_wgmma_variants())
    all.push_back({v.name, 128, wgmma_case_words(v), 128 * v.shape.d_registers(),
                   testing::wgmma_golden_cases,
                   [v](testing::Spread s, std::uint64_t seed) { return wgmma_case(v, s, seed); },
                   [v](const Words& w) { return testing::model_wgmma(v, w); }});
  return all;
}

class Checker {
 public:
  explicit Checker(const Options& options) : options_(options), device_(runtime_device()) {
    const std::vector<char> image = options.cubin.empty() ? text() : contents(options.cubin);
    module_ =
        device_.load_module({reinterpret_cast<const std::uint8_t*>(image.data()), image.size()});
  }

  /// Words that differ.
  std::int64_t check(const Subject& subject) {
    std::int64_t different = 0, compared = 0;
    for (int spread = 0; spread < testing::spreads; ++spread) {
      std::int64_t wrong = 0;
      for (int round = 0; round < options_.rounds; ++round) {
        const Words got = execute(subject, spread, round);
        if (round == 0) keep(subject, spread, got);
        compared += static_cast<std::int64_t>(got.size());
        wrong += compare(subject, got);
      }
      if (wrong > 0)
        fmt::print("  {} {}: {} words differ\n{}", subject.name, testing::spread_names[spread],
                   wrong, example_);
      different += wrong;
    }
    fmt::print("{:<52}{:>12}{:>10}\n", subject.name, compared, different);
    return different;
  }

  const std::string& digests() const { return digests_; }

 private:
  static std::vector<char> text() {
    const std::string ptx = testing::hopper_module();
    return {ptx.c_str(), ptx.c_str() + ptx.size() + 1};
  }
  static std::vector<char> contents(const std::string& name) {
    std::ifstream file(name, std::ios::binary);
    std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.empty()) throw std::runtime_error("cannot read " + name);
    return bytes;
  }

  Words execute(const Subject& subject, int spread, int round) {
    cases_.clear();
    Words in;
    for (int i = 0; i < subject.cases; ++i) {
      cases_.push_back(subject.make(static_cast<testing::Spread>(spread),
                                    static_cast<std::uint64_t>(round * subject.cases + i)));
      in.insert(in.end(), cases_.back().begin(), cases_.back().end());
    }
    Words out(static_cast<std::size_t>(subject.result_words * subject.cases));
    const auto in_bytes = static_cast<std::int64_t>(4 * in.size());
    const auto out_bytes = static_cast<std::int64_t>(4 * out.size());
    void* from = device_.allocate(in_bytes);
    void* to = device_.allocate(out_bytes);
    device_.copy_to_device(from, in.data(), in_bytes, nullptr);
    device_.set_bytes(to, 0xA5, out_bytes, nullptr);
    const void* args[2] = {from, to};
    const Kernel kernel = device_.find_kernel(module_, subject.name.c_str());
    if (kernel == nullptr) throw std::runtime_error("no kernel " + subject.name);
    device_.launch({.kernel = kernel,
                    .grid = {static_cast<unsigned>(subject.cases)},
                    .threads = subject.threads,
                    .args = args,
                    .args_bytes = sizeof args});
    device_.copy_to_host(out.data(), to, out_bytes, nullptr);
    device_.synchronize(nullptr);
    device_.release(from);
    device_.release(to);
    return out;
  }

  std::int64_t compare(const Subject& subject, const Words& got) {
    std::atomic<std::int64_t> wrong{0};
    std::atomic<int> next{0};
    example_.clear();
    std::vector<std::string> examples(static_cast<std::size_t>(subject.cases));
    const auto work = [&] {
      for (int i = next++; i < subject.cases; i = next++) {
        const auto index = static_cast<std::size_t>(i);
        const Words wanted = subject.model(cases_[index]);
        const std::uint32_t* mine =
            got.data() + static_cast<std::size_t>(subject.result_words) * index;
        for (std::size_t w = 0; w < wanted.size(); ++w)
          if (mine[w] != wanted[w] && wrong++ < 3)
            examples[index] +=
                fmt::format("    case {} register {} thread {}: GPU {:08x} model {:08x}\n", i,
                            w / static_cast<std::size_t>(subject.threads),
                            w % static_cast<std::size_t>(subject.threads), mine[w], wanted[w]);
      }
    };
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
      threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : examples) example_ += text;
    return wrong;
  }

  void keep(const Subject& subject, int spread, const Words& got) {
    digests_ += fmt::format("{} {} {:016x}\n", subject.name, testing::spread_names[spread],
                            testing::digest(got.data(), got.size()));
    if (options_.raw.empty()) return;
    std::ofstream file(options_.raw + (subject.threads == 32 ? ".mma" : ".wgmma"),
                       std::ios::binary | std::ios::app);
    file.write(reinterpret_cast<const char*>(got.data()),
               static_cast<std::streamsize>(4 * got.size()));
  }

  const Options& options_;
  Device& device_;
  Module module_ = nullptr;
  std::vector<Words> cases_;
  std::string digests_, example_;
};

}  // namespace

int check_matrix_instructions(std::span<char*> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const char* value = i + 1 < words.size() ? words[i + 1] : "";
    if (word == "--ptx") {
      fmt::print("{}", testing::hopper_module());
      return 0;
    }
    if (word == "--raw") {
      options.raw = value, ++i;
    } else if (word == "--golden") {
      options.golden = value, ++i;
    } else if (word == "--rounds") {
      options.rounds = std::stoi(value), ++i;
    } else if (word.starts_with("-")) {
      fmt::print(stderr, "gpu_check mma has no option {}\n", word);
      return 2;
    } else {
      options.cubin = word;
    }
  }
  if (!is_hopper(runtime_device())) return 5;
  Checker checker(options);
  fmt::print("{:<52}{:>12}{:>10}\n", "instruction", "words", "different");
  std::int64_t different = 0;
  for (const Subject& subject : subjects()) different += checker.check(subject);
  fmt::print("{} words differ\n", different);
  if (!options.golden.empty()) std::ofstream(options.golden) << checker.digests();
  return different == 0 ? 0 : 1;
}

}  // namespace microscale::cuda
