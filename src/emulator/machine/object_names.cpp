#include "emulator/machine/object_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "emulator/finding.hpp"
#include "emulator/kernel_name.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/ptx/shared_layout.hpp"

namespace microscale::emulator {
namespace {

using ptx::Space;

/// "x", "x + 12", "x - 4".
std::string with_offset(std::string_view name, std::int64_t offset) {
  if (offset == 0) return std::string(name);
  return fmt::format("{} {} {}", name, offset < 0 ? '-' : '+', offset < 0 ? -offset : offset);
}

struct SharedArray {
  std::string name;
  std::int64_t offset = 0, bytes = 0;  // 0 bytes: the dynamic one, to the end
};

/// The arrays in shared memory that a kernel and what it calls use, by offset.
std::vector<SharedArray> shared_arrays(const ptx::Module& text, const std::string& kernel) {
  std::vector<SharedArray> arrays;
  const auto entry = text.find(kernel);
  if (!entry) return arrays;
  const Result<ptx::SharedLayout> layout = ptx::shared_layout(text, *entry);
  if (!layout) return arrays;
  for (std::size_t i = 0; i < layout.value().module_offset.size(); ++i)
    if (layout.value().module_offset[i] >= 0)
      arrays.push_back({variable_name(std::string(text.variables()[i].name)),
                        layout.value().module_offset[i], text.variables()[i].bytes});
  for (std::size_t i = 0; i < layout.value().function_offset.size(); ++i) {
    if (layout.value().function_offset[i] < 0) continue;
    const Result<const ptx::Function*> body = text.body(i);
    if (!body) continue;
    for (const ptx::Variable& each : body.value()->variables)
      if (each.space == Space::shared)
        arrays.push_back({variable_name(std::string(each.name)),
                          layout.value().function_offset[i] + each.offset, each.bytes});
  }
  std::sort(arrays.begin(), arrays.end(),
            [](const SharedArray& a, const SharedArray& b) { return a.offset < b.offset; });
  return arrays;
}

/// The last array that begins at or before the offset.
std::string shared_object(const std::vector<SharedArray>& arrays, std::int64_t offset) {
  const SharedArray* found = nullptr;
  for (const SharedArray& each : arrays)
    if (each.offset <= offset) found = &each;
  return found ? with_offset(found->name, offset - found->offset) : "";
}

std::string global_object(const GlobalMemory& memory, std::uint64_t address) {
  // Farther away than a red zone it is as likely to be meant for something else.
  const Allocation* near = address ? memory.nearest(address) : nullptr;
  if (!near || near->name.empty() || address + GlobalMemory::red_zone < near->begin ||
      address > near->end + GlobalMemory::red_zone)
    return "";
  return with_offset(variable_name(near->name), static_cast<std::int64_t>(address - near->begin));
}

}  // namespace

void name_objects(std::vector<Finding>& findings, const GlobalMemory& memory,
                  const LoadedModule& module, const std::string& kernel) {
  std::optional<std::vector<SharedArray>> arrays;
  for (Finding& each : findings) {
    switch (space_of(each)) {
      case AddressSpace::global:
        each.object = global_object(memory, each.address);
        break;
      case AddressSpace::shared:
        if (!arrays) arrays = shared_arrays(module.text(), kernel);
        each.object = shared_object(*arrays, static_cast<std::int64_t>(each.address & 0xffff'ffff));
        break;
      case AddressSpace::other:
        if ((each.address & window_mask) == constant_window) {
          const auto [name, offset] = module.constant_at(each.address & ~window_mask);
          if (!name.empty())
            each.object =
                with_offset(variable_name(std::string(name)), static_cast<std::int64_t>(offset));
        }
        break;
      default:
        break;
    }
  }
}

}  // namespace microscale::emulator
