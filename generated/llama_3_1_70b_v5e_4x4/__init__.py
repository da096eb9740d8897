# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""llama-3.1-70b-v5e-4x4 on a v5e 4x4 slice, served as plan.yaml says."""

from .config import MODEL, TINY, Config
from .engine import Engine, Prefilled, Token
from .generate import lower_generate
from .kv_cache import lower_insert
from .prefill import lower_prefill
from .sampling import Sampling
from .scheduler import Limits, Scheduler
from .sequence import Event, Request
from .sharding import make_mesh

__all__ = [
    "MODEL",
    "TINY",
    "Config",
    "Engine",
    "Event",
    "Limits",
    "Prefilled",
    "Request",
    "Sampling",
    "Scheduler",
    "Token",
    "lower_generate",
    "lower_insert",
    "lower_prefill",
    "make_mesh",
]
