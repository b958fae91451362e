// Where a thread goes: bra, brx.idx, call, ret, exit, trap; barriers of blocks and clusters;
// waiting.
#include <string>
#include <vector>

#include "emulator/machine/binder.hpp"

namespace microscale::emulator {

using ptx::Operand;
using ptx::Type;
using Kind = Operand::Kind;

namespace {

// Branch targets are indexes in the function's text here; the decoder moves them when all is known.
void branch(Binder& b) {
  b.take("uni");
  const Operand& target = b.operand(0);
  if (target.kind != Kind::label) return b.refuse("has no label");
  b.op.extra = target.index;
  b.use("bra");
}

void indexed_branch(Binder& b) {
  b.take("idx");
  b.take("uni");
  b.op.a = b.source(0, Type::u32);
  std::vector<std::uint32_t> targets;
  for (const Operand& each : b.operand(1).parts) targets.push_back(each.index);
  if (targets.empty()) return b.refuse("has no targets");
  b.op.extra = static_cast<std::uint32_t>(b.program().branch_tables.size());
  b.program().branch_tables.push_back(std::move(targets));
  b.use("brx");
}

// bar[.cta|.warp].{sync,arrive,red} and barrier[.cta|.cluster]...
void barrier(Binder& b) {
  const bool aligned = b.take("aligned") || b.in.opcode == "bar";
  if (b.take("warp")) {
    b.take("sync");
    b.op.a = b.source(0, Type::b32);
    return b.use("bar.warp");
  }
  if (b.take("cluster")) {
    const bool arrives = b.take("arrive");
    b.take("wait");
    const bool relaxed = b.take_one_of({"release", "relaxed", "acquire"}) == "relaxed";
    b.op.mode = static_cast<std::uint8_t>(aligned | relaxed << 1);
    return b.use(arrives ? "barrier.cluster.arrive" : "barrier.cluster.wait");
  }
  b.take("cta");
  const std::string_view what = b.take_one_of({"sync", "arrive", "red"});
  if (what.empty()) return b.refuse("is not known in this form");
  std::string key = "bar." + std::string(what);
  std::size_t at = 0;
  if (what == "red") {
    const std::string_view how = b.take_one_of({"popc", "and", "or"});
    b.take_one_of({"u32", "pred"});
    key += "." + std::string(how);
    if (how == "popc")
      b.op.d = b.destination(at++, Type::u32);
    else
      b.op.d = b.predicate_destination(b.operand(at++));
  }
  b.op.a = b.source(at++, Type::u32);
  b.op.mode = static_cast<std::uint8_t>(aligned);
  const std::size_t left = b.count() - at, predicates = what == "red" ? 1 : 0;
  if (left > predicates) {
    b.op.b = b.source(at++, Type::u32);
    b.op.mode |= 2;  // a count of threads
  } else if (what == "arrive") {
    return b.refuse("needs a count of threads");
  }
  if (predicates) b.op.c = b.predicate(b.operand(at), 1);
  b.use(key);
}

}  // namespace

bool decode_control(Binder& b) {
  const std::string_view opcode = b.in.opcode;
  if (opcode == "bra") {
    branch(b);
  } else if (opcode == "brx") {
    indexed_branch(b);
  } else if (opcode == "ret" || opcode == "exit") {
    b.take("uni");
    b.use(std::string(opcode));
  } else if (opcode == "trap" || opcode == "brkpt") {
    b.use("trap");
  } else if (opcode == "bar" || opcode == "barrier") {
    barrier(b);
  } else if (opcode == "nanosleep") {
    b.take("u32");
    b.op.a = b.source(0, Type::u32);
    b.use("nanosleep");
  } else if (opcode == "griddepcontrol") {
    b.take_one_of({"launch_dependents", "wait"});
    b.use("nothing");
  } else if (opcode == "pmevent" || opcode == "setmaxnreg") {
    while (!b.take_next().empty()) {
    }
    b.use("nothing");
  } else {
    return false;
  }
  return true;
}

}  // namespace microscale::emulator
