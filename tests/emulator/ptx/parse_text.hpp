// Short ways from a text to its parts, for the tests here.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "emulator/ptx/module.hpp"

namespace microscale::emulator::ptx {

inline const std::string head = ".version 9.0\n.target sm_90a\n.address_size 64\n";

/// The one kernel of a module, with `body` from line 5 on, and what it is in.
struct Kernel {
  Module module;
  const Function& function;
  const Instruction& operator[](std::size_t i) const { return function.code.at(i); }
  const Operand& operand(std::size_t i, std::size_t k) const {
    return function.code.at(i).operands.at(k);
  }
};

inline Kernel parse_kernel(const std::string& body, const std::string& before = "") {
  Module module = take(
      Module::parse(head + before + ".entry k(.param .u64 p, .param .b32 q) {\n" + body + "\n}\n"));
  const auto index = module.find("k");
  const Function* function = take(module.body(index.value()));
  return {std::move(module), *function};
}

/// The sentence with which a text is refused; empty when it is taken.
inline std::string module_failure(const std::string& text) {
  const auto module = Module::parse(text);
  if (!module) return module.failure().message;
  for (std::size_t i = 0; i < module.value().functions().size(); ++i) {
    if (!module.value().functions()[i].has_body) continue;
    const auto body = module.value().body(i);
    if (!body) return body.failure().message;
  }
  return {};
}
inline std::string body_failure(const std::string& body) {
  return module_failure(head + ".entry k(.param .u64 p, .param .b32 q) {\n" + body + "\n}\n");
}

}  // namespace microscale::emulator::ptx
