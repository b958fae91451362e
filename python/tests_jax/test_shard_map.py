"""Within jax.shard_map on four devices of the CPU: values and gradients are those of one device."""

import os
import subprocess
import sys

import pytest

SETUP = """
import functools
import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec as P
import microscale.jax as msj

mesh = Mesh(jax.devices(), ("d",))
assert mesh.size == 4
weights, x = jax.random.normal(jax.random.key(0), (128, 256)), jax.random.normal(jax.random.key(1), (8, 256))
w = msj.quantize(weights, FORMAT)
one = None if w.global_scale is None else P()
in_rows = msj.BlockArray(P("d"), P("d"), one, format=w.format)

def mapped(function, inputs, output):
    return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=output)

def near(one, other):
    assert jnp.allclose(one, other, rtol=1e-3, atol=1e-2), jnp.abs(one - other).max()
"""


def run(code, format="nvfp4"):
    flags = "--xla_force_host_platform_device_count=4"  # read when jax begins: in a process of its own
    code = SETUP.replace("FORMAT", repr(format)) + code
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("format", ["nvfp4", "mxfp4"])
def test_products_and_their_gradients(format):
    run(
        """
def loss(product):
    return lambda x: (product(x, w) ** 2).sum()

wanted = jax.grad(loss(msj.matmul))(x)
rows = mapped(msj.matmul, (P("d"), P()), P("d"))          # each device has some rows of x
columns = mapped(msj.matmul, (P(), in_rows), P(None, "d"))  # each has some rows of the weights
for product in (rows, columns):
    near(product(x, w), msj.matmul(x, w))
    near(jax.grad(loss(product))(x), wanted)
    near(jax.jit(jax.grad(loss(product)))(x), wanted)
""",
        format,
    )


def test_other_functions_know_that_they_differ():
    run("""
near(mapped(lambda w: w.dequantize(), (in_rows,), P("d"))(w), w.dequantize())
q = jax.random.normal(jax.random.key(2), (4, 5, 2, 64))
near(mapped(msj.attention, (P("d"),) * 3, P("d"))(q, q, q), msj.attention(q, q, q))
each = msj.BlockArray(P("d"), P("d"), P("d"), format="nvfp4")
assert mapped(msj.quantize, P("d"), each)(weights).global_scale.shape == (4,)
fixed = mapped(lambda x, s: msj.quantize(x, global_scale=s), (P("d"), P()), each)(weights, w.global_scale)
assert (fixed.codes == w.codes).all()
try:
    mapped(msj.matmul, (P("d"), P()), P())(x, w)
except ValueError as error:
    assert "replication" in str(error)
else:
    raise AssertionError("results that differ were taken for equal ones")
""")
