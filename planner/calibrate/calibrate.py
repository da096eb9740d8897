"""Measure this machine, fit the constants, and put them beside the catalogue's."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from cost_models.chips import Chip, chip
from cost_models.stacks import CPU, Stack
from planner.calibrate.fit import Links, Sample, fit_links, predicted_s, typical_factor, with_links
from planner.calibrate.measure import Effort, Measured
from planner.errors import CannotRun

LEAST_SAMPLES = 3
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Constant:
    """One constant: measured here, and as the catalogue has it. `place` is its table in the catalogue."""

    place: str
    name: str
    measured: float
    catalogue: float
    source: str


@dataclass(frozen=True)
class Line:
    """One measured collective beside the time that the fit and the catalogue give it."""

    sample: Sample
    fitted_s: float
    catalogue_s: float


@dataclass(frozen=True)
class Calibration:
    """Everything measured on `devices` virtual devices that share `cores`.

    The factors say how far predictions of the measured collectives typically are off, with either constants.
    """

    devices: int
    cores: int
    constants: tuple[Constant, ...]
    collectives: tuple[Line, ...]
    drowned: int
    fitted_factor: float
    catalogue_factor: float


def calibrate(effort: Effort) -> Calibration:
    """Measure in a fresh process, and fit."""
    return calibration(effort.devices, os.cpu_count() or 1, run_measure(effort))


def run_measure(effort: Effort) -> Measured:
    """What `measure.py` measures; raises CannotRun without jax or when it fails."""
    if importlib.util.find_spec("jax") is None:
        raise CannotRun("calibrate measures with jax, which is not installed: pip install 'shardwright[run]'")
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "planner.calibrate.measure", json.dumps(asdict(effort))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CannotRun(f"the measurement on {effort.devices} virtual devices failed: {last}")
    measured = Measured.read(done.stdout.strip().splitlines()[-1])
    if len(measured.samples) < LEAST_SAMPLES:
        raise CannotRun(f"{measured.drowned} collectives drowned in noise; try again on a quieter machine")
    return measured


def calibration(devices: int, cores: int, measured: Measured) -> Calibration:
    """Measurements as constants beside the catalogue's."""
    host, stack = chip("cpu"), CPU
    links = fit_links(measured.samples, host, stack)
    fitted = with_links(links, host, stack)
    lines = tuple(
        Line(sample, predicted_s(sample, *fitted), predicted_s(sample, host, stack)) for sample in measured.samples
    )
    return Calibration(
        devices=devices,
        cores=cores,
        constants=tuple(constants(measured, links, host, stack)),
        collectives=lines,
        drowned=measured.drowned,
        fitted_factor=typical_factor(measured.samples, *fitted),
        catalogue_factor=typical_factor(measured.samples, host, stack),
    )


def constants(measured: Measured, links: Links, host: Chip, stack: Stack) -> list[Constant]:
    """Each constant of the catalogue that was measured."""
    flops, hop_s = "peak_flops_per_s.float32", host.ici_hop_s if stack.hop_s is None else stack.hop_s
    on_chip = (
        (flops, measured.flops_per_s, host.flops_per_s("float32")),
        ("hbm_bytes_per_s", measured.bytes_per_s, host.hbm_bytes_per_s),
        ("ici_bytes_per_s", links.bytes_per_s, host.ici_bytes_per_s),
        ("ici_hop_s", links.hop_s, hop_s),
    )
    in_stack = (
        ("collective_launch_s", links.launch_s, stack.collective_launch_s),
        ("step_s", measured.step_s, stack.step_s),
    )
    return [
        *(Constant("chip cpu", name, value, listed, host.sources[name]) for name, value, listed in on_chip),
        *(Constant("stack cpu", name, value, listed, stack.sources[name]) for name, value, listed in in_stack),
    ]
