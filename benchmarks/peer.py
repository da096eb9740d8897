"""The decode step of jax-ml/jax-llm-examples (folder llama3), compiled from a checkout for the topology of a plan.

Nothing of it is copied here: its module is imported from the folder that the user gives, and asked for the abstract
arrays and the step that it has for everyone.
"""

import dataclasses
import importlib
import sys
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from planner.errors import CannotRun
from planner.plan.chosen import chosen_of
from planner.plan.machine import resolved_spec
from planner.plan.schema import Plan
from planner.plan.units import bytes_text, seconds_text
from planner.verify.devices import devices_for
from planner.verify.hlo import parse
from planner.verify.traffic import Pages, hbm_bytes
from planner.verify.transfers import transfers

FEWEST_KV_SHARDS = 4
"""Chips along the axis that cuts KV heads, as the checkout's own main.py has them."""


def peer_rows(checkout: Path, plan: Plan) -> Iterator[str]:
    """The peer's decode step for the model, batch, length and slice of a plan: with its kernel, and as it is by itself.

    Its kernel may not go with the jax that is installed.
    """
    for kernel in (True, False):
        name = f"  jax-llm-examples{', kernel' if kernel else ''}"
        try:
            yield f"{name:<36}{peer_row(checkout, plan, kernel)}"
        except (AttributeError, TypeError, ValueError, NotImplementedError) as error:
            yield f"{name:<36}{type(error).__name__}: {str(error).splitlines()[0]}"


def peer_row(checkout: Path, plan: Plan, kernel: bool) -> str:
    """One such step, in the columns of the plans."""
    import jax

    model = peer_module(checkout)
    devices = devices_for(plan, "tpu")
    axes = (jax.sharding.AxisType.Explicit,) * 3
    shape = (1, FEWEST_KV_SHARDS, len(devices) // FEWEST_KV_SHARDS)
    mesh = jax.make_mesh(shape, ("x", "y", "z"), devices=devices, axis_types=axes)
    config = peer_config(model, plan, mesh, kernel)
    with jax.sharding.set_mesh(mesh):
        weights = abstract(model, model.Weights, config)
        cache = abstract(model, model.KVCache, config, plan.generate.batch)
        rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, None))
        tokens = jax.ShapeDtypeStruct((plan.generate.batch, 1), "int32", sharding=rows)
        started = time.perf_counter()
        program = model.decode_step.lower(tokens, weights, cache, config).compile()
    return told(plan, program, held_bytes(weights, cache, plan), dict(mesh.shape), time.perf_counter() - started)


def peer_module(checkout: Path) -> Any:
    """The model module of a checkout; raises CannotRun where it, or what it imports, is not there."""
    folder = checkout / "llama3"
    if not (folder / "llama3_jax" / "model.py").exists():
        raise CannotRun(f"{checkout} has no llama3/llama3_jax: give a checkout of jax-ml/jax-llm-examples")
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("llama3_jax.model")
    except ImportError as error:
        raise CannotRun(f"the checkout needs another package: {error}") from None
    finally:
        sys.path.remove(str(folder))


def peer_config(model: Any, plan: Plan, mesh: Any, kernel: bool) -> Any:
    """The peer's configuration of a plan's model, with its kernel for decoding or without."""
    ours = resolved_spec(plan).model
    scaling = ours.rope.scaling if ours.rope else None
    told = {
        "hidden_size": ours.d_model,
        "intermediate_size": ours.d_ff,
        "num_attention_heads": ours.q_heads,
        "num_key_value_heads": ours.kv_heads,
        "num_hidden_layers": ours.layers,
        "head_dim": ours.head_dim,
        "vocab_size": ours.vocab,
        "rope_theta": ours.rope.theta if ours.rope else 1e4,
        "rope_scaling": {
            "factor": scaling.factor if scaling else 1.0,
            "low_freq_factor": scaling.low_freq_factor if scaling else 1.0,
            "high_freq_factor": scaling.high_freq_factor if scaling else 4.0,
            "original_max_position_embeddings": scaling.original_max_positions if scaling else 8192,
        },
    }
    return dataclasses.replace(
        model.llama_to_jax_config(told),
        mesh=mesh,
        max_seq_len=plan.generate.context,
        quant_layer=ours.weights.chosen == "int8",
        quant_cache=ours.kv_cache.chosen == "int8",
        use_decode_attn_kernel=kernel,
        # There is one chip along x, and the kernel wants slots that are not cut at all.
        rules=model.ShardingRules(batch=None) if kernel else model.ShardingRules(),
    )


def abstract(model: Any, kind: Any, config: Any, *sizes: int) -> Any:
    """The arrays of a kind as shapes on the mesh, without values."""
    import jax

    infos, shardings = kind.abstract(config, *sizes), kind.shardings(config, *sizes)
    return jax.tree.map(
        lambda info, sharding: jax.ShapeDtypeStruct(info.shape, info.dtype, sharding=sharding),
        infos,
        shardings,
        is_leaf=model.is_param,
    )


def held_bytes(weights: Any, cache: Any, plan: Plan) -> int:
    """Bytes of a chip's weights without the embedding, and of its share of keys and values at the mean length.

    The share is that of query heads, which all chips divide: the peer may keep a KV head on several chips.
    """
    import jax

    share = chosen_of(plan).load.mean_context / plan.generate.context
    used = dataclasses.replace(weights, embedding=())
    kept = sum(prod(each.shape) * each.dtype.itemsize for each in jax.tree.leaves((cache.k, cache.v)))
    return sum(chip_bytes(used)) + round(share * kept / len(plan.mesh.chips))


def chip_bytes(tree: Any) -> Iterator[int]:
    """Bytes on one chip of each array."""
    import jax

    for each in jax.tree.leaves(tree):
        yield prod(each.sharding.shard_shape(each.shape)) * each.dtype.itemsize


def told(plan: Plan, program: Any, least: int, sizes: dict[str, int], seconds: float) -> str:
    """A compiled step in the columns of the plans."""
    module, memory = parse(program.as_text()), program.memory_analysis()
    share = chosen_of(plan).load.mean_context / plan.generate.context
    found = sum(hbm_bytes(module, Pages(round(plan.generate.batch * share), 1)).values())
    sent = sum(each.bytes * each.count for each in transfers(module, sizes))
    return (
        f"{'generate':<14}{seconds_text(seconds):>9}{'':>12}{bytes_text(sent):>10}"
        f"{bytes_text(found):>11}{found / least:>9.3f}{bytes_text(memory.temp_size_in_bytes):>9}"
    )
