#!/bin/sh
# Makes the PTX beside each .cu again (nvcc 13.0); the faults in *_test.cpp name its registers. Paths of this machine,
# debug sections and the inlining notes of .loc are left out.
cd "$(dirname "$0")" || exit 1
for source in ${*:-*.cu}; do
  case $source in
    mx_tile.cu | nvfp4_tile.cu | attention.cu) target=compute_120f ;;
    nvfp4_tensor.cu | tensor_pair.cu) target=compute_100f ;;
    *) target=compute_90a ;;
  esac
  nvcc -ptx -arch=$target -lineinfo -fmad=false -o - "$source" |
    sed -e '/^\t\.section/,/^\t}/d' -e 's/, function_name .*$//' -e 's|\(\.file.*"\).*/|\1|' > "${source%.cu}.ptx"
done
