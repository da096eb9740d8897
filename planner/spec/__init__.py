"""A spec file -> a frozen Spec, or every mistake in it with its line.

SpecErrors              a spec that cannot be used; holds the diagnostics
└── UnreadableSpec      its file cannot be opened or is not text
"""

from planner.spec.diagnostic import (
    Diagnostic,
    Position,
    SpecErrors,
    UnreadableSpec,
    diagnostics_to_json,
    format_diagnostics,
)
from planner.spec.dtypes import leaves_dtypes_open, resolutions, with_dtypes
from planner.spec.dump import json_schema, spec_to_data, spec_to_yaml
from planner.spec.hf import bundled_models
from planner.spec.load import (
    Lines,
    check_spec,
    load_spec,
    load_with_lines,
    spec_from_data,
    spec_from_text,
    text_with_lines,
)
from planner.spec.model import Model
from planner.spec.pins import PINS, PinValue
from planner.spec.schema import Spec
from planner.spec.sizes import (
    is_packaged,
    kv_bytes_per_token,
    kv_values_per_token,
    parameter_count,
    unpackaged_features,
)
from planner.spec.validate import is_consistent

__all__ = [
    "PINS",
    "Diagnostic",
    "Lines",
    "Model",
    "PinValue",
    "Position",
    "Spec",
    "SpecErrors",
    "UnreadableSpec",
    "bundled_models",
    "check_spec",
    "diagnostics_to_json",
    "format_diagnostics",
    "is_consistent",
    "is_packaged",
    "json_schema",
    "kv_bytes_per_token",
    "kv_values_per_token",
    "leaves_dtypes_open",
    "load_spec",
    "load_with_lines",
    "parameter_count",
    "resolutions",
    "spec_from_data",
    "spec_from_text",
    "spec_to_data",
    "spec_to_yaml",
    "text_with_lines",
    "unpackaged_features",
    "with_dtypes",
]
