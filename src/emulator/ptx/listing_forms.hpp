// What each register of a listing holds, as a form of the launch's numbers and the lane.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator/ptx/ast.hpp"
#include "emulator/ptx/lane_form.hpp"
#include "emulator/ptx/listing_reaching.hpp"
#include "emulator/ptx/listing_regions.hpp"
#include "emulator/ptx/module.hpp"

namespace microscale::emulator::ptx {

/// Whether it computes with floats.
bool is_real(const Instruction& instruction);

/// Forms of the registers, found by reading the code over until nothing changes. A symbol that
/// starts with `?` stands for a value that differs from lane to lane in a way that is not known.
class Forms {
 public:
  Forms(const Module& module, const Function& body, const Extent& block = {});

  /// Of an operand of the instruction `at`.
  Form address(const Operand& operand, std::uint32_t at) const;
  LaneForm lanes(const Form& form) const { return symbols_.lanes(form); }

  bool varies(const Form& form) const;
  static bool unknown(const Form& form);

 private:
  static constexpr int patience = 6, most_passes = 40;

  const Variable& variable(const Operand& operand) const;
  Form value(const Operand& operand) const { return value(operand, at_); }
  Form value(const Operand& operand, std::uint32_t at) const;
  Form held(std::uint32_t reg, std::uint32_t at) const;
  std::string name(std::uint32_t reg) const { return std::string(body_.registers[reg].name); }
  Form self(std::uint32_t reg) const { return Form("=" + name(reg)); }  // before it is settled
  Form opaque(std::uint32_t reg, bool differs) const;
  std::optional<Form> kernel_param(const Instruction& in) const;
  std::optional<Form> computed(const Instruction& in);
  std::optional<Form> bits(const Instruction& in);
  std::optional<Form> chosen(const Instruction& in);
  std::optional<Form> either(const Form& one, const Form& other, const std::string& name);
  std::string own_name(std::uint32_t reg) const;
  std::optional<Form> merged(std::uint32_t reg, int pass);
  std::optional<Form> piece(const std::string& text, const std::string& name,
                            const std::optional<LaneForm>& value, const Form& same);
  void read(const Instruction& in);
  void settle(int pass);
  void give_up();
  bool lanes_agree(std::uint32_t reg) const;
  bool lanes_agree(std::uint32_t write, std::uint32_t read) const;
  bool parts_lanes(const Regions::Branch& branch) const;

  const Module& module_;
  const Function& body_;
  const Regions regions_;
  const std::vector<Places> places_;
  const Reaching reaching_;
  LaneSymbols symbols_;
  std::uint32_t at_ = 0;                  // the instruction that is read
  std::map<std::uint32_t, Form> values_;  // of each register, anywhere
  std::map<std::pair<std::uint32_t, std::uint32_t>, Form>
      written_;  // of registers that several instructions write
  std::vector<std::vector<Form>> definitions_;
  std::set<std::uint32_t> settled_many_, given_up_;
};

}  // namespace microscale::emulator::ptx
