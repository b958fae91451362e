// The kernels for some rows of a as assembled for Hopper: a warp tells the copying one that it has
// read a stage only when what it read has come, which is when an instruction has used it. Reads
// that have merely been asked for are overtaken by that message.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "sass/disassemble.hpp"

namespace microscale::testing {
namespace {

/// The first register among operands, without what says how it is used.
std::string first_register(const std::string& operands) {
  return operands.substr(0, operands.find_first_of(", ."));
}
/// Whether `name`, the first of four registers that ldmatrix writes, or the third is an operand.
bool uses(const std::string& operands, const std::string& name) {
  const std::size_t first = operands.find(',');  // behind it: what is read
  const auto has = [&](const std::string& each) {
    for (std::size_t at = operands.find(each, first); at != operands.npos;
         at = operands.find(each, at + 1)) {
      const char behind = at + each.size() < operands.size() ? operands[at + each.size()] : ',';
      const bool uniform = at > 0 && operands[at - 1] == 'U';
      if (!uniform && (behind < '0' || behind > '9')) return true;
    }
    return false;
  };
  return has(name) || has("R" + std::to_string(std::stoi(name.substr(1)) + 2));
}

TEST(WideProductSass, frees_a_stage_when_what_was_read_has_been_used) {
  if (cuda::kernel_images().empty()) GTEST_SKIP() << "built without nvcc: no kernels to look at";
  ASSERT_FALSE(sass::find_nvdisasm().empty()) << sass::nvdisasm_advice();
  int stages = 0;
  for (const cuda::KernelImage& image : cuda::kernel_images()) {
    if (!image.file.starts_with("matmul_in_registers_")) continue;
    for (const sass::Function& kernel : sass::disassemble(image.cubin.bytes()).functions) {
      if (!kernel.name.ends_with("_256x16")) continue;
      std::set<std::string> unused;  // of ldmatrix
      bool any = false;
      for (const sass::Instruction& each : kernel.code) {
        if (each.base() == "LDSM")
          unused.insert(first_register(each.operands)), any = true;
        else
          std::erase_if(unused, [&](const std::string& r) { return uses(each.operands, r); });
        if (each.opcode.starts_with("SYNCS.ARRIVE") && any) {
          EXPECT_TRUE(unused.empty()) << kernel.name << " at " << each.address << ": "
                                      << (unused.empty() ? "" : *unused.begin());
          ++stages;
          any = false;
        }
      }
    }
  }
  EXPECT_GE(stages, 10);
}

}  // namespace
}  // namespace microscale::testing
