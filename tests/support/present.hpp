// Which backends this machine can run, and a word about each that it cannot: a loop over backends
// is shorter there and would pass as if it had run them all.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "microscale/context.hpp"
#include "seam/kernel_table.hpp"

namespace microscale::test {

/// Says once in each test that it goes without `what`. scripts/junit_counts.py counts these lines,
/// and the closing line of `make test` has their number.
inline void note_absent(const std::string& what) {
  static std::set<std::pair<const ::testing::TestInfo*, std::string>> noted;
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (noted.emplace(test, what).second) std::printf("[  ABSENT  ] %s\n", what.c_str());
}

/// Those of `tables` that this processor has the instructions of.
inline std::vector<const KernelTable*> present(std::initializer_list<const KernelTable*> tables) {
  std::vector<const KernelTable*> here;
  for (const KernelTable* table : tables) {
    if (table->available())
      here.push_back(table);
    else
      note_absent(std::string(to_string(table->backend)));
  }
  return here;
}

/// The backends that this process may choose, the reference last. Each has every operation.
inline std::vector<Backend> host_backends() {
  const std::vector<Backend> here = available_backends();
  for (const Backend backend : {Backend::amx, Backend::avx512, Backend::avx2})
    if (std::ranges::find(here, backend) == here.end())
      note_absent(std::string(to_string(backend)));
  return here;
}

}  // namespace microscale::test
