#include "emulator/finding.hpp"

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

std::string with_call(const std::string& source, const std::string& inlined_at) {
  return inlined_at.empty() ? source : fmt::format("{}, inlined at {}", source, inlined_at);
}

std::string to_sentence(const Finding& finding) {
  const auto triple = [](const std::uint32_t(&of)[3]) {
    return fmt::format("({},{},{})", of[0], of[1], of[2]);
  };
  std::string text =
      fmt::format("{}: kernel {}, block {}, thread {}, PTX line {}", name_of(finding.kind),
                  finding.kernel, triple(finding.block), triple(finding.thread), finding.ptx_line);
  if (!finding.source.empty())
    text += fmt::format(" ({})", with_call(finding.source, finding.inlined_at));
  text += ": " + finding.message;
  if (finding.count > 1) text += fmt::format(" ({} times)", finding.count);
  return text;
}

}  // namespace microscale::emulator
