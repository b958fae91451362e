// Words of --bits, --fit and --menu.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "arguments.hpp"
#include "microscale/error.hpp"

namespace microscale {
namespace {

[[noreturn]] void wrong(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

double bits_from(const std::string& text) {
  char* end = nullptr;
  const double bits = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(bits) || bits <= 0)
    wrong(fmt::format("--bits got '{}'; it takes bits a weight, such as 4.75", text));
  return bits;
}

std::vector<MenuFormat> menu_from(const std::string& text) {
  const std::vector<std::string> names = choices_of("FORMATS");
  std::vector<MenuFormat> menu;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string name = text.substr(at, comma - at);
    const auto format = parse_menu_format(name);
    if (!format) {
      wrong(fmt::format("--menu does not know '{}'{}; name some of {}, with commas between them",
                        name, did_you_mean(name, names), fmt::join(names, ", ")));
    }
    menu.push_back(*format);
    at = comma + 1;
  }
  return menu;
}

}  // namespace

Budget budget_from(const std::string& bits, const std::string& fit, const std::string& menu,
                   const std::string& format) {
  Budget budget;
  if (!bits.empty()) budget.bits = bits_from(bits);
  if (!fit.empty()) budget.bytes = bytes_from("--fit", fit);
  if (!menu.empty()) budget.menu = menu_from(menu);
  if (budget.given() && !format.empty()) {
    wrong(
        fmt::format("--format gives all layers one format, and --{} chooses for each; leave one "
                    "out, or name what may be chosen with --menu",
                    budget.bits ? "bits" : "fit"));
  }
  if (!budget.given() && format.empty()) {
    wrong(
        "--format is required: nvfp4, mxfp4, mxfp8 or fp8; or a budget that chooses each layer's, "
        "--bits 4.75 or --fit 24GiB");
  }
  return budget;
}

}  // namespace microscale
