#include "sass/listing.hpp"

#include <charconv>
#include <map>
#include <unordered_map>

#include "microscale/error.hpp"

namespace microscale::sass {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r;") + 1 - first);
}

bool starts(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

/// The word behind `key`, up to a blank, comma, quote or parenthesis.
std::string_view word_after(std::string_view line, std::string_view key) {
  const auto at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(" \t,\")"));
}

int number_from(std::string_view text, int base) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

class Parser {
 public:
  void line(std::string_view line) {
    const std::string_view text = trimmed(line);
    const bool names_file = starts(text, "//## File \"");
    if (names_file && !named_file_) file_ = text.substr(11, text.find('"', 11) - 11);
    named_file_ = names_file;  // what it was inlined at follows in further lines
    if (starts(text, ".section\t") || starts(text, ".section ")) return section(text);
    if (starts(text, "Function : ")) return open(std::string(text.substr(11)));
    if (listing_.architecture.empty() && starts(text, ".target"))
      listing_.architecture = trimmed(text.substr(7));
    if (starts(text, "//----- nvinfo : ")) attribute_ = text.substr(17);
    if (!current_ && starts(attribute_, "EIATTR_REGCOUNT")) return registers(text);
    if (!shared_of_.empty() && starts(text, ".zero"))
      shared_[shared_of_] += number_from(trimmed(text.substr(5)), 10);
    if (!current_) return;
    if (text.size() > 1 && text.back() == ':') {
      labels_[std::string(text.substr(0, text.size() - 1))] =
          static_cast<int>(current_->code.size());
      if (starts(text, "$")) file_ = {};  // a function of the compiler's own
    } else if (starts(text, "/*")) {
      instruction(text);
    }
  }

  Listing finish() {
    close();
    for (Function& function : listing_.functions) {
      if (const auto it = registers_.find(function.name); it != registers_.end())
        function.registers = it->second;
      if (const auto it = shared_.find(function.name); it != shared_.end())
        function.shared_bytes = it->second;
    }
    return std::move(listing_);
  }

 private:
  void section(std::string_view text) {
    close();
    attribute_ = {};
    shared_of_ = word_after(text, ".nv.shared.");
    const std::string_view name = word_after(text, "\t.text.");
    if (!name.empty()) open(std::string(name));
  }

  void open(std::string name) {
    close();
    file_ = {};
    listing_.functions.push_back({.name = std::move(name), .code = {}});
    current_ = &listing_.functions.back();
  }

  void close() {
    if (!current_) return;
    for (Instruction& i : current_->code) {
      const std::string_view operands = i.operands;
      const bool jumps = i.base() == "BRA" || i.base() == "CALL" || i.base() == "JMP";
      if (!jumps) continue;
      if (const auto open = operands.find("`("); open != std::string_view::npos) {
        const auto name = operands.substr(open + 2, operands.find(')', open) - open - 2);
        const auto it = labels_.find(std::string(name));
        if (it != labels_.end()) i.target = it->second;
      } else if (const auto hex = operands.rfind("0x"); hex != std::string_view::npos) {
        const auto it = addresses_.find(number_from(operands.substr(hex + 2), 16));
        if (it != addresses_.end()) i.target = it->second;
      }
    }
    current_ = nullptr;
    labels_.clear();
    addresses_.clear();
  }

  // ".word index@(NAME)" and then ".word 0x000000NN"
  void registers(std::string_view text) {
    const std::string_view name = word_after(text, "index@(");
    if (!name.empty()) {
      counted_ = name;
    } else if (const auto at = text.find(".word");
               at != std::string_view::npos && !counted_.empty()) {
      const std::string_view value = word_after(text, "0x");
      registers_[std::string(counted_)] = number_from(value, 16);
      counted_ = {};
    }
  }

  // "/*0a70*/ @!P0 BRA `(.L_x_2) ;", behind it perhaps "/* encoding */"
  void instruction(std::string_view text) {
    const auto end = text.find("*/", 2);
    if (end == std::string_view::npos) return;
    const std::string_view address = text.substr(2, end - 2);
    if (address.find_first_not_of("0123456789abcdef") != std::string_view::npos) return;
    text = text.substr(end + 2);
    text = trimmed(text.substr(0, text.find("/*")));
    while (starts(text, "{")) text = trimmed(text.substr(1));
    Instruction i;
    i.address = number_from(address, 16);
    if (starts(text, "@")) {
      const auto blank = std::min(text.find_first_of(" \t"), text.size());
      i.predicate = text.substr(1, blank - 1);
      text = trimmed(text.substr(blank));
    }
    const auto blank = text.find_first_of(" \t");
    i.opcode = trimmed(text.substr(0, blank));
    if (blank != std::string_view::npos) i.operands = trimmed(text.substr(blank));
    if (i.opcode.empty() || i.opcode[0] < 'A' || i.opcode[0] > 'Z') return;
    i.file = file_;
    addresses_[i.address] = static_cast<int>(current_->code.size());
    current_->code.push_back(std::move(i));
  }

  Listing listing_;
  Function* current_ = nullptr;
  std::string_view attribute_, counted_, file_;
  bool named_file_ = false;
  std::string shared_of_;
  std::unordered_map<std::string, int> labels_;
  std::unordered_map<int, int> addresses_;
  std::map<std::string, int> registers_, shared_;
};

}  // namespace

std::string_view Instruction::base() const {
  return std::string_view(opcode).substr(0, opcode.find('.'));
}

Listing parse_listing(std::string_view text) {
  Parser parser;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    parser.line(text.substr(at, end - at));
    at = end + 1;
  }
  Listing listing = parser.finish();
  if (listing.functions.empty())
    throw Error(
        ErrorCode::bad_input,
        "reading a disassembly: no function in it; give what nvdisasm or cuobjdump -sass prints");
  return listing;
}

bool has_modifier(std::string_view opcode, std::string_view modifier) {
  for (std::size_t at = opcode.find('.'); at != std::string_view::npos;
       at = opcode.find('.', at + 1)) {
    const std::size_t end = std::min(opcode.find('.', at + 1), opcode.size());
    if (opcode.substr(at + 1, end - at - 1) == modifier) return true;
  }
  return false;
}

}  // namespace microscale::sass
