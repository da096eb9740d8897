# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""The devices of a run: virtual ones, those of this host, or those of all hosts that run the package together."""

import jax
import numpy as np
from jax.experimental import multihost_utils

from .sharding import CHIPS, DeviceError

DEVICE_KINDS: tuple[str, ...] = ("TPU v5 lite", "TPU v5e")
"""What jax calls v5e chips, or a part of it."""


def open_devices(
    virtual: bool, coordinator: str | None, processes: int | None, process: int | None
) -> list[jax.Device]:
    """All devices of the run. Raises DeviceError where they are not v5e chips, or not whole hosts of them.

    `virtual` makes CPU devices, as many as planned, in equal parts on all processes. `coordinator` is HOST:PORT of
    the first of the `processes`, this one being number `process`; "auto" asks the cluster.
    """
    if virtual:
        _make_virtual(processes or 1)
    if coordinator is not None:
        jax.distributed.initialize(None if coordinator == "auto" else coordinator, processes, process)
    devices: list[jax.Device] = jax.devices()
    if not virtual:
        _check_kind(devices)
    _check_hosts(devices)
    return devices


def _make_virtual(processes: int) -> None:
    if len(CHIPS) % processes:
        raise DeviceError(f"{len(CHIPS)} planned chips are not an equal number on each of {processes} processes")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", len(CHIPS) // processes)


def _check_kind(devices: list[jax.Device]) -> None:
    found = devices[0].device_kind
    if not any(kind in found for kind in DEVICE_KINDS):
        raise DeviceError(
            f"the plan is for v5e chips, and this machine has {found}; --devices cpu runs on virtual devices"
        )


def _check_hosts(devices: list[jax.Device]) -> None:
    """Every process must drive planned chips, and on a TPU a block of them: groups of chips are planned by host."""
    on_tpu = devices[0].platform == "tpu"
    sides = len(CHIPS[0])
    places = [tuple(each.coords[:sides]) if on_tpu else CHIPS[at % len(CHIPS)] for at, each in enumerate(devices)]
    for process in range(jax.process_count()):
        held = {place for place, each in zip(places, devices, strict=True) if each.process_index == process}
        if not held.intersection(CHIPS):
            raise DeviceError(f"process {process} drives none of the {len(CHIPS)} planned chips; run fewer processes")
        block = np.ptp(np.array(sorted(held)), axis=0) + 1
        if on_tpu and block.prod() != len(held):
            raise DeviceError(f"the chips of process {process} are no block of the slice: {sorted(held)}")


def is_first() -> bool:
    """Whether this process speaks for all of them."""
    return bool(jax.process_index() == 0)


def shared_line(line: str | None) -> str | None:
    """The line that the first process has read, on all processes; None where there are no more."""
    if jax.process_count() == 1:
        return line
    text = b"" if line is None else line.encode()
    length = int(multihost_utils.broadcast_one_to_all(np.int32(-1 if line is None else len(text))))
    if length < 0:
        return None
    letters = np.zeros(length, np.uint8)
    if is_first():
        letters[:] = np.frombuffer(text, np.uint8)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(letters))).decode()
