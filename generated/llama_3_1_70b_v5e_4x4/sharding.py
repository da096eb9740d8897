# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Where every array of llama-3.1-70b-v5e-4x4 lives on 16 chips of a v5e 4x4 slice.

The rule tables say which mesh axes cut each logical axis, major to minor; () means a copy everywhere. Weights are
stored as GENERATE says, and those of attention and mlp once more, which prefill reads; where PREFILL uses fewer
axes, weights are gathered just before use. Names of mesh axes appear in this file only.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Rules:
    """Mesh axes of each logical axis."""

    tokens: Axes = ()
    rows: Axes = ()
    batch: Axes = ()
    d_model: Axes = ()
    q_heads: Axes = ()
    kv_heads: Axes = ()
    kv_tokens: Axes = ()
    d_ff: Axes = ()
    vocab: Axes = ()


# Predicted 97.4 ms for a prompt of 1024 tokens, bound by compute.
PREFILL = Rules(
    tokens=("y0",),
    q_heads=("x", "y1"),
    kv_heads=("x", "y1"),
    d_ff=("x", "y1"),
    vocab=("x", "y0", "y1"),
)

# Predicted 9.98 ms a step of 32 slots, bound by HBM.
GENERATE = Rules(
    batch=("y0",),
    q_heads=("x", "y1", "y0"),
    kv_heads=("x", "y1"),
    d_ff=("x", "y0", "y1"),
    vocab=("x", "y0", "y1"),
)

# How the second copy of the attention weights is stored, which prefill reads.
COPIED_ATTENTION = Rules(
    q_heads=("x", "y1"),
    kv_heads=("x", "y1"),
)

# How the second copy of the MLP weights is stored, which prefill reads.
COPIED_MLP = Rules(
    d_ff=("x", "y1"),
)

EXCHANGED_SLOTS = ("y0",)  # batch axes that trade query heads for slots
CACHED_SLOTS = ("y0",)  # axes that cut the slots of the KV cache
OWN_TOKENS = ("y0",)  # token axes on which attention keeps its own queries
ATTENTION_SUMMED = ("x", "y1")  # head axes over which attention's output is summed
MLP_SUMMED = ("x", "y1")  # d_ff axes over which the MLP's output is summed
EMBEDDING_SUMMED = ("x", "y1")  # vocabulary axes over which prefill's embeddings are summed
EMBEDDING_TOKENS_0 = ("y0",)  # token axes of the embeddings, scattered by the sum over the vocabulary

MESH_AXES: Axes = ("x", "y0", "y1")
MESH_SHAPE = (4, 2, 2)
# Torus coordinates of the chips, in the order of the mesh's devices.
CHIPS: tuple[tuple[int, ...], ...] = (
    (0, 0),
    (0, 1),
    (0, 2),
    (0, 3),
    (1, 0),
    (1, 1),
    (1, 2),
    (1, 3),
    (2, 0),
    (2, 1),
    (2, 2),
    (2, 3),
    (3, 0),
    (3, 1),
    (3, 2),
    (3, 3),
)


class DeviceError(RuntimeError):
    """The devices at hand are not the chips the plan was made for."""


def make_mesh(devices: Sequence[jax.Device]) -> Mesh:
    """The planned mesh on `devices`: chips by their coordinates on a TPU, by index elsewhere."""
    if len(devices) < len(CHIPS):
        found = f"{len(devices)} {devices[0].platform} device{'s' if len(devices) > 1 else ''}"
        found += "; --devices cpu makes virtual ones" if devices[0].platform == "cpu" else ""
        raise DeviceError(f"the plan needs {len(CHIPS)} chips of a v5e 4x4 slice; found {found}")
    if len(devices) > len(CHIPS):
        print(f"using {len(CHIPS)} of {len(devices)} devices; the others stay idle", file=sys.stderr)
    chosen = _by_coordinates(devices) if devices[0].platform == "tpu" else list(devices[: len(CHIPS)])
    return Mesh(np.array(chosen, dtype=object).reshape(MESH_SHAPE), MESH_AXES)


def _by_coordinates(devices: Sequence[jax.Device]) -> list[jax.Device]:
    at = {tuple(device.coords): device for device in devices}
    if len(at) < len(devices):
        raise DeviceError(f"{len(devices)} devices share {len(at)} chips; this package drives one device a chip")
    planned = [chip + (0,) * (3 - len(chip)) for chip in CHIPS]
    if missing := [chip for chip in planned if chip not in at]:
        raise DeviceError(f"the plan uses the chip at {missing[0]}; there are chips at {sorted(at)}")
    return [at[chip] for chip in planned]


def partition(rules: Rules, *logical_axes: str | None) -> P:
    """The mesh axes of an array whose dimensions have these logical axes; None for a dimension that is never cut."""
    return P(*(getattr(rules, axis) or None if axis else None for axis in logical_axes))
