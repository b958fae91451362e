"""Breaks each guard of check_house.py once in a scratch tree and looks for exactly that finding."""
import tempfile
from pathlib import Path

CLEAN = {
    "README.md": "See `src/core/a.cpp` and [how](HACKING.md); run `make test`.\n",
    "HACKING.md": "Formats: `src/core/*.cpp`, `src/core/{a,b}.cpp`; `tests/<folder>/x` is a placeholder.\n",
    "include/microscale/a.hpp": '#include <vector>\n#include "microscale/b.hpp"\n',
    "include/microscale/b.hpp": "#pragma once\n",
    "src/core/a.cpp": "int a() { return 1; }\n",
    "src/core/b.cpp": "int b() { return 1; }\n",
    "src/core/constants.hpp": "inline constexpr int three = 3;\n",
    "src/cpu/avx2/quantize.cpp": "#include <immintrin.h>\n",
    "src/cuda/ptx/mma.cuh": 'inline void mma() { asm volatile("mma"); }\n',
    "src/cuda/quantize/copy.cuh": '#include <cuda_fp8.h>\n#include "cuda/ptx/mma.cuh"\n',
    "python/src/microscale/_a.py": "def f():\n    import numpy\n",
    "python/src/microscale/torch/_b.py": "import torch\n",
    "tests/core/a_test.cpp": "// tests a\n",
    "tests/core/b_test.cpp": "// tests b\n",
    "tests/cpu/avx2_quantize_test.cpp": "// tests avx2/quantize\n",
    "tests/articles/numbers_test.cpp": "// mirrors nothing, and may\n",
}

# What is written or removed (None), and what the one finding must contain.
BROKEN = [
    ("a source without a test", {"tests/core/b_test.cpp": None}, "src/core/b.cpp:1: no test mirrors it"),
    ("a header with code, untested", {"src/core/c.hpp": "inline int c() {\n  return 1;\n}\n"},
     "src/core/c.hpp:1: no test mirrors it"),
    ("asm outside ptx", {"src/core/a.cpp": 'int a() {\n  asm("nop");\n}\n'}, "src/core/a.cpp:2: inline assembly"),
    ("intrinsics outside cpu", {"src/core/a.cpp": "#include <immintrin.h>\n"},
     "src/core/a.cpp:1: CPU intrinsics"),
    ("a room that knows one above it", {"src/core/a.cpp": '#include "ops/check.hpp"\n'},
     "src/core/a.cpp:1: includes ops/, which core must not know"),
    ("a room beside the table", {"src/attic/a.hpp": "#pragma once\n"},
     "src/attic/a.hpp:1: src/attic is no room of the table"),
    ("fmt in a public header", {"include/microscale/b.hpp": "#include <fmt/format.h>\n"},
     "include/microscale/b.hpp:1: includes fmt/format.h"),
    ("a private header in a public one", {"include/microscale/b.hpp": '#include "core/a.hpp"\n'},
     "include/microscale/b.hpp:1: includes core/a.hpp"),
    ("torch in device code", {"src/cuda/quantize/copy.cuh": "#include <torch/extension.h>\n"},
     "src/cuda/quantize/copy.cuh:1: includes torch/extension.h"),
    ("a package that loads a framework", {"python/src/microscale/_a.py": "from torch import nn\n"},
     "python/src/microscale/_a.py:1: imports torch when it is loaded"),
    ("two types of one name", {"src/core/constants.hpp": "namespace n {\nstruct A {};\n}\n",
                               "src/core/names.hpp": "namespace n {\nenum class A : int { a };\n}\n"},
     "src/core/names.hpp:2: defines n::A, as src/core/constants.hpp does"),
    ("a long file", {"src/core/a.cpp": "//\n" * 401}, "src/core/a.cpp:401: 401 lines"),
    ("a long public header", {"include/microscale/b.hpp": "//\n" * 251},
     "include/microscale/b.hpp:251: 251 lines"),
    ("a wide line", {"src/core/a.cpp": "// " + "x" * 107 + "\n"}, "src/core/a.cpp:1: 110 columns"),
    ("a non-ASCII source", {"src/core/a.cpp": "// 4\u00d7\n"}, "src/core/a.cpp:1: non-ASCII character U+00D7"),
    ("a path of a machine", {"README.md": "cd /home/me/microscale\n"}, "README.md:1: a path of one machine"),
    ("work left for later", {"src/core/a.cpp": "// TODO: finish\n"}, "src/core/a.cpp:1: work left for later"),
    ("a merge half done", {"README.md": "<<<<<<< HEAD\n"}, "README.md:1: a mark of a merge"),
    ("a path that is gone", {"HACKING.md": "Open `src/core/zz.cpp`.\n"}, "HACKING.md:1: names src/core/zz.cpp"),
    ("a comment about a file that is gone", {"src/core/a.cpp": "// As in zz.hpp.\nint a() { return 1; }\n"},
     "src/core/a.cpp:1: names zz.hpp"),
    ("a link that is gone", {"README.md": "[docs](docs/none.md)\n"}, "README.md:1: names docs/none.md"),
    ("one of a brace list is gone", {"HACKING.md": "`src/core/{a,zz}.cpp`\n"}, "HACKING.md:1: names src/core/{a"),
]


def tree_with(changes, folder):
    for name, text in {**CLEAN, **changes}.items():
        if text is not None:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def self_test(findings):
    failures = []
    cases = [("a clean tree", {}, None)] + BROKEN
    for what, changes, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            tree_with(changes, folder)
            found, _ = findings(folder)
        fine = not found if expected is None else len(found) == 1 and found[0].startswith(expected)
        if not fine:
            failures.append(f"{what}: expected {expected or 'no finding'}, found {found or 'none'}")
    for line in failures:
        print(line)
    print(f"check_house self-test: {len(cases) - len(failures)} of {len(cases)} cases")
    return 1 if failures else 0
