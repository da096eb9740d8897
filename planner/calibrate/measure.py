"""Micro-benchmarks on virtual CPU devices; runs in a process of its own, since jax fixes its devices when it starts.

`python -m planner.calibrate.measure EFFORT`, EFFORT as JSON, prints what was measured as JSON. All devices work at
once, as they do in a step: on a host with fewer cores they share them.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from typing import Any

from planner.calibrate.fit import Sample
from planner.problem.primitives import CollectiveKind

FLOAT_BYTES = 4
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "all_reduce", "all_to_all")


@dataclass(frozen=True)
class Effort:
    """How much is measured: sizes of operands, chained collectives in one program, and timed runs of each."""

    devices: int
    matmul_rows: int = 512
    matmul_width: int = 1024
    read_bytes: int = 64 * 1024 * 1024
    collective_bytes: tuple[int, ...] = (256, 65_536, 1_048_576, 4_194_304)
    chained: int = 16
    runs: int = 7


@dataclass(frozen=True)
class Measured:
    """What was measured, per device, all devices at once; `drowned` counts collectives that noise hid."""

    flops_per_s: float
    bytes_per_s: float
    step_s: float
    samples: tuple[Sample, ...]
    drowned: int

    @classmethod
    def read(cls, text: str) -> "Measured":
        """The measurement that a process printed."""
        data = json.loads(text)
        samples = tuple(Sample(**each) for each in data.pop("samples"))
        return cls(**data, samples=samples)


def main(argument: str) -> None:
    """Measure and print."""
    data = json.loads(argument)
    effort = Effort(**{**data, "collective_bytes": tuple(data["collective_bytes"])})
    print(json.dumps(asdict(measure(effort))))


def measure(effort: Effort) -> Measured:
    """Everything, on the devices of this process."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", effort.devices)
    tried = [
        Sample(kind, ways, size, collective_s(kind, ways, size, effort))
        for ways in lines(effort.devices)
        for size in effort.collective_bytes
        for kind in KINDS
    ]
    kept = tuple(sample for sample in tried if sample.seconds > 0)
    return Measured(matmul_flops_per_s(effort), read_bytes_per_s(effort), step_s(effort), kept, len(tried) - len(kept))


def lines(devices: int) -> list[int]:
    """How many devices talk: 2, 4, 8, 16 as far as there are, and all of them up to 16."""
    most = min(devices, 16)
    return sorted({ways for ways in (2, 4, 8, 16) if ways <= most} | {most})


def mapped(function: Callable[..., Any], devices: int, operands: int) -> Callable[..., Any]:
    """`function` on each of `devices` at once, operands cut by rows."""
    import jax
    from jax.sharding import Mesh, PartitionSpec

    mesh = Mesh(jax.devices()[:devices], ("y",))
    rows = PartitionSpec("y")
    placed = jax.shard_map(function, mesh=mesh, in_specs=(rows,) * operands, out_specs=rows, check_vma=False)
    compiled: Callable[..., Any] = jax.jit(placed)
    return compiled


def operand(devices: int, rows: int, *rest: int) -> Any:
    """Ones, `rows` of them on each device, placed there."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(jax.devices()[:devices], ("y",))
    ones = jax.numpy.ones((devices * rows, *rest), jax.numpy.float32)
    return jax.device_put(ones, NamedSharding(mesh, PartitionSpec("y")))


def seconds_of(runs: int, *programs: Callable[[], Any]) -> list[float]:
    """Least seconds of each program, taken in turns; the first run of each, which compiles, is left out."""
    import jax

    least = [inf for _ in programs]
    for program in programs:
        jax.block_until_ready(program())
    for _ in range(runs):
        for index, program in enumerate(programs):
            started = time.perf_counter()
            jax.block_until_ready(program())
            least[index] = min(least[index], time.perf_counter() - started)
    return least


def matmul_flops_per_s(effort: Effort) -> float:
    """Operations per second of one device in a float32 matmul."""
    rows, width = effort.matmul_rows, effort.matmul_width
    left, right = operand(effort.devices, rows, width), operand(effort.devices, width, width)
    run = mapped(lambda x, w: x @ w, effort.devices, 2)
    (seconds,) = seconds_of(effort.runs, lambda: run(left, right))
    return 2 * rows * width * width / seconds


def read_bytes_per_s(effort: Effort) -> float:
    """Bytes per second of one device in a float32 matrix-vector product."""
    width = 1024
    rows = max(1, effort.read_bytes // (FLOAT_BYTES * width))
    matrix, vector = operand(effort.devices, rows, width), operand(effort.devices, width)
    run = mapped(lambda m, v: m @ v, effort.devices, 2)
    (seconds,) = seconds_of(effort.runs, lambda: run(matrix, vector))
    return rows * width * FLOAT_BYTES / seconds


def step_s(effort: Effort) -> float:
    """Seconds to start a program that does next to nothing."""
    ones = operand(effort.devices, 1)
    run = mapped(lambda x: x + 1, effort.devices, 1)
    return seconds_of(effort.runs, lambda: run(ones))[0]


def collective_s(kind: CollectiveKind, ways: int, size: int, effort: Effort) -> float:
    """Seconds of one collective: a chain of them in one program, less a program with one, divided by the rest.

    Not positive when a disturbance drowned it.
    """
    import jax

    elements = max(ways, size // FLOAT_BYTES // ways * ways)
    shard = elements // ways if kind == "all_gather" else elements
    ones = operand(ways, shard)
    once = {"all_gather": gathered, "all_reduce": reduced, "all_to_all": exchanged}[kind]

    def chain(count: int, x: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, carry: once(carry), x)

    long, short = (mapped(partial(chain, count), ways, 1) for count in (1 + effort.chained, 1))
    long_s, short_s = seconds_of(effort.runs, lambda: long(ones), lambda: short(ones))
    return (long_s - short_s) / effort.chained


def gathered(x: Any) -> Any:
    """A gather whose result is needed, as large as before."""
    import jax

    whole = jax.lax.all_gather(x, "y", tiled=True)
    return 0.5 * (whole[: x.shape[0]] + whole[-x.shape[0] :])


def reduced(x: Any) -> Any:
    """A sum over devices, kept from growing."""
    import jax

    return jax.lax.psum(x, "y") * 0.5


def exchanged(x: Any) -> Any:
    """A full exchange."""
    import jax

    return jax.lax.all_to_all(x, "y", split_axis=0, concat_axis=0, tiled=True)


if __name__ == "__main__":
    main(sys.argv[1])
