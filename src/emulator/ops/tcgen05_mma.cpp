// tcgen05.mma: descriptors and operands to tensor/tcgen05 and back, and what it noticed.
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <vector>

#include "emulator/machine/block.hpp"
#include "emulator/ops/families.hpp"
#include "emulator/ops/tcgen05.hpp"
#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::emulator {
namespace {

using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// One product while its operands are read; every step of it false after a fatal finding.
class Product {
 public:
  Product(const Op& op, Warp& warp, int lane)
      : op_(op),
        warp_(warp),
        memory_(warp.block().memory()),
        agent_(warp.agent(op)),
        lane_(lane),
        name_(Tcgen05Mma::unpack(op.value).name),
        ranks_(blocks_of(static_cast<u32>(name_.blocks), agent_.rank)),
        a_(std::make_unique<tensor::Tcgen05Rows>()),
        b_(std::make_unique<tensor::Tcgen05Rows>()) {}

  Step run() {
    if (!read_descriptor() || !read_a() || !read_b() || !read_scales()) return Step::stop;
    const bool accumulate = warp_.predicate(op_, op_.c, 1) >> lane_ & 1;
    if (!touch_d(accumulate)) return Step::stop;
    std::vector<u32> d(static_cast<std::size_t>(shape_.m) * static_cast<std::size_t>(shape_.n));
    if (accumulate) move_d<true>(d);
    report(tcgen05_product(shape_, accumulate, *a_, *b_, d.data()));
    move_d<false>(d);
    const TensorAddress at = address(Tcgen05Mma::d);
    std::vector<TensorPart> parts = parts_of_d(at);
    for (const u32 rank : ranks_) memory_.tensor_launch(agent_, rank, parts, AsyncKind::tcgen05);
    return Step::next;
  }

 private:
  u32 word(Tcgen05Mma::Operand operand) const {
    return warp_.row32(op_.list[2 * operand])[lane_] + op_.list[2 * operand + 1];
  }
  u64 long_word(Tcgen05Mma::Operand operand) const {
    return warp_.row64(op_.list[2 * operand])[lane_];
  }
  /// Without the id that bits 31-30 of a scale's address may carry.
  TensorAddress address(Tcgen05Mma::Operand operand) const {
    const bool scale = operand == Tcgen05Mma::scale_a || operand == Tcgen05Mma::scale_b;
    return TensorAddress(scale ? word(operand) & 0x3FFFFFFFu : word(operand));
  }
  bool refuse(FindingKind kind, const std::string& message) {
    warp_.report(op_, kind, lane_, message, true);
    return false;
  }
  u32 rows_of_block() const { return static_cast<u32>(shape_.m / name_.blocks); }

  bool read_descriptor() {
    const u32 bits = word(Tcgen05Mma::descriptor);
    const tensor::Tcgen05Problem problem = read_instruction_descriptor(bits, name_, shape_);
    if (problem.what.empty()) return true;
    return refuse(problem.scale_id ? FindingKind::bad_selector : FindingKind::misuse,
                  fmt::format("the instruction descriptor {:#x} {}", bits, problem.what));
  }

  /// `count` rows from row `first` on, of the block `rank`.
  bool read_shared(const char* matrix, u64 bits, bool mn_major, tensor::Operand type, u32 rank,
                   u32 first, u32 count, tensor::Tcgen05Rows& rows) {
    const int bytes = element_bytes(shape_.kind, type);
    if (check_matrix(op_, warp_, lane_, matrix, bits, static_cast<int>(count), mn_major, bytes) ==
        Step::stop)
      return false;
    const tensor::MatrixDescriptor descriptor = tensor::tcgen05_descriptor(bits);
    std::uint8_t chunk[16];
    const auto read = [&](u32 at) {
      return memory_.tensor_operand(agent_, lane_, shared_of(agent_, rank, at), chunk);
    };
    if (!mn_major) {
      for (u32 row = 0; row < count; ++row)
        for (u32 i = 0; i < 2; ++i) {
          if (!read(k_major_chunk(descriptor, row, i))) return false;
          unpack_chunk(shape_.kind, type, chunk, rows.bytes[first + row] + 16 * i);
        }
      return true;
    }
    const auto width = static_cast<std::size_t>(bytes);
    const u32 per_chunk = 16 / static_cast<u32>(bytes);
    for (u32 k = 0; k < static_cast<u32>(shape_.k); ++k)
      for (u32 row = 0; row < count; row += per_chunk) {
        if (!read(mn_major_chunk(descriptor, row / per_chunk, k))) return false;
        for (u32 i = 0; i < per_chunk && row + i < count; ++i)
          std::memcpy(rows.bytes[first + row + i] + k * width, chunk + i * width, width);
      }
    return true;
  }

  bool read_a() {
    const u32 rows = rows_of_block();
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const u32 first = static_cast<u32>(i) * rows;
      if (name_.a_in_tensor ? !read_a_from_tensor(ranks_[i], first)
                            : !read_shared("A", long_word(Tcgen05Mma::a), shape_.mn_major_a,
                                           shape_.a, ranks_[i], first, rows, *a_))
        return false;
    }
    return true;
  }

  /// 8 columns hold the 32 bytes of a row.
  bool read_a_from_tensor(u32 rank, u32 first) {
    const TensorAddress at = address(Tcgen05Mma::a);
    if (at.lane != 0 || rows_of_block() != 128)
      return refuse(FindingKind::misuse,
                    fmt::format("A begins at lane {} of tensor memory; here it has 128 rows from "
                                "lane 0 on",
                                at.lane));
    if (shape_.mn_major_a)
      return refuse(FindingKind::misuse, "A is in tensor memory and cannot be MN-major");
    if (!memory_.tensor_touch(agent_, lane_, rank, {0, 128, at.column, 8}, AsyncKind::tcgen05,
                              Mode::read, "A"))
      return false;
    for (u32 row = 0; row < 128; ++row)
      std::memcpy(a_->bytes[first + row],
                  memory_.tensor(rank).pipeline() + TensorMemory::word_of(row, at.column), 32);
    return true;
  }

  bool read_b() {
    const u32 rows = static_cast<u32>(shape_.n / name_.blocks);
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (!read_shared("B", long_word(Tcgen05Mma::b), shape_.mn_major_b, shape_.b, ranks_[i],
                       static_cast<u32>(i) * rows, rows, *b_))
        return false;
    return true;
  }

  bool read_scales() {
    if (shape_.scale == tensor::ScaleType::none) return true;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (!read_scales_of(Tcgen05Mma::scale_a, "the scales of A", shape_.scale_id_a, ranks_[i],
                          static_cast<u32>(i) * rows_of_block(), rows_of_block(), *a_))
        return false;
    // Each block has the scales of all columns of B, for its rows of D; they are the same numbers.
    for (const u32 rank : ranks_)
      if (!read_scales_of(Tcgen05Mma::scale_b, "the scales of B", shape_.scale_id_b, rank, 0,
                          static_cast<u32>(shape_.n), *b_))
        return false;
    return true;
  }

  /// Row r's are in lane r % 32, and again 32, 64 and 96 lanes on, of column r / 32.
  bool read_scales_of(Tcgen05Mma::Operand operand, const char* what, int id, u32 rank, u32 first,
                      u32 count, tensor::Tcgen05Rows& rows) {
    const TensorAddress at = address(operand);
    const u32 tag = word(operand) >> 30;
    if (tag != 0 && tag != static_cast<u32>(id))
      return refuse(FindingKind::bad_selector,
                    fmt::format("the address of {} carries the scale id {} in bits 31-30, and the "
                                "instruction descriptor says {}",
                                what, tag, id));
    if (at.lane != 0)
      return refuse(
          FindingKind::misuse,
          fmt::format("{} begin at lane {} of tensor memory; it must be 0", what, at.lane));
    const u32 columns = (count + 31) / 32;
    const u32 lanes = count < 32 ? count : 32;
    const u32* words = memory_.tensor(rank).pipeline();
    for (u32 group = 0; group < 4; ++group)
      if (!memory_.tensor_touch(agent_, lane_, rank, {32 * group, lanes, at.column, columns},
                                AsyncKind::tcgen05, Mode::read, what))
        return false;
    for (u32 row = 0; row < count; ++row) {
      const u32 column = at.column + row / 32;
      const u32 value = words[TensorMemory::word_of(row % 32, column)];
      for (u32 group = 1; group < 4; ++group) {
        const u32 other = words[TensorMemory::word_of(32 * group + row % 32, column)];
        const u32 mask = used_bytes(id);
        if ((other ^ value) & mask)
          return refuse(FindingKind::misuse,
                        fmt::format("{} differ between lane {} and lane {} of column {}: {:#x} and "
                                    "{:#x}; all four groups of 32 lanes must have the same",
                                    what, row % 32, 32 * group + row % 32, column, value, other));
      }
      for (int i = 0; i < shape_.scale_vector; ++i)
        rows.scales[first + row][i] = static_cast<std::uint8_t>(value >> (8 * (id + i)));
    }
    return true;
  }
  u32 used_bytes(int id) const {
    const u64 ones = (u64{1} << (8 * shape_.scale_vector)) - 1;
    return static_cast<u32>(ones << (8 * id));
  }

  std::vector<TensorPart> parts_of_d(const TensorAddress& at) const {
    const auto n = static_cast<u32>(shape_.n);
    if (rows_of_block() == 128) return {{0, 128, at.column, n}};
    std::vector<TensorPart> parts;
    for (u32 group = 0; group < 4; ++group)
      parts.push_back({32 * group + at.lane, 16, at.column, n});
    return parts;
  }

  bool touch_d(bool accumulate) {
    const TensorAddress at = address(Tcgen05Mma::d);
    if (at.lane != 0 && !(rows_of_block() == 64 && at.lane == 16))
      return refuse(FindingKind::misuse,
                    fmt::format("D begins at lane {} of tensor memory; with {} rows it must be {}",
                                at.lane, rows_of_block(), rows_of_block() == 64 ? "0 or 16" : "0"));
    for (const u32 rank : ranks_)
      for (const TensorPart& part : parts_of_d(at))
        if (!memory_.tensor_touch(agent_, lane_, rank, part, AsyncKind::tcgen05,
                                  accumulate ? Mode::update : Mode::write, "D"))
          return false;
    return true;
  }

  template <bool Loads>
  void move_d(std::vector<u32>& d) {
    const TensorAddress at = address(Tcgen05Mma::d);
    const auto n = static_cast<std::size_t>(shape_.n);
    for (int m = 0; m < shape_.m; ++m) {
      const int rows = static_cast<int>(rows_of_block());
      u32* words = memory_.tensor(ranks_[static_cast<std::size_t>(m / rows)]).pipeline() +
                   TensorMemory::word_of(at.lane + tensor::product_lane(rows, m % rows), at.column);
      u32* mine = d.data() + static_cast<std::size_t>(m) * n;
      std::memcpy(Loads ? mine : words, Loads ? words : mine, 4 * n);
    }
  }

  void report(const tensor::Tcgen05Findings& found) {
    const auto say = [&](FindingKind kind, char matrix, int row, const char* what) {
      if (row >= 0)
        warp_.report(op_, kind, lane_, fmt::format("row {} of {} has {}", row, matrix, what));
    };
    constexpr const char* padding =
        "bits set beside its codes: an e2m1 code stands in bits 5-2 of a byte, a 6-bit code in "
        "bits 5-0";
    say(FindingKind::padding, 'A', found.padding_a, padding);
    say(FindingKind::padding, 'B', found.padding_b, padding);
    say(FindingKind::misuse, 'A', found.scale_sign_a, "a ue4m3 scale with bit 7 set");
    say(FindingKind::misuse, 'B', found.scale_sign_b, "a ue4m3 scale with bit 7 set");
  }

  const Op& op_;
  Warp& warp_;
  ClusterMemory& memory_;
  const Agent agent_;
  const int lane_;
  const tensor::Tcgen05Name name_;
  tensor::Tcgen05Shape shape_;
  const std::vector<u32> ranks_;
  std::unique_ptr<tensor::Tcgen05Rows> a_, b_;
};

}  // namespace

Step tcgen05_multiply(const Op& op, Warp& warp, u32 lanes) {
  if (const Step step = one_lane(op, warp, lanes); step != Step::next) return step;
  const auto blocks = static_cast<u32>(Tcgen05Mma::unpack(op.value).name.blocks);
  if (const Step step = check_pair(op, warp, blocks); step != Step::next) return step;
  return Product(op, warp, std::countr_zero(lanes)).run();
}

}  // namespace microscale::emulator
