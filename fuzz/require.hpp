// A property that must hold for every input; libFuzzer keeps the input for which it does not.
#pragma once

#include <cstdio>
#include <cstdlib>

#define REQUIRE(condition)                                                 \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                        \
    }                                                                      \
  } while (false)
