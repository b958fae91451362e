// repack_to_containers and back: checks, and on the host the repacking, four codes at a time.
#include "microscale/container.hpp"

#include <algorithm>
#include <cstring>

#include "core/threads.hpp"
#include "layouts/container.hpp"
#include "ops/check.hpp"
#include "ops/operand_memory.hpp"
#include "seam/gpu_operations.hpp"

namespace microscale {
namespace {

constexpr std::int64_t run_bytes = 256 * 1024;  // packed, of one work item; even

// `code_bytes` packed bytes at a time; run(first, count) for each piece.
template <class Run>
void in_runs(std::int64_t code_bytes, int threads, Run&& run) {
  parallel_for((code_bytes + run_bytes - 1) / run_bytes, threads, [&](std::int64_t item) {
    const std::int64_t first = item * run_bytes;
    run(first, std::min(run_bytes, code_bytes - first));
  });
}

void pack_run(const std::uint8_t* codes, std::int64_t count, std::uint8_t* containers) {
  std::int64_t i = 0;
  for (; i + 2 <= count; i += 2) {
    std::uint16_t four;
    std::memcpy(&four, codes + i, 2);
    const std::uint32_t bytes = container::pack4(four);
    std::memcpy(containers + 2 * i, &bytes, 4);
  }
  if (i == count) return;
  containers[2 * i] = container::pack(codes[i]);
  containers[2 * i + 1] = container::pack(static_cast<std::uint8_t>(codes[i] >> 4));
}

void unpack_run(const std::uint8_t* containers, std::int64_t count, std::uint8_t* codes) {
  std::int64_t i = 0;
  for (; i + 2 <= count; i += 2) {
    std::uint32_t bytes;
    std::memcpy(&bytes, containers + 2 * i, 4);
    const auto four = static_cast<std::uint16_t>(container::unpack4(bytes));
    std::memcpy(codes + i, &four, 2);
  }
  if (i == count) return;
  codes[i] = static_cast<std::uint8_t>(container::unpack(containers[2 * i]) |
                                       container::unpack(containers[2 * i + 1]) << 4);
}

}  // namespace

void repack_to_containers(const ContainerOptions& o, const Context& context) {
  const auto count = static_cast<std::int64_t>(o.input.size());
  check_bytes("repack_to_containers", "containers", static_cast<std::int64_t>(o.output.size()),
              2 * count);
  if (runs_on_device("repack_to_containers", context,
                     {{"the input", o.memory, {o.input.data()}},
                      {"the output", o.memory, {o.output.data()}}})) {
    gpu_operations("repack_to_containers")
        .repack_containers(o.input.data(), o.output.data(), count, true, context.stream);
    return;
  }
  in_runs(count, context.threads, [&](std::int64_t first, std::int64_t bytes) {
    pack_run(o.input.data() + first, bytes, o.output.data() + 2 * first);
  });
}

void repack_from_containers(const ContainerOptions& o, const Context& context) {
  const auto count = static_cast<std::int64_t>(o.output.size());
  check_bytes("repack_from_containers", "containers", static_cast<std::int64_t>(o.input.size()),
              2 * count);
  if (runs_on_device("repack_from_containers", context,
                     {{"the input", o.memory, {o.input.data()}},
                      {"the output", o.memory, {o.output.data()}}})) {
    gpu_operations("repack_from_containers")
        .repack_containers(o.input.data(), o.output.data(), count, false, context.stream);
    return;
  }
  in_runs(count, context.threads, [&](std::int64_t first, std::int64_t bytes) {
    unpack_run(o.input.data() + 2 * first, bytes, o.output.data() + first);
  });
}

}  // namespace microscale
