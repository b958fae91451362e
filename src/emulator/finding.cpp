#include "emulator/finding.hpp"

#include "emulator/kernel_name.hpp"
#include "emulator/memory/access.hpp"

#include <fmt/format.h>

namespace microscale::emulator {

const char* name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::uninitialised_register:
      return "uninitialised-register";
    case FindingKind::uninitialised_memory:
      return "uninitialised-memory";
    case FindingKind::out_of_bounds:
      return "out-of-bounds";
    case FindingKind::misaligned:
      return "misaligned";
    case FindingKind::absent_block:
      return "absent-block";
    case FindingKind::race:
      return "race";
    case FindingKind::missing_wait:
      return "missing-wait";
    case FindingKind::missing_fence:
      return "missing-fence";
    case FindingKind::divergent_aligned:
      return "divergent-aligned";
    case FindingKind::bad_selector:
      return "bad-selector";
    case FindingKind::padding:
      return "padding";
    case FindingKind::deadlock:
      return "deadlock";
    case FindingKind::endless:
      return "endless";
    case FindingKind::misuse:
      return "misuse";
    case FindingKind::assertion:
      return "assertion";
  }
  return "unknown";
}

AddressSpace space_of(const Finding& finding) {
  if (finding.address == 0) return AddressSpace::none;
  const std::uint64_t window = finding.address & window_mask;
  return window == 0               ? AddressSpace::global
         : window == shared_window ? AddressSpace::shared
         : window == local_window  ? AddressSpace::local
         : window == tensor_window ? AddressSpace::tensor
                                   : AddressSpace::other;
}

namespace {

/// Of tensor memory; "" where nothing is special there.
std::string tensor_words(FindingKind kind) {
  switch (kind) {
    case FindingKind::uninitialised_memory:
      return "tensor memory is read where no product, copy or store has written";
    case FindingKind::out_of_bounds:
      return "columns of tensor memory are used that were not allocated, or no longer are";
    case FindingKind::missing_wait:
      return "a product, copy, load or store of tensor memory is still under way";
    case FindingKind::missing_fence:
      return "nothing orders the tensor memory accesses of the two threads, though they have met";
    default:
      return "";
  }
}

std::string tensor_cure(FindingKind kind) {
  switch (kind) {
    case FindingKind::uninitialised_memory:
      return "copy the scales of every row and step (tcgen05.cp), and let the first product of a "
             "tile not accumulate";
    case FindingKind::out_of_bounds:
      return "add up the columns that the kernel uses, begin at the address that tcgen05.alloc "
             "wrote, and give them back last";
    case FindingKind::missing_wait:
      return "wait at the mbarrier of a tcgen05.commit behind the product or copy; behind loads "
             "and "
             "stores, tcgen05.wait::ld or ::st in the warp that made them, and a barrier";
    case FindingKind::missing_fence:
      return "put tcgen05.fence::before_thread_sync before the barrier in the one thread, and "
             "tcgen05.fence::after_thread_sync behind it in the other";
    default:
      return "";
  }
}

}  // namespace

std::string cuda_words(const Finding& finding) {
  if (space_of(finding) == AddressSpace::tensor)
    if (std::string words = tensor_words(finding.kind); !words.empty()) return words;
  const bool shared = space_of(finding) == AddressSpace::shared;
  switch (finding.kind) {
    case FindingKind::uninitialised_register:
      return "a variable is used before it has a value";
    case FindingKind::uninitialised_memory:
      return shared ? "a __shared__ array is read where no thread has written"
                    : "memory is read that neither the host nor a kernel has written";
    case FindingKind::out_of_bounds:
      return "an index or a pointer leaves its array";
    case FindingKind::misaligned:
      return "a vector access (float4, int2, ...) begins at an address that is no multiple of its "
             "size";
    case FindingKind::absent_block:
      return "a block of the cluster may have ended, or not begun, when its shared memory is used";
    case FindingKind::race:
      return shared ? "two threads of a block use the same __shared__ element, one of them writes, "
                      "and no __syncthreads() stands between"
                    : "two threads use the same element in global memory, one of them writes, and "
                      "nothing orders them";
    case FindingKind::missing_wait:
      return "an asynchronous copy or product is still under way when its data are used";
    case FindingKind::missing_fence:
      return "ordinary stores are read by the copy engine or the tensor cores, which need not see "
             "them yet";
    case FindingKind::divergent_aligned:
      return "a warp- or block-wide call (__syncthreads, __shfl_sync, ...) is not reached by all "
             "threads that it names";
    case FindingKind::bad_selector:
      return "a scale selector or byte id of a matrix product names what is not there";
    case FindingKind::padding:
      return "bits that the format leaves empty are not zero";
    case FindingKind::deadlock:
      return "every thread waits for another";
    case FindingKind::endless:
      return "the kernel does not end";
    case FindingKind::misuse:
      return "the instruction is not allowed with these operands";
    case FindingKind::assertion:
      return "an assert() of the kernel failed";
  }
  return "";
}

std::string cure_of(const Finding& finding) {
  if (space_of(finding) == AddressSpace::tensor)
    if (std::string cure = tensor_cure(finding.kind); !cure.empty()) return cure;
  const bool shared = space_of(finding) == AddressSpace::shared;
  switch (finding.kind) {
    case FindingKind::uninitialised_register:
      return "give the variable a value on every path to this line";
    case FindingKind::uninitialised_memory:
      return shared
                 ? "fill the array, padding included, and put __syncthreads() before this read"
                 : "fill the buffer before the launch (cudaMemset, an input array), or read only "
                   "what was written";
    case FindingKind::out_of_bounds:
      return "compare the index with the size before the access (if (i < n)), or round the buffer "
             "up to what the grid covers";
    case FindingKind::misaligned:
      return "make the index a multiple of the vector's elements and the row's stride as well, or "
             "use scalar accesses";
    case FindingKind::absent_block:
      return "put cluster.sync() behind the start and before the end of every block";
    case FindingKind::race:
      return finding.message.find("no release and acquire") == std::string::npos
                 ? "put __syncthreads() (or __syncwarp(), where both are in one warp) between the "
                   "two lines"
                 : "use atomics, a __threadfence() with a flag, separate elements, or two launches";
    case FindingKind::missing_wait:
      return "wait before this line: __pipeline_wait_prior and __syncthreads(), the mbarrier's "
             "phase (of products out of tensor memory, behind tcgen05.commit), or wgmma's "
             "wait_group; and count the stages in flight again";
    case FindingKind::missing_fence:
      return "put fence.proxy.async between the stores and the copy or product";
    case FindingKind::divergent_aligned:
      return "move the call out of the branch, or give it the mask of the threads that come";
    case FindingKind::bad_selector:
      return "see the table of selectors of the instruction in the PTX manual";
    case FindingKind::padding:
      return "clear the unused bits before the product";
    case FindingKind::deadlock:
      return "let every thread that a barrier counts come to it, and as often";
    case FindingKind::endless:
      return "look for a loop whose condition no other thread changes; --budget allows more "
             "instructions";
    case FindingKind::misuse:
      return "see the instruction in the PTX manual";
    case FindingKind::assertion:
      return "the condition tells what did not hold";
  }
  return "";
}

std::string with_call(const std::string& source, const std::string& inlined_at) {
  return inlined_at.empty() ? source : fmt::format("{}, inlined at {}", source, inlined_at);
}

std::string to_sentence(const Finding& finding) {
  const auto triple = [](const std::uint32_t(&of)[3]) {
    return fmt::format("({},{},{})", of[0], of[1], of[2]);
  };
  std::string text = fmt::format("{}: kernel {}, block {}, thread {}, PTX line {}",
                                 name_of(finding.kind), readable_name(finding.kernel),
                                 triple(finding.block), triple(finding.thread), finding.ptx_line);
  if (!finding.source.empty())
    text += fmt::format(" ({})", with_call(finding.source, finding.inlined_at));
  text += ": " + finding.message;
  if (!finding.object.empty()) text += fmt::format(" [{}]", finding.object);
  if (finding.count > 1) text += fmt::format(" ({} times)", finding.count);
  return text;
}

}  // namespace microscale::emulator
