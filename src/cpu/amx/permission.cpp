#include "cpu/amx/permission.hpp"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace microscale::amx {
namespace {

constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM of arch_prctl
constexpr long tile_data = 18;               // the state component of the tiles

bool ask() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned needed = 1u << 22 | 1u << 23 | 1u << 24;  // BF16 products, FP16, tiles
  if ((d & needed) != needed) return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

bool permitted() {
  static const bool answer = ask();
  return answer;
}

}  // namespace microscale::amx
