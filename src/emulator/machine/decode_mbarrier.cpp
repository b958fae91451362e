// mbarrier, bulk copies, tensor copies, asynchronous stores and cluster launch control.
#include <string>
#include <vector>

#include "emulator/machine/memory_words.hpp"

namespace microscale::emulator {

using ptx::Space;
using ptx::Type;

namespace {

constexpr std::string_view word_of_completion = "mbarrier::complete_tx::bytes";

// The object's address, in op.a with op.value; op.mode bit 0: a 64-bit row.
void object(Binder& b, std::size_t position, Space space) {
  const BoundAddress bound = bind_address(b, b.operand(position), space);
  b.op.a = bound.slot;
  b.op.value = bound.offset;
  b.op.mode = static_cast<std::uint8_t>((bound.wide ? 1 : 0) | (space == Space::shared ? 2 : 0));
}

void mbarrier(Binder& b) {
  const std::string_view what = b.take_one_of(
      {"init", "inval", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait"});
  const bool expects = what == "arrive" && b.take("expect_tx");
  const bool parity = b.take("parity");
  b.take("noComplete");
  take_order(b, Order::release);
  take_scope(b, MemoryScope::cta);
  const Space space = take_space(b);
  b.take("b64");
  if (what == "init" || what == "expect_tx" || what == "complete_tx") {
    object(b, 0, space);
    b.op.b = b.source(1, Type::u32);
    b.use("mbarrier." + std::string(what));
  } else if (what == "inval") {
    object(b, 0, space);
    b.use("mbarrier.inval");
  } else if (what == "arrive") {
    const bool answers = b.count() > 1 && b.operand(0).kind != ptx::Operand::Kind::address;
    const std::size_t at = answers ? 1 : 0;
    object(b, at, space);
    b.op.d = answers ? b.destination(0, Type::b64) : b.rows().scratch();
    b.op.b = b.count() > at + 1 ? b.source(at + 1, Type::u32) : b.rows().constant32(1);
    b.use(expects ? "mbarrier.arrive.expect_tx" : "mbarrier.arrive");
  } else if (what == "test_wait" || what == "try_wait") {
    object(b, 1, space);
    b.op.d = b.predicate_destination(b.operand(0));
    b.op.b = b.source(2, parity ? Type::u32 : Type::b64);
    if (what == "try_wait") b.op.mode |= 4;  // may wait
    b.use(parity ? "mbarrier.wait.parity" : "mbarrier.wait.state");
  } else {
    b.refuse("is not known in this form");
  }
}

// Addresses as pairs of slots and offsets in op.list: slot, wide, offset low, offset high, space.
void push(Binder& b, std::vector<std::uint32_t>& list, std::size_t position, Space space) {
  const BoundAddress bound = bind_address(b, b.operand(position), space);
  const auto offset = static_cast<std::uint64_t>(bound.offset);
  list.insert(list.end(),
              {bound.slot, bound.wide, static_cast<std::uint32_t>(offset),
               static_cast<std::uint32_t>(offset >> 32), static_cast<std::uint32_t>(space)});
}

// cp.async.bulk: both spaces, in the order to, from.
bool take_spaces(Binder& b, Space& to, Space& from) {
  const std::string_view first =
      b.take_one_of({"shared::cluster.global", "shared::cluster", "shared::cta", "global"});
  to = first == "global" ? Space::global : Space::shared;
  const std::string_view second = b.take_one_of({"shared::cta", "global"});
  from = second == "global" ? Space::global : Space::shared;
  return !first.empty() && !second.empty();
}

// cp.async.bulk.prefetch, of tensors too: into a cache, which this machine has none of.
void prefetch(Binder& b) {
  while (!b.take_next().empty()) {
  }
  b.use("nothing");
}

void bulk(Binder& b) {
  // The first space named is where the bytes go.
  bool to_global = false;
  for (const std::string_view word : b.in.modifiers) {
    if (word == "global") to_global = true;
    if (word == "global" || word.starts_with("shared")) break;
  }
  Space to = Space::shared, from = Space::global;
  if (to_global) {
    b.take("global");
    to = Space::global, from = Space::shared;
    b.take("shared::cta");
  } else if (!take_spaces(b, to, from)) {
    return b.refuse("does not name two spaces that this machine knows");
  }
  take_cache_hints(b);
  const bool completes = b.take(word_of_completion);
  if (!completes && !b.take("bulk_group")) return b.refuse("says not how it completes");
  const bool multicast = b.take("multicast::cluster");
  if (multicast && (!completes || to_global || from != Space::global))
    return b.refuse("is for copies from global memory that end in an mbarrier");
  std::vector<std::uint32_t> list;
  push(b, list, 0, to);
  push(b, list, 1, from);
  if (completes) push(b, list, 3, Space::shared);
  b.op.a = b.source(2, Type::u32);
  if (multicast) b.op.b = b.source(4, Type::u16);
  b.op.mode = static_cast<std::uint8_t>(completes | multicast << 1);
  b.lists(list);
  b.use("cp.bulk");
}

void tensor(Binder& b) {
  const std::string_view dimensions = b.take_one_of({"1d", "2d", "3d", "4d", "5d"});
  b.take("tile");
  if (dimensions.empty()) return b.refuse("is not known in this form");
  const bool loads = b.in.has(word_of_completion);
  const bool multicast = b.take("multicast::cluster");
  // .cta_group::2 lets the mbarrier be in the other block of a pair: here an address always may be.
  const bool pairs = b.take_one_of({"cta_group::1", "cta_group::2"}) == "cta_group::2";
  if ((multicast || pairs) && !loads)
    return b.refuse("is for copies from global memory that end in an mbarrier");
  if (b.take_one_of({"shared::cluster", "shared::cta"}) == "shared::cta" && multicast)
    return b.refuse("goes to several blocks, which needs .shared::cluster");
  b.take("global");
  take_cache_hints(b);
  if (loads)
    b.take(word_of_completion);
  else
    b.take("bulk_group");
  const ptx::Operand& map = b.operand(loads ? 1 : 0);
  if (map.parts.size() != static_cast<std::size_t>(dimensions[0] - '0'))
    return b.refuse("has another number of coordinates");
  std::vector<std::uint32_t> list;
  push(b, list, loads ? 0 : 1, Space::shared);
  push(b, list, loads ? 1 : 0, Space::generic);
  if (loads) push(b, list, 2, Space::shared);
  for (const ptx::Operand& each : map.parts) list.push_back(b.source(each, Type::s32));
  b.op.mode = static_cast<std::uint8_t>(dimensions[0] - '0');
  if (multicast) {
    b.op.b = b.source(3, Type::u16);
    b.op.extra = pairs ? 2 : 1;
  }
  b.lists(list);
  b.use(loads ? "cp.tensor.load" : "cp.tensor.store");
}

// st.async: the two addresses in op.list, then the values' rows; op.mode: bytes of a value.
void store(Binder& b) {
  b.take("async");
  b.take("weak");
  b.take("shared::cluster");
  if (!b.take(word_of_completion)) return b.refuse("is for another block's shared memory");
  const std::string_view vector = b.take_one_of({"v2", "v4"});
  const std::size_t count = vector.empty() ? 1 : static_cast<std::size_t>(vector[1] - '0');
  Type type = Type::b32;
  if (!b.take_type(type) || ptx::bits_of(type) < 32 || ptx::bits_of(type) > 64)
    return b.refuse("has values of 32 or 64 bits");
  const ptx::Operand& values = b.operand(1);
  const bool several = values.kind == ptx::Operand::Kind::vector;
  if ((several ? values.parts.size() : 1) != count)
    return b.refuse("has a vector of another length than its name says");
  std::vector<std::uint32_t> list;
  push(b, list, 0, Space::shared);
  push(b, list, 2, Space::shared);
  if (several)
    for (const ptx::Operand& each : values.parts) list.push_back(b.source(each, type));
  else
    list.push_back(b.source(values, type));
  b.op.mode = static_cast<std::uint8_t>(ptx::bits_of(type) / 8);
  b.op.extra = static_cast<std::uint32_t>(count);
  b.lists(list);
  b.use("st.async");
}

void groups(Binder& b) {
  b.op.mode = static_cast<std::uint8_t>(AsyncKind::bulk);
  if (b.take("commit_group")) return b.use("async.commit");
  b.take("wait_group");
  b.op.extra = b.take("read") ? 2 : 0;
  if (!b.immediate(b.operand(0), b.op.value) || b.op.value < 0)
    b.refuse("needs a number of groups");
  b.use("async.wait");
}

// try_cancel: the two addresses in op.list; query_cancel: an answer of 128 bits in op.a.
void launch_control(Binder& b) {
  if (b.take("try_cancel")) {
    const Space space = b.take("shared::cta") ? Space::shared : Space::generic;
    const bool completes = b.take("async") && b.take(word_of_completion);
    b.op.mode = b.take("multicast::cluster::all") ? 1 : 0;
    if (!b.take("b128") || !completes) return b.refuse("is not known in this form");
    std::vector<std::uint32_t> list;
    for (const std::size_t position : {0u, 1u}) push(b, list, position, space);
    for (const std::size_t at : {1u, 6u})  // a row of 32 bits is an address of shared memory
      if (!list[at]) list[at + 3] = static_cast<std::uint32_t>(Space::shared);
    b.lists(list);
    return b.use("cluster.try_cancel");
  }
  if (!b.take("query_cancel") || !b.take("b128")) return b.refuse("is not known in this form");
  b.op.a = b.source(1, Type::b128);
  if (b.take("is_canceled")) {
    if (!b.take("pred")) b.refuse("needs .pred");
    b.op.d = b.predicate_destination(b.operand(0));
    return b.use("cluster.cancelled");
  }
  const std::string_view what = b.take_one_of(
      {"get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
  if (!b.take("b32")) b.refuse("needs .b32");
  std::vector<std::uint32_t> slots;
  if (what == "get_first_ctaid") {
    if (!b.take("v4") || b.operand(0).parts.size() != 4) return b.refuse("needs .v4");
    for (const ptx::Operand& each : b.operand(0).parts)
      slots.push_back(b.destination(each, Type::b32));
  } else if (!what.empty()) {
    slots.push_back(b.destination(0, Type::b32));
    b.op.mode = static_cast<std::uint8_t>(what.back() - 'x');
  } else {
    return b.refuse("is not known in this form");
  }
  b.op.extra = static_cast<std::uint32_t>(slots.size());
  b.lists(slots);
  b.use("cluster.first");
}

}  // namespace

bool decode_mbarrier(Binder& b) {
  if (b.in.opcode == "clusterlaunchcontrol") return launch_control(b), true;
  if (b.in.opcode == "mbarrier") return mbarrier(b), true;
  if (b.in.opcode == "st") return store(b), true;
  if (b.in.opcode != "cp") return false;
  b.take("async");
  if (b.take("mbarrier")) {
    b.take("arrive");
    b.op.extra = b.take("noinc") ? 0 : 1;
    const Space space = take_space(b);
    b.take("b64");
    object(b, 0, space);
    return b.use("cp.async.mbarrier"), true;
  }
  if (!b.take("bulk")) return false;
  if (b.in.has("commit_group") || b.in.has("wait_group"))
    groups(b);
  else if (b.take("prefetch"))
    prefetch(b);
  else if (b.take("tensor"))
    tensor(b);
  else
    bulk(b);
  return true;
}

}  // namespace microscale::emulator
