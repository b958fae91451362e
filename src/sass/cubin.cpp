#include "sass/cubin.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "microscale/error.hpp"

namespace microscale::sass {
namespace {

// The low 12 bits of an instruction.
constexpr int op_nop = 0x918, op_ldl = 0x983, op_stl = 0x387, op_call_abs = 0x943,
              op_call_rel = 0x944, op_lds = 0x984, op_ldsm = 0x83b, op_arrive = 0x9a7,
              op_bra = 0x947, op_exit = 0x94d, op_ret = 0x950;
constexpr std::size_t instruction_bytes = 16;

// ELF64, little-endian.
constexpr std::uint32_t type_symbols = 2;
constexpr std::size_t section_header_bytes = 64, symbol_bytes = 24;
// Of .nv.info: records of a format, an attribute, and a value or the size of what follows.
constexpr std::uint8_t format_sized = 4, attribute_registers = 0x2f;

class Elf {
 public:
  struct Section {
    std::string_view name;
    std::uint32_t type = 0, link = 0;
    std::span<const std::uint8_t> bytes;  // empty where the file has none
    std::uint64_t size = 0;
  };

  explicit Elf(std::span<const std::uint8_t> file) : file_(file) {
    if (file.size() < 64 || std::memcmp(file.data(),
                                        "\x7f"
                                        "ELF\2\1",
                                        6) != 0)
      refuse("is no ELF64 file");
    const auto headers = number<std::uint64_t>(0x28);
    const auto count = number<std::uint16_t>(0x3c), names = number<std::uint16_t>(0x3e);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = headers + i * section_header_bytes;
      Section section;
      section.type = number<std::uint32_t>(at + 4);
      section.link = number<std::uint32_t>(at + 40);
      section.size = number<std::uint64_t>(at + 32);
      constexpr std::uint32_t no_bits = 8;
      if (section.type != no_bits)
        section.bytes = part(number<std::uint64_t>(at + 24), section.size);
      sections_.push_back(section);
      name_offsets_.push_back(number<std::uint32_t>(at));
    }
    if (names >= sections_.size()) refuse("has no names of sections");
    for (std::size_t i = 0; i < sections_.size(); ++i)
      sections_[i].name = text(sections_[names].bytes, name_offsets_[i]);
  }

  const std::vector<Section>& sections() const { return sections_; }

  std::string_view symbol(std::uint32_t index) const {
    for (const Section& each : sections_) {
      if (each.type != type_symbols) continue;
      const std::size_t at = std::size_t{index} * symbol_bytes;
      if (at + symbol_bytes > each.bytes.size() || each.link >= sections_.size()) break;
      return text(sections_[each.link].bytes, number_in<std::uint32_t>(each.bytes, at));
    }
    refuse("names a symbol that it has not");
  }

  template <class T>
  static T number_in(std::span<const std::uint8_t> bytes, std::size_t at) {
    if (at > bytes.size() || bytes.size() - at < sizeof(T)) refuse("ends too early");
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ErrorCode::bad_input,
                "reading a cubin: the file " + what + "; give what nvcc -cubin makes");
  }

  template <class T>
  T number(std::size_t at) const {
    return number_in<T>(file_, at);
  }
  std::span<const std::uint8_t> part(std::uint64_t at, std::uint64_t size) const {
    if (at > file_.size() || file_.size() - at < size) refuse("ends too early");
    return file_.subspan(at, size);
  }
  static std::string_view text(std::span<const std::uint8_t> strings, std::size_t at) {
    if (at >= strings.size()) refuse("has a name beyond its names");
    const auto* first = reinterpret_cast<const char*>(strings.data()) + at;
    const auto* end = std::memchr(first, 0, strings.size() - at);
    if (end == nullptr) refuse("has a name without an end");
    return {first, static_cast<std::size_t>(static_cast<const char*>(end) - first)};
  }

  std::span<const std::uint8_t> file_;
  std::vector<Section> sections_;
  std::vector<std::uint32_t> name_offsets_;
};

/// What is behind `beginning`; empty if that is not how it begins.
std::string_view rest_of(std::string_view name, std::string_view beginning) {
  return name.substr(0, beginning.size()) == beginning ? name.substr(beginning.size())
                                                       : std::string_view();
}

std::map<std::string_view, int> registers_of(const Elf& elf) {
  std::map<std::string_view, int> registers;
  for (const Elf::Section& section : elf.sections()) {
    if (section.name != ".nv.info") continue;
    for (std::size_t at = 0; at < section.bytes.size();) {
      const auto format = Elf::number_in<std::uint8_t>(section.bytes, at),
                 attribute = Elf::number_in<std::uint8_t>(section.bytes, at + 1);
      const auto size = Elf::number_in<std::uint16_t>(section.bytes, at + 2);
      if (format == format_sized && attribute == attribute_registers)
        registers[elf.symbol(Elf::number_in<std::uint32_t>(section.bytes, at + 4))] =
            static_cast<int>(Elf::number_in<std::uint32_t>(section.bytes, at + 8));
      at += 4 + (format == format_sized ? std::size_t{size} : 0);
    }
  }
  return registers;
}

}  // namespace

int early_arrivals(std::span<const std::uint8_t> code) {
  constexpr std::uint64_t of_a_thread = 1u << 20, second_predicate = 0x7fu << 23,
                          without_one = 7u << 23;
  constexpr unsigned scoreboards = 6;
  std::vector<unsigned> under_way;  // in turn: in which of six scoreboards a read ends, or in none
  int early = 0;
  for (std::size_t at = 0; at < code.size(); at += instruction_bytes) {
    const auto low = Elf::number_in<std::uint64_t>(code, at),
               high = Elf::number_in<std::uint64_t>(code, at + 8);
    const auto opcode = static_cast<int>(low & 0xfff);
    const auto ends_in = static_cast<unsigned>(high >> 46 & 7),
               waits_for = static_cast<unsigned>(high >> 52 & 0x3f);
    // Reads end in turn: with one, all in front of it.
    for (std::size_t last = under_way.size(); last-- > 0;)
      if (waits_for >> under_way[last] & 1) {
        under_way.erase(under_way.begin(),
                        under_way.begin() + static_cast<std::ptrdiff_t>(last + 1));
        break;
      }
    if (opcode == op_lds || opcode == op_ldsm) under_way.push_back(ends_in);
    if (ends_in < scoreboards)  // a read with no scoreboard of its own has ended when the next read
                                // with one has
      std::replace_if(
          under_way.begin(), under_way.end(), [](unsigned in) { return in >= scoreboards; },
          ends_in);
    early += opcode == op_arrive && (high & of_a_thread) != 0 && !under_way.empty();
    const bool always = (low >> 12 & 0xf) == 7;  // its predicate
    const bool leaves = opcode == op_exit || opcode == op_ret ||
                        (opcode == op_bra && (high & second_predicate) == without_one);
    if (always && leaves) under_way.clear();
  }
  return early;
}

std::vector<CubinKernel> kernels_of(std::span<const std::uint8_t> cubin) {
  const Elf elf(cubin);
  const auto registers = registers_of(elf);
  std::map<std::string_view, int> shared;
  for (const Elf::Section& section : elf.sections())
    if (const auto name = rest_of(section.name, ".nv.shared."); !name.empty())
      shared[name] = static_cast<int>(section.size);
  std::vector<CubinKernel> kernels;
  for (const Elf::Section& section : elf.sections()) {
    const auto name = rest_of(section.name, ".text.");
    if (name.empty()) continue;
    CubinKernel kernel;
    kernel.name = name;
    if (const auto it = registers.find(name); it != registers.end()) kernel.registers = it->second;
    if (const auto it = shared.find(name); it != shared.end()) kernel.shared_bytes = it->second;
    kernel.early_arrivals = early_arrivals(section.bytes);
    for (std::size_t at = 0; at < section.bytes.size(); at += instruction_bytes) {
      const int opcode = Elf::number_in<std::uint16_t>(section.bytes, at) & 0xfff;
      kernel.instructions += opcode != op_nop;
      kernel.local += opcode == op_ldl || opcode == op_stl;
      kernel.calls += opcode == op_call_abs || opcode == op_call_rel;
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace microscale::sass
