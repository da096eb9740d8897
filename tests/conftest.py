"""Settings that all tests share."""

import gc
import os

import jax

from planner.verify.devices import HEARD
from tests.golden import golden, pytest_addoption

__all__ = ["golden", "pytest_addoption"]

# Tests that use the TPU compiler may run in several processes at once.
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
# Some tests open topologies themselves, and compilers look only once whether their warnings are wanted.
os.environ.update(HEARD)
# What is tested here is compiled once and run for a moment: code that is made fast takes longer than it saves.
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)
gc.set_threshold(200_000, 50, 100)  # of millions of objects few are garbage
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 16)
