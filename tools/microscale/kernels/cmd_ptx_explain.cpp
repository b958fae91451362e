// ptx explain: what each instruction of a listing is for, and which addresses the lanes of a warp
// touch, without running it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "console.hpp"
#include "ptx_launch.hpp"
#include "ptx_source.hpp"
#include "emulator/kernel_name.hpp"
#include "emulator/ptx/listing.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale {
namespace {

using Json = nlohmann::ordered_json;
using emulator::ptx::Function;
using emulator::ptx::Module;
using emulator::ptx::Note;

Error in_file(const std::filesystem::path& path, const Failure& failure) {
  return Error(failure.code, fmt::format("{}: {}", path.string(), failure.message));
}

/// Functions with a body and with `word` in their name.
std::vector<std::size_t> functions_of(const Module& module, const std::string& word) {
  std::vector<std::size_t> found;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < module.functions().size(); ++i) {
    if (!module.functions()[i].has_body) continue;
    const std::string name(module.functions()[i].name);
    names.push_back(emulator::readable_name(name));
    if (name.find(word) != name.npos || names.back().find(word) != std::string::npos)
      found.push_back(i);
  }
  if (found.empty() && !names.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--kernel got '{}', which no function here is called; choose one of {}",
                            word, fmt::join(names, ", ")));
  return found;
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

int run_ptx_explain(const std::filesystem::path& file, const LaunchWords& words, Console& console) {
  emulator::ptx::Extent block;
  if (!words.block.empty()) {
    const emulator::Extent given = extent_from("--block", words.block);
    block = {given.x, given.y, given.z};
  }
  const Result<Module> parsed = Module::parse(ptx_text(file, words.target));
  if (!parsed) throw in_file(file, parsed.failure());
  const Module& module = parsed.value();
  Json functions = Json::array();
  for (const std::size_t i : functions_of(module, words.kernel)) {
    const Result<const Function*> body = module.body(i);
    if (!body) throw in_file(file, body.failure());
    const Function& function = *body.value();
    const std::vector<Note> notes = explain(module, function, block);
    if (console.json) {
      functions.push_back(to_json(function, notes));
    } else {
      if (block.x == 0)
        console.note("lanes are taken as neighbours in %tid.x; --block says the block's shape");
      print_function(function, notes, console);
    }
  }
  if (console.json) console.print_json({{"target", module.target()}, {"functions", functions}});
  return exit_success;
}

}  // namespace microscale
