"""Quantizes a model folder to NVFP4 and runs one of its layers from the new files, which are mapped and not copied.

MODEL=path/to/model WORK=some/folder python quantize_and_run_layer.py
"""

import os

import numpy as np

import microscale as ms

source, target = os.environ["MODEL"], os.path.join(os.environ["WORK"], "nvfp4")


def show(done, total, item):
    print(f"\r{done / max(total, 1):4.0%} {item[:60]:60}", end="")


plan = ms.quantize_model(source, target, "nvfp4", progress=show)
print(f"\n{plan.bytes_before} bytes of tensors became {plan.bytes_after}")

problems = ms.verify_model(target)
assert not problems, problems

dense, model = ms.open_checkpoint(source), ms.open_checkpoint(target)
name = next(name for name in model if isinstance(model[name], ms.BlockTensor))
weights = model[name]
print(name, weights)

layer = ms.pack_weights(weights)  # once; the products below read a third of BF16's bytes
x = np.random.default_rng(0).standard_normal((8, weights.shape[1])).astype(np.float32)
y = ms.matmul(x, layer)
wanted = x @ np.asarray(dense[name], np.float32).T
print(f"relative error of the layer: {np.linalg.norm(y - wanted) / np.linalg.norm(wanted):.3f}")
