"""Settings that all tests share."""

import os

import jax

from planner.verify.devices import HEARD
from tests.golden import golden, pytest_addoption

__all__ = ["golden", "pytest_addoption"]

# Tests that use the TPU compiler may run in several processes at once.
os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
# Some tests open topologies themselves, and compilers look only once whether their warnings are wanted.
os.environ.update(HEARD)
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 16)
