#!/usr/bin/env bash
# Called by run.sh: do microscale.torch, microscale.transformers and microscale.jax work? Installs the wheel.
# usage: scripts/test_clients/package.sh VENV
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/lib.sh
venv=$1

if scripts/make_wheel; then
  scripts/step "install the wheel" $venv/bin/pip --disable-pip-version-check install --no-deps --force-reinstall \
    build/wheel/*.whl
  python_tests $venv python/tests_torch
  python_tests $venv python/tests_transformers
  python_tests $venv python/tests_jax
else
  echo "python/tests_torch: NOT RUN: the wheel could not be built (see above)"
fi
closing "clients of our package"
