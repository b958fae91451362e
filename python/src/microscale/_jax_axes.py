"""Mesh axes within jax.shard_map over which an array differs from device to device ("varying"), which
foreign functions do not hand on by themselves."""

from __future__ import annotations

from typing import Any


def axes_of(*arrays: Any) -> frozenset[Any]:
    """Names of the axes over which one of the arrays varies."""
    import jax

    names: frozenset[Any] = frozenset()
    for array in arrays if hasattr(jax, "typeof") else ():
        kind = jax.typeof(array)
        of_type = getattr(kind, "manual_axis_type", None)  # since jax 0.10
        names |= getattr(kind, "vma", frozenset()) if of_type is None else of_type.varying
    return names


def varying(array: Any, axes: frozenset[Any]) -> Any:
    """The array as one that varies over all of `axes`."""
    missing = tuple(axes - axes_of(array)) if axes else ()
    if not missing:
        return array
    import jax

    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, missing, to="varying")
    return jax.lax.pvary(array, missing)


def result_over(axes: frozenset[Any], result: Any) -> Any:
    """A ShapeDtypeStruct as one that varies over `axes`."""
    if not axes:
        return result
    import jax

    words: dict[str, Any] = {"vma": axes}
    if hasattr(jax.sharding, "ManualAxisType"):  # since jax 0.10
        mesh = jax.sharding.get_abstract_mesh()
        words = {
            "manual_axis_type": jax.sharding.ManualAxisType(varying=axes),
            "sharding": jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec()),
        }
    return jax.ShapeDtypeStruct(result.shape, result.dtype, **words)
