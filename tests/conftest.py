"""Settings that all tests share."""

import jax

from tests.golden import golden, pytest_addoption

__all__ = ["golden", "pytest_addoption"]

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 16)
