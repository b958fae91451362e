#!/bin/sh
# Makes bugs.ptx of bugs.cu again (nvcc 13.0), without paths of this machine and debug sections.
cd "$(dirname "$0")" || exit 1
nvcc -ptx -arch=compute_80 -lineinfo -o - bugs.cu |
  sed -e '/^\t\.section/,/^\t}/d' -e 's/, function_name .*, inlined_at/, inlined_at/' -e 's|\(\.file.*"\).*/|\1|' > bugs.ptx
