// ptx explain: what each instruction of a listing is for, and which addresses the lanes of a warp
// touch, without running it.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "ptx_launch.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using emulator::ptx::Function;
using emulator::ptx::Module;
using emulator::ptx::Note;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    throw Error(ErrorCode::io,
                fmt::format("ptx explain: cannot read {}; name a PTX file", path.string()));
  }
  return text;
}

std::string spelled(const emulator::ptx::Instruction& instruction) {
  std::string text(instruction.opcode);
  for (const std::string_view each : instruction.modifiers) (text += '.') += each;
  return text;
}

void print_function(const Function& function, const std::vector<Note>& notes, Console& console) {
  console.print(fmt::format("{} ({} instructions, {} registers)\n", console.bold(function.name),
                            function.code.size(), function.registers.size()));
  for (std::size_t i = 0; i < notes.size(); ++i) {
    const Note& note = notes[i];
    std::string line =
        fmt::format("{:>7}  {:<16}  {}", note.line, name_of(note.role), spelled(function.code[i]));
    console.print(line + "\n");
    if (note.verdict.empty()) continue;
    console.print(fmt::format("{:27}address {}\n{:27}{} bytes to the next lane; {}\n", "",
                              note.address, "", note.stride, note.verdict));
  }
}

Json to_json(const Function& function, const std::vector<Note>& notes) {
  Json json;
  json["name"] = function.name;
  json["instructions"] = Json::array();
  for (std::size_t i = 0; i < notes.size(); ++i) {
    Json row{{"line", notes[i].line},
             {"instruction", spelled(function.code[i])},
             {"role", name_of(notes[i].role)}};
    if (!notes[i].verdict.empty()) {
      row["address"] = notes[i].address;
      row["lane_stride"] = notes[i].stride;
      row["verdict"] = notes[i].verdict;
    }
    json["instructions"].push_back(std::move(row));
  }
  return json;
}

}  // namespace

int run_ptx_explain(const std::filesystem::path& file, Console& console) {
  const Module module = take(Module::parse(contents(file)));
  Json functions = Json::array();
  for (std::size_t i = 0; i < module.functions().size(); ++i) {
    if (!module.functions()[i].has_body) continue;
    const Function& function = *take(module.body(i));
    const std::vector<Note> notes = explain(module, function);
    if (console.json) {
      functions.push_back(to_json(function, notes));
    } else {
      print_function(function, notes, console);
    }
  }
  if (console.json) console.print_json({{"target", module.target()}, {"functions", functions}});
  return exit_success;
}

}  // namespace microscale
