// cp.async and its groups.
#include <string>

#include "emulator/machine/memory_words.hpp"
#include "emulator/ops/address.hpp"

namespace microscale::emulator {

using ptx::Space;
using ptx::Type;

namespace {

void groups(Binder& b, AsyncKind kind) {
  b.op.mode = static_cast<std::uint8_t>(kind);
  if (b.take("commit_group")) return b.use("async.commit");
  if (b.take("wait_all")) {
    b.op.extra = 1;
    return b.use("async.wait");
  }
  b.take("wait_group");
  b.op.extra = b.take("read") ? 2 : 0;
  if (!b.immediate(b.operand(0), b.op.value) || b.op.value < 0)
    b.refuse("needs a number of groups");
  b.use("async.wait");
}

void copy(Binder& b) {
  const std::string_view cache = b.take_one_of({"ca", "cg"});
  b.take_one_of({"shared", "shared::cta"});
  b.take("global");
  const bool policy = take_cache_hints(b);
  const BoundAddress to = bind_address(b, b.operand(0), Space::shared);
  const BoundAddress from = bind_address(b, b.operand(1), Space::global);
  std::int64_t bytes = 0;
  if (!b.immediate(b.operand(2), bytes) ||
      !(bytes == 16 || (cache == "ca" && (bytes == 4 || bytes == 8))))
    return b.refuse("copies 16 bytes, or with .ca also 4 or 8");
  const std::size_t left = b.count() - 3 - (policy ? 1 : 0);
  b.op.mode = static_cast<std::uint8_t>(bytes);
  b.op.a = to.slot;
  b.op.b = from.slot;
  b.op.value = to.offset;
  b.op.extra = static_cast<std::uint32_t>((to.wide ? 1 : 0) | (from.wide ? 2 : 0));
  const auto offset = static_cast<std::uint64_t>(from.offset);
  std::vector<std::uint32_t> list = {static_cast<std::uint32_t>(offset),
                                     static_cast<std::uint32_t>(offset >> 32)};
  if (left > 0 && b.is_predicate(b.operand(3))) {
    b.op.c = b.predicate(b.operand(3), 1);
    b.op.extra |= 4;  // lanes whose predicate is true copy zeros
  } else if (left > 0) {
    list.push_back(b.source(3, Type::u32));
    b.op.extra |= 8;  // that many bytes come from the source
  }
  b.lists(list);
  b.use("cp.async");
}

}  // namespace

bool decode_async(Binder& b) {
  if (b.in.opcode != "cp" || !b.take("async")) return false;
  if (b.in.has("bulk") || b.in.has("mbarrier")) return false;
  if (b.in.has("commit_group") || b.in.has("wait_group") || b.in.has("wait_all"))
    groups(b, AsyncKind::cp_async);
  else
    copy(b);
  return true;
}

}  // namespace microscale::emulator
