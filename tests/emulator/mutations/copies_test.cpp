// Faults in kernels that move data: a tiled transpose, a cp.async pipeline, a ring of bulk copies.
#include <numeric>

#include "emulator/mutations/mutation.hpp"

namespace microscale::emulator::mutations {
namespace {

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

Trial run_transpose(const std::string& text, const LaunchOptions& options) {
  constexpr std::uint32_t rows = 70, columns = 45;
  Memory memory;
  const std::vector<float> input = counted(rows * columns);
  const std::uint64_t in = upload(memory, input),
                      out = upload(memory, std::vector<float>(rows * columns, -1.0f));
  Trial trial = run_text(memory, text, request_for("transpose", {2, 3, 1}, {32, 8, 1}), options,
                         [&] { return arguments(in, out, rows, columns); });
  const auto result = download<float>(memory, out, rows * columns);
  bool equal = true;
  for (std::size_t i = 0; i < rows * columns; ++i)
    equal &= result[i % columns * rows + i / columns] == input[i];
  note(trial, equal, "the transpose");
  return trial;
}

Trial run_chunks(const char* kernel, std::size_t chunk, float factor, const std::string& text,
                 const LaunchOptions& options) {
  constexpr std::uint32_t chunks = 7;
  Memory memory;
  const std::vector<float> input = counted(chunks * chunk);
  const std::uint64_t in = upload(memory, input),
                      out = upload(memory, std::vector<float>(input.size(), -1.0f));
  const auto threads = static_cast<std::uint32_t>(chunk == 256 ? 64 : 128);
  Trial trial = run_text(memory, text, request_for(kernel, {1, 1, 1}, {threads, 1, 1}), options,
                         [&] { return arguments(in, out, chunks); });
  const auto result = download<float>(memory, out, input.size());
  bool equal = true;
  for (std::size_t i = 0; i < input.size(); ++i)
    equal &= result[i] == factor * input[i / chunk * chunk + chunk - 1 - i % chunk];
  note(trial, equal, "the reversed chunks");
  return trial;
}

Trial run_copy_ring(const std::string& text, const LaunchOptions& options) {
  return run_chunks("reverse_chunks", 256, 1, text, options);
}
Trial run_bulk_ring(const std::string& text, const LaunchOptions& options) {
  return run_chunks("double_chunks", 128, 2, text, options);
}

constexpr Kernel transpose{"transpose.ptx", run_transpose},
    copy_ring{"copy_ring.ptx", run_copy_ring}, bulk_ring{"bulk_ring.ptx", run_bulk_ring};

using enum FindingKind;

constexpr Fault transpose_faults[] = {
    {"transpose: __syncthreads dropped", "bar.sync \t0;", "", finding(race, "st.shared.f32")},
    {"transpose: no guard against the last column of the input", "setp.ge.u32 \t%p3, %r6, %r30;",
     "setp.ge.u32 \t%p3, %r6, 64;", finding(out_of_bounds, "ld.global.f32")},
    {"transpose: no guard against the last row of the output", "setp.ge.u32 \t%p8, %r20, %r29;",
     "setp.ge.u32 \t%p8, %r20, 96;", finding(out_of_bounds, "st.global.f32")},
    {"transpose: half of the tile is not loaded", "add.s32 \t%r53, %r53, 8;",
     "add.s32 \t%r53, %r53, 24;", finding(uninitialised_memory, "ld.shared.f32")},
    {"transpose: the tile is read row by row", "mad.lo.s32 \t%r43, %r41, 132, %r42;",
     "mad.lo.s32 \t%r43, %r41, 128, %r42;", check("the transpose")},
};

constexpr Fault copy_faults[] = {
    {"cp.async: wait dropped", "cp.async.wait_group 1;  // the chunk before", "",
     finding(missing_wait, "ld.shared.v4.f32")},
    {"cp.async: waits for one group too few", "cp.async.wait_group 0;  // the last chunk",
     "cp.async.wait_group 1;", finding(missing_wait, "ld.shared.v4.f32")},
    {"cp.async: __syncthreads after the wait dropped", "bar.sync 0;  // everybody's part is here",
     "", finding(missing_wait, "ld.shared.v4.f32")},
    {"cp.async: __syncthreads before the stage is filled again dropped",
     "bar.sync 0;  // everybody has read", "", finding(race, "cp.async.cg.shared.global")},
    {"cp.async: a vector load 4 bytes off", "{%f1, %f2, %f3, %f4}, [%r26]",
     "{%f1, %f2, %f3, %f4}, [%r26+4]", finding(misaligned, "ld.shared.v4.f32")},
    {"cp.async: the stages are one", "and.b32  \t%r16, %r15, 1024;", "and.b32  \t%r16, %r15, 0;",
     check("the reversed chunks")},
};

constexpr Fault bulk_faults[] = {
    {"bulk copy: mbarrier wait dropped",
     "mbarrier.try_wait.parity.shared::cta.b64 done, [%r18], %r19;  // the chunk has landed",
     "setp.eq.u32 done, %r19, %r19;", finding(missing_wait, "ld.shared.f32")},
    {"bulk copy: waits with the other parity", "done, [%r18], %r19;", "done, [%r18], 1;",
     finding(missing_wait, "ld.shared.f32")},
    {"bulk copy: proxy fence after writing the result dropped",
     "fence.proxy.async.shared::cta;  // the result", "",
     finding(missing_fence, "cp.async.bulk.global.shared::cta.bulk_group")},
    {"bulk copy: proxy fence after making the mbarriers dropped",
     "fence.proxy.async.shared::cta;  // the mbarriers", "",
     finding(missing_fence, "cp.async.bulk.shared::cta.global")},
    {"bulk copy: no __syncthreads after the mbarriers are made",
     "bar.sync 0;  // the mbarriers stand", "", finding(race, "mbarrier.try_wait")},
    {"bulk copy: the stage is filled again while others read",
     "bar.sync 0;  // the stage is read, the result free", "",
     finding(race, "cp.async.bulk.shared::cta.global")},
    {"bulk copy: the result is sent before all have written", "bar.sync 0;  // the result is whole",
     "", finding(race, "cp.async.bulk.global.shared::cta.bulk_group")},
    {"bulk copy: the result changes while it is sent",
     "cp.async.bulk.wait_group.read 0;  // the result may change", "",
     finding(missing_wait, "st.shared.f32")},
    {"bulk copy: the mbarrier awaits two arrivals", "[%r9], 1;  // first", "[%r9], 2;",
     finding(deadlock, "mbarrier.try_wait"), "1 arrivals and 0 bytes to come"},
    {"bulk copy: 520 bytes expected", "arrive.expect_tx.shared::cta.b64 _, [%r1], 512;",
     "arrive.expect_tx.shared::cta.b64 _, [%r1], 520;", finding(deadlock, "mbarrier.try_wait"),
     "0 arrivals and 8 bytes to come"},
    {"bulk copy: a size that is no multiple of 16", "[%rd1], 512, [%r1];", "[%rd1], 508, [%r1];",
     finding(misuse, "cp.async.bulk.shared::cta.global")},
};

TEST(Mutations, transpose_is_clean) { expect_clean(transpose); }
TEST(Mutations, transpose_faults_are_named) { expect_caught(transpose, transpose_faults); }
TEST(Mutations, cp_async_ring_is_clean) { expect_clean(copy_ring); }
TEST(Mutations, cp_async_ring_faults_are_named) { expect_caught(copy_ring, copy_faults); }
TEST(Mutations, bulk_ring_is_clean) { expect_clean(bulk_ring); }
TEST(Mutations, bulk_ring_faults_are_named) { expect_caught(bulk_ring, bulk_faults); }

}  // namespace
}  // namespace microscale::emulator::mutations
