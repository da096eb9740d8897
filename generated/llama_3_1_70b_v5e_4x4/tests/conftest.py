# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""As many virtual CPU devices as the plan has chips."""

import jax

from ..sharding import CHIPS

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", len(CHIPS))
