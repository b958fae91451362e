// Faults sown one by one into the shipped products out of tensor memory: a wait, a fence, an
// arrival or a copy less, or another address. The emulator names each; what is legal but computes
// something else gives another d.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/block_scaled_products.hpp"

namespace microscale::emulator {
namespace {

using cuda::tcgen05::TileShape;
using test::Matrix, test::ProductCase, test::random_blocks;

/// In a kernel's PTX an instruction that begins with `opcode` stands `count` times; number `which`
/// of them becomes `text`, or its operand `operand` more by `more`.
struct Fault {
  std::string_view name;
  TileShape shape;
  std::string_view opcode;
  int count, which;
  std::string_view text;
  FindingKind caught;
  bool wrong = false;  // legal: no finding, but another d
  int operand = -1;
  std::uint64_t more = 0;
};

constexpr TileShape narrow = cuda::tcgen05::narrow, paired = cuda::tcgen05::paired;
constexpr std::string_view try_wait = "mbarrier.try_wait.parity.shared::cta.b64",
                           cluster_wait = "mbarrier.try_wait.parity.acquire.cluster",
                           go_on = "setp.eq.u32 p, 0, 0;",
                           after = "tcgen05.fence::after_thread_sync",
                           before = "tcgen05.fence::before_thread_sync", mma = "tcgen05.mma",
                           cp = "tcgen05.cp", ld = "tcgen05.ld",
                           tell = "mbarrier.arrive.release.cluster";

using enum FindingKind;
constexpr Fault faults[] = {
    {"copies do not wait for a stage to be empty", narrow, try_wait, 6, 0, go_on, missing_wait},
    {"products do not wait for their sums' place", narrow, try_wait, 6, 2, go_on, missing_wait},
    {"products do not wait for their stage", narrow, try_wait, 6, 3, go_on, uninitialised_memory},
    {"sums are taken before they are made", narrow, try_wait, 6, 5, go_on, missing_wait},
    {"no fence behind the wait for sums", narrow, after, 5, 4, "", missing_fence},
    {"no fence before the sums' place is given back", narrow, before, 3, 2, "", missing_fence},
    {"sums are used before they are there", narrow, "tcgen05.wait::ld", 1, 0, "", missing_wait},
    {"nobody is told that a stage is empty", narrow, "tcgen05.commit", 2, 0, "", deadlock},
    {"nobody is told that sums are made", narrow, "tcgen05.commit", 2, 1, "", deadlock},
    {"nobody is told that sums are taken", narrow, "mbarrier.arrive.shared", 1, 0, "", deadlock},
    {"tensor memory is not given back", narrow, "tcgen05.dealloc", 1, 0, "", misuse},
    {"mbarriers are not shown to the copy engine", narrow, "fence.mbarrier_init", 1, 0, "",
     missing_fence},
    {"roles begin before mbarriers are made", narrow, "bar.sync", 2, 0, "", race},
    {"a stage expects 16 bytes more", narrow, "mbarrier.arrive.expect_tx", 1, 0, "", deadlock,
     false, 1, 16},
    {"scales of a are not brought", narrow, "cp.async.bulk.shared", 2, 0, "", deadlock},
    {"scales of the weights are not copied", narrow, cp, 8, 1, "", uninitialised_memory},
    {"scales of a go a row of tiles too far", narrow, cp, 8, 0, "", uninitialised_memory, false, 0,
     32},
    {"a step along k is left out of a's address", narrow, mma, 4, 1, "", misuse, true, 1,
     static_cast<std::uint64_t>(-2)},
    {"a's rows are read with another swizzle", narrow, mma, 4, 0, "", misuse, true, 1,
     std::uint64_t{1} << 62},
    {"a begins beyond shared memory", narrow, mma, 4, 0, "", out_of_bounds, false, 1, 0x1000},
    {"a's scales begin beyond tensor memory", narrow, mma, 4, 0, "", out_of_bounds, false, 4, 512},
    {"sums go eight columns further", narrow, mma, 4, 0, "", uninitialised_memory, false, 0, 8},
    {"scales begin with the second byte", narrow, mma, 4, 0, "", bad_selector, false, 3, 1u << 29},
    {"scales are UE8M0", narrow, mma, 4, 0, "", misuse, true, 3, 1u << 23},
    {"a warp reads the next one's lanes", narrow, ld, 1, 0, "", misuse, false, -2, 32u << 16},
    {"a warp reads columns that are none", narrow, ld, 1, 0, "", out_of_bounds, false, -2, 480},
    {"the second block says too early that its part is there", paired, try_wait, 5, 2, go_on,
     missing_wait},
    {"the first block does not ask whether the other's part is there", paired, cluster_wait, 3, 1,
     go_on, missing_wait},
    {"the second block's part is never there", paired, tell, 3, 0, "", deadlock},
    {"sums of a pair are taken before they are made", paired, cluster_wait, 3, 2, go_on,
     missing_wait},
    {"a pair's sums are never taken", paired, tell, 3, 2, "", deadlock},
    {"a pair's products do not wait for their sums' place", paired, cluster_wait, 3, 0, go_on,
     missing_wait},
};

/// The one instruction a fault is about, with the fault in it.
class FaultyDevice final : public EmulatorDevice {
 public:
  FaultyDevice() : EmulatorDevice(10, 0, {.instruction_budget = 200'000'000}, 2) {}
  cuda::Module load_image(const cuda::KernelImage& image) override {
    if (fault == nullptr || image.file != "matmul_tcgen05_nvfp4")
      return EmulatorDevice::load_image(image);
    const auto bytes = image.ptx.bytes();
    const std::string text =
        with_fault({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    return load_module({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }

  const Fault* fault = nullptr;

 private:
  /// The kernel alone.
  std::string with_fault(std::string_view all) const {
    const std::string entry = ".visible .entry matmul_tcgen05_nvfp4_nvfp4_" +
                              std::to_string(fault->shape.rows) + "x" +
                              std::to_string(fault->shape.columns) + "(";
    const std::size_t first = all.find(".visible .entry"), begin = all.find(entry),
                      end = all.find(".visible .entry", begin + 1);
    std::string text(all.substr(0, first));
    int found = 0;
    std::size_t at = begin;
    for (std::size_t next; at < std::min(end, all.size()); at = next) {
      next = std::min(all.find('\n', at) + 1, all.size());
      std::string line(all.substr(at, next - at));
      if (const std::size_t opcode = line.find(fault->opcode);
          opcode != line.npos && line.find_first_not_of(" \t") == opcode && found++ == fault->which)
        line = (fault->more != 0 ? with_more(line) : std::string(fault->text)) + "\n";
      text += line;
    }
    EXPECT_EQ(found, fault->count) << fault->opcode;
    return text;
  }

  /// The instruction with a register of more in place of one of its operands, which are counted
  /// from 0, -2 being the last.
  std::string with_more(const std::string& line) const {
    std::vector<std::pair<std::size_t, std::size_t>> registers;  // where each begins and ends
    int braces = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      braces += line[i] == '{' ? 1 : line[i] == '}' ? -1 : 0;
      const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789", i + 1);
      if (braces == 0 && line[i] == '%') registers.push_back({i, end});
    }
    const auto [first, end] = fault->operand < 0
                                  ? registers.back()
                                  : registers.at(static_cast<std::size_t>(fault->operand));
    const std::string name = line.substr(first, end - first), bits = name[2] == 'd' ? "64" : "32";
    return "{ .reg .b" + bits + " other; add.u" + bits + " other, " + name + ", " +
           std::to_string(fault->more) + "; " + line.substr(0, first) + "other" +
           line.substr(end, line.find(';') + 1 - end) + " }";
  }
};

ProductCase case_for(TileShape shape) {
  // Three tiles for each block, so that each set of sums is used twice, and stages likewise.
  const std::int64_t n = shape == narrow ? 260 : 520, k = 3 * 256 + 64;
  ProductCase c{.a = random_blocks(Format::nvfp4, 140, k, Layout::row_major, 1),
                .b = random_blocks(Format::nvfp4, n, k, Layout::row_major, 2),
                .n = n};
  c.a_layout = c.b_layout = Layout::tiled_128x4;
  return c;
}

Matrix run(EmulatorDevice& gpu, TileShape shape) {
  return test::run_block_scaled(
      gpu, case_for(shape), [shape](cuda::Device& device, const cuda::Product& product) {
        cuda::tcgen05::run(device, cuda::tcgen05::plan_of(device.info(), product, shape), product,
                           nullptr, nullptr);
      });
}

/// Whether the fault was found as it must be; what was said.
bool is_caught(const Fault& fault, const std::vector<std::uint8_t>& right, std::string& said) {
  for (const Completion completion : {Completion::latest, Completion::random}) {
    FaultyDevice device;
    device.fault = &fault;
    device.options.completion = completion;
    device.options.seed = 3;
    bool other = false;
    try {
      other = run(device, fault.shape).bytes != right;
    } catch (const Error& error) {
      said += std::string(error.what()) + "\n";
    }
    for (const Finding& each : device.last_report.findings) {
      said += to_sentence(each) + "\n";
      if (!fault.wrong && each.kind == fault.caught) return true;
    }
    if (fault.wrong && other && device.last_report.findings.empty()) return true;
  }
  return false;
}

TEST(TensorProductFaults, are_each_caught_by_name) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  FaultyDevice good;
  const std::vector<std::uint8_t> right[] = {run(good, narrow).bytes, run(good, paired).bytes};
  for (const Fault& fault : faults) {
    std::string said;
    EXPECT_TRUE(is_caught(fault, right[fault.shape == paired], said))
        << fault.name << ": " << (said.empty() ? "nothing was found" : said);
  }
}

}  // namespace
}  // namespace microscale::emulator
