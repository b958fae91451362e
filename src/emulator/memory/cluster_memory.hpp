// What the blocks of one cluster (usually a single block) see: every window, with every check.
// One host thread runs a cluster; several clusters run at once on their own objects.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emulator/memory/async.hpp"
#include "emulator/memory/launch_memory.hpp"
#include "emulator/memory/mbarrier.hpp"
#include "emulator/memory/reporter.hpp"
#include "emulator/memory/tensor_memory.hpp"
#include "emulator/memory/tensor_map.hpp"
#include "emulator/memory/touch.hpp"

namespace microscale::emulator {

struct ClusterShape {
  std::uint32_t blocks = 1;        // of a cluster
  std::uint32_t warps = 1;         // of a block
  std::uint64_t shared_bytes = 0;  // of a block: static and dynamic, and what is reserved
  std::uint64_t local_bytes = 0;   // of a thread
  // From here on shared memory is written, zeros, when a block begins.
  std::uint64_t zeros_from = ~std::uint64_t{0};
  bool tensor_memory = false;  // some instruction is tcgen05's
};

class ClusterMemory {
 public:
  ClusterMemory(LaunchMemory& launch, const ClusterShape& shape);

  /// Everything fresh for cluster `number` of the grid.
  void begin(std::uint32_t number);
  /// When its blocks have ended: lands what is still on its way, and reports copies that no thread
  /// waited for.
  void end();

  // Accesses. A lane whose address is out of bounds, misaligned or in no window is reported (fatal)
  // and left out: it loads zeros. Other findings do not change what happens.
  /// `undefined`: where bytes that nobody wrote are noted; null: they are a finding.
  void load(const Agent& agent, const WarpAccess& access, LaneWords& out,
            UndefinedBytes* undefined = nullptr);
  void store(const Agent& agent, const WarpAccess& access, const LaneWords& in);
  /// Lane by lane, lowest first. `compare` for cas only; `old` may be null (red). Values of 2 bytes
  /// are the low half of word[0].
  void atomic(const Agent& agent, const WarpAccess& access, AtomicOp op, AtomicType type,
              const LaneWords& operand, const LaneWords* compare, LaneWords* old);

  /// Copies bytes a lane names itself (ldmatrix rows): one row of `bytes` (a power
  /// of two up to 32) by lane `lane`. False after a fatal finding; `to` is zeros then.
  bool read_row(const Agent& agent, int lane, std::uint64_t address, int bytes, void* to);
  bool write_row(const Agent& agent, int lane, std::uint64_t address, int bytes, const void* from);

  // wgmma reads by a warpgroup: four warps of a block, whose first, its leader, is a multiple of 4.
  /// What this warp knows, for the reads of a wgmma that it has come to.
  const Knowledge& knowledge(const Agent& agent) { return warp_of(agent).know; }
  /// The reads that follow are of a wgmma of group `group` of this leader's warpgroup, whose warps
  /// all know `know`.
  void begin_matrix(const Agent& leader, const Knowledge& know, std::uint32_t group);
  /// 16 bytes of the block's shared memory, through the async proxy: a generic write that was not
  /// fenced by fence.proxy.async is a finding, and so is a later write by a thread that has not
  /// waited for the group. False after a fatal finding; `to` is zeros then.
  bool read_matrix(const Agent& leader, std::uint32_t address, std::uint8_t* to);

  // Tensor memory (tcgen05) of the block `rank`: cluster_tensor.cpp and tensor_memory.hpp.
  TensorMemory& tensor(std::uint32_t rank) { return tensors_[rank]; }
  /// The first column of `columns` in a row for the agent's warp; nothing where there are not so
  /// many for now, or where `pair` the other block of the pair has not come. The same columns in
  /// both blocks then.
  std::optional<std::uint32_t> tensor_allocate(const Agent& agent, std::uint32_t columns,
                                               bool pair);
  /// Whether those columns are one allocation, which then is none any more; a finding if not, or if
  /// something may still use them.
  bool tensor_free(const Agent& agent, std::uint32_t column, std::uint32_t columns);
  /// tcgen05.fence::before_thread_sync (`before`) and ::after_thread_sync.
  void tensor_fence(const Agent& agent, bool before);
  /// tcgen05.wait::ld (`loads`) and ::st of this warp.
  void tensor_wait(const Agent& agent, bool loads);
  /// 16 bytes of shared memory for a product or copy of tcgen05, as read_matrix; `address` generic.
  bool tensor_operand(const Agent& agent, int lane, std::uint64_t address, std::uint8_t* to);
  /// Looks at a rectangle that `kind` of work of this warp touches, and notes it: that its columns
  /// are allocated and, where they are read, written, and that what others do there is ordered.
  /// `what` names it ("the scales of A"); null: that some of it was never written is none. False
  /// after a fatal finding.
  bool tensor_touch(const Agent& agent, int lane, std::uint32_t rank, const TensorPart& part,
                    AsyncKind kind, Mode mode, const char* what);
  /// Whether all of a part was written since it was allocated.
  bool tensor_written(std::uint32_t rank, const TensorPart& part);
  /// After the pipeline's words of these parts were computed: they become visible when this work of
  /// the warp is done.
  void tensor_launch(const Agent& agent, std::uint32_t rank, std::span<const TensorPart> parts,
                     AsyncKind kind);
  /// tcgen05.commit: the mbarrier is told when all this warp has begun is done.
  void tensor_commit(const Agent& agent, int lane, std::uint64_t mbarrier);
  /// Behind the last tensor_commit of an instruction: what comes is of the next group.
  void tensor_commit_end(const Agent& agent);

  // Edges. `warps` are bits of warps of the block `rank`.
  /// bar.sync and the like, when complete. `arrived` came by bar.arrive and learn nothing.
  void on_barrier(std::uint32_t rank, std::uint64_t waited, std::uint64_t arrived = 0);
  /// barrier.cluster: a warp arrives, all have, a warp has waited. Only that gives it what those
  /// who arrived knew; of who arrived `relaxed`, what stood before a fence.
  void on_cluster_arrive(const Agent& agent, bool relaxed);
  void on_cluster_open();
  void on_cluster_wait(std::uint32_t rank, std::uint32_t warp);
  /// All threads of block `rank`, number `block` in the grid, have ended, and so has its memory:
  /// reports accesses of other blocks that need not have come before.
  void on_block_end(std::uint32_t rank, std::uint32_t block);
  /// bar.warp.sync of any mask.
  void on_warp_sync(const Agent& agent);
  /// fence / membar of any order that is at least acq_rel.
  void on_fence(const Agent& agent, MemoryScope scope);
  /// fence.proxy.async.
  void on_proxy_fence(const Agent& agent);

  // mbarrier objects; per lane. `state` is what arrive returned.
  void mbarrier_init(const Agent& agent, int lane, std::uint64_t address, std::uint32_t count);
  void mbarrier_invalidate(const Agent& agent, int lane, std::uint64_t address);
  /// expect_tx of `transaction_bytes` (may be 0), then arrives `count` times (may be 0: expect_tx
  /// only).
  std::uint64_t mbarrier_arrive(const Agent& agent, int lane, std::uint64_t address,
                                std::uint32_t count, std::uint64_t transaction_bytes = 0);
  /// complete_tx by the program itself.
  void mbarrier_complete(const Agent& agent, int lane, std::uint64_t address, std::uint64_t bytes);
  /// test_wait and try_wait alike; may land copies, as the policy says.
  bool mbarrier_test(const Agent& agent, int lane, std::uint64_t address, std::uint64_t state);
  bool mbarrier_test_parity(const Agent& agent, int lane, std::uint64_t address,
                            std::uint32_t parity);

  /// "the mbarrier at 0x..: 1 arrivals and 0 bytes to come", for a report.
  std::string describe_mbarrier(const Agent& agent, std::uint64_t address) const;

  // Asynchronous copies.
  /// cp.async: `destination` in shared memory, 4, 8 or 16 bytes a lane; `source_bytes` (32 of them,
  /// or null: all) come from the source, zeros follow.
  void cp_async(const Agent& agent, const WarpAccess& destination, const std::uint64_t* source,
                const std::uint32_t* source_bytes);
  /// cp.async.mbarrier.arrive: arrives once when this warp's earlier cp.async have landed. With
  /// `increment` (no .noinc) the pending count was raised first.
  void cp_async_mbarrier_arrive(const Agent& agent, int lane, std::uint64_t address,
                                bool increment);
  /// cp.async.bulk with completion at an mbarrier, or (mbarrier 0) in the warp's bulk group. Global
  /// to shared, shared to global, shared to a peer's shared.
  void bulk_copy(const Agent& agent, int lane, std::uint64_t destination, std::uint64_t source,
                 std::uint64_t bytes, std::uint64_t mbarrier);
  /// st.async: `to.bytes` (4 to 32) of each lane, side by side in `values`, to the shared memory of
  /// a block of the cluster, which is told at the lane's `mbarrier`. Who waits there knows what
  /// this warp knew.
  void store_async(const Agent& agent, const WarpAccess& to, const std::uint8_t* values,
                   const std::uint64_t* mbarrier);
  /// The answer to a clusterlaunchcontrol.try_cancel, 16 bytes of shared memory, tells `mbarrier`.
  /// `last`: it says no, and no thread that knows it may ask again.
  void launch_answer(const Agent& agent, int lane, std::uint64_t to, std::uint64_t mbarrier,
                     const std::uint32_t (&answer)[4], bool last);
  /// cp.async.bulk.tensor, tiled mode: `map` is the generic address of a descriptor
  /// (tensor_map.hpp), `coordinates` innermost first. Loads complete at `mbarrier`, stores in the
  /// bulk group.
  void tensor_load(const Agent& agent, int lane, std::uint64_t destination, std::uint64_t map,
                   const std::int32_t* coordinates, std::uint64_t mbarrier);
  void tensor_store(const Agent& agent, int lane, std::uint64_t map,
                    const std::int32_t* coordinates, std::uint64_t source);
  /// commit_group of this warp's work of `kind`.
  void commit(const Agent& agent, AsyncKind kind);
  /// wait_group: at most `pending` of the latest groups may be on their way. `reads_only` (bulk
  /// .read): only their sources are free. wait_all of cp.async: commit, then wait 0.
  void wait(const Agent& agent, AsyncKind kind, std::uint32_t pending, bool reads_only = false);

  /// How many stores and asynchronous copies there were, of instructions and never less.
  std::uint64_t writes() const { return writes_; }
  /// Whether an asynchronous copy is on its way: progress is possible though no warp can run.
  bool in_flight() const { return !copies_.empty(); }
  /// Lands everything (before the executor calls it a deadlock). True if that completed any
  /// mbarrier phase.
  bool land_all();

 private:
  struct SharedBlock {
    std::vector<std::uint8_t> bytes;
    std::unique_ptr<Shadow> shadow;
  };

  WarpMemory& warp_of(const Agent& agent) { return warps_[agent.rank * shape_.warps + agent.warp]; }
  std::uint32_t warp_count() const { return static_cast<std::uint32_t>(warps_.size()); }
  std::uint32_t slot_of(const WarpMemory& warp, AsyncKind kind, bool reads = false) const;
  /// A slot of the clocks, of no access: 1 for threads that know that block `rank` has begun.
  std::uint32_t beginning_of(std::uint32_t rank) const {
    return (shape_.tensor_memory ? 8 : 5) * warp_count() + rank;
  }
  Toucher toucher(const Agent& agent, Order order = Order::weak,
                  MemoryScope scope = MemoryScope::sys);

  /// The region that holds [address, address + bytes) for this lane; a finding and false if none
  /// does.
  bool resolve(const Agent& agent, int lane, std::uint64_t address, std::uint64_t bytes, Mode mode,
               Region& region);
  bool quick_resolve(const Agent& agent, std::uint64_t address, std::uint64_t bytes,
                     Region& region);
  bool aligned(const Agent& agent, int lane, std::uint64_t address, std::uint64_t bytes, Mode mode);
  void report_bounds(const Agent& agent, int lane, std::uint64_t address, std::uint64_t bytes,
                     Mode mode);
  Region shared_region(std::uint32_t rank);
  Region tensor_region(std::uint32_t rank);
  void report_leaks(std::uint32_t rank);
  bool absent(const Agent& agent, std::uint32_t rank);
  bool reach_block(const Agent& agent, int lane, std::uint64_t address, std::uint64_t bytes,
                   Mode mode);
  bool local_region(const Agent& agent, int lane, std::uint64_t address, Region& region);

  std::uint32_t touch_together(const Toucher& who, const WarpAccess& access, Mode mode,
                               std::uint8_t* stage);
  template <class Each>
  void each_run(const Agent& agent, const WarpAccess& access, Mode mode, const Each& each);
  void before_strong(const Agent& agent, const WarpAccess& access);
  void after_strong(const Agent& agent, const WarpAccess& access);
  std::uint64_t variable_of(const Agent& agent, std::uint64_t address) const;
  void count(const Agent& agent, const WarpAccess& access);
  bool move_row(const Toucher& who, int lane, std::uint64_t address, std::uint64_t bytes, Mode mode,
                std::uint8_t* to, const std::uint8_t* from);

  struct Barrier {
    std::uint64_t key = 0;   // shared address with the rank
    std::uint32_t slot = 0;  // of its phases in the clocks
    bool live = false;
    std::uint32_t init_slot = 0, init_time = 0, init_warp = 0, init_instruction = 0;
    MbarrierState state;
    Knowledge arriving, completed;
  };
  std::uint64_t barrier_key(const Agent& agent, std::uint64_t address) const;
  Barrier* barrier_at(const Agent& agent, int lane, std::uint64_t address, const char* what);
  void report_misuse(const Agent& agent, int lane, MbarrierError error, std::uint64_t address);
  void completed_phases(Barrier& barrier, std::uint64_t before);
  bool observe(const Agent& agent, int lane, Barrier& barrier, bool complete);

  void launch_copy(const Agent& agent, AsyncCopy copy);
  void land(std::size_t index);
  template <class Want>
  void land_where(const Want& want);
  void land_for(std::uint64_t barrier);  // whatever its phase waits for
  bool prepare_bulk(const Agent& agent, int lane, std::uint64_t mbarrier, std::uint64_t bytes,
                    AsyncCopy& copy, Toucher& reads, Toucher& writes);
  std::optional<TensorMap> tensor_map_at(const Agent& agent, int lane, std::uint64_t address);
  void roll();  // AsyncPolicy::random: each copy lands with one chance in two

  LaunchMemory& launch_;
  ClusterShape shape_;
  std::uint32_t domain_ = 0, tag_ = 0;
  std::vector<SharedBlock> shared_;    // by rank
  std::vector<TensorMemory> tensors_;  // by rank
  std::vector<std::uint8_t> local_;    // of all threads, one after the other
  std::unique_ptr<Shadow> local_shadow_;
  std::uint64_t local_stride_ = 0;
  std::vector<WarpMemory> warps_;  // rank by rank
  WarpMemory warpgroup_;           // who reads the matrices of a wgmma
  std::uint32_t matrix_group_ = 0;
  RecordLog log_;  // of accesses to shared memory
  Reporter reporter_;
  std::vector<Barrier> barriers_;
  std::uint32_t barrier_slots_ = 0;                    // taken since begin
  std::uint32_t refused_slot_ = 0, refused_time_ = 0;  // when it is known that no launch is left
  Knowledge arriving_, met_;       // at barrier.cluster: of this phase, of the one before
  std::uint32_t ended_ = 0;        // bits of blocks
  std::vector<AsyncCopy> copies_;  // on their way, oldest first
  std::uint64_t random_ = 0, sequence_ = 0, writes_ = 0;
};

}  // namespace microscale::emulator
