#!/bin/sh
# Makes the PTX beside each .cu again (nvcc 13.0), without comments and debug lines.
cd "$(dirname "$0")" || exit 1
for source in ${*:-*.cu}; do
  nvcc -ptx -arch=compute_90a -std=c++20 -fmad=false -I ../../../src -o - "$source" |
    sed -e 's|[ \t]*//.*$||' -e '/^$/d' > "${source%.cu}.ptx"
done
