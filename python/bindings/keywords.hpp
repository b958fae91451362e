// Keywords that many functions have: parameters, nanobind's arguments, the signature's text, and
// the words made of the parameters. Macros, because a lambda's parameters and a text cannot come
// from a function.
#pragma once

#define RUN_PARAMETERS nb::handle backend, nb::handle threads, nb::handle stream
#define RUN_WORDS \
  RunWords { backend, threads, stream }
#define RUN_ARGUMENTS \
  nb::arg("backend") = nb::none(), nb::arg("threads") = nb::none(), nb::arg("stream") = nb::none()
#define RUN_SIGNATURE \
  "backend: str | None = None, threads: int | None = None, stream: Stream = None"

#define NUMERIC_PARAMETERS                                                                       \
  nb::handle scale_rule, nb::handle rounding, nb::handle compat, nb::handle nan, nb::handle inf, \
      nb::handle zero_code, std::uint64_t seed
#define NUMERIC_WORDS \
  NumericWords { scale_rule, rounding, compat, nan, inf, zero_code, seed }
#define NUMERIC_ARGUMENTS                                                                   \
  nb::arg("scale_rule") = nb::none(), nb::arg("rounding") = nb::none(),                     \
  nb::arg("compat") = nb::none(), nb::arg("nan") = nb::none(), nb::arg("inf") = nb::none(), \
  nb::arg("zero_code") = nb::none(), nb::arg("seed") = 0
#define NUMERIC_SIGNATURE                                                                        \
  "scale_rule: str | None = None, rounding: str | None = None, compat: str | None = None, nan: " \
  "str | None = None, inf: str | None = None, zero_code: str | None = None, seed: int = 0, "
