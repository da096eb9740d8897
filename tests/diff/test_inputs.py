"""Changed inputs are told as their author wrote them, and specs between two others hold what they should."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.diff.inputs import changed_inputs, mixed, unfilled
from planner.spec import load_spec, spec_from_data, spec_to_data
from tests.plans_of import SPECS

SPEC = SPECS / "smollm2_135m_cpu8.yaml"


def data(*overrides: str) -> dict[str, Any]:
    return spec_to_data(load_spec(SPEC, overrides))


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (("limits.tpot=100 ms",), [("limits.tpot", "", "100 ms")]),
        (("hardware.slice=4x4",), [("hardware.slices", "2x4", "4x4")]),
        (('hardware={chip: cpu, slices: ["2x4", "4x4"]}',), [("hardware.slices", "2x4", "2x4 or 4x4")]),
        (("pins.generate.batch=8",), [("pins.generate.batch", "", "8")]),
        (("pins.generate.d_ff=[x, y]",), [("pins.generate.d_ff", "", "x, y")]),
        (
            ("workload.prompt_tokens={mean: 64, p95: 512}",),
            [("workload.prompt_tokens", "mean 64, p95 256", "mean 64, p95 512")],
        ),
        (("workload.max_context=1024",), [("workload.max_context", "p95 prompt + p95 output", "1024")]),
        (("workload.requests_per_s=2",), [("workload.requests_per_s", "", "2.0")]),
        (
            ("model.config=llama-3.2-1b",),
            [("model", "llama, 0.135 B parameters, 30 layers", "llama, 1.24 B parameters, 16 layers")],
        ),
        (
            ("hardware={chip: v5e, slice: 2x2}",),
            [("hardware.chip", "chip cpu, slices 2x4", "chip v5e, slices 2x2")],
        ),
        (("name=other",), [("name", "smollm2-135m-cpu8", "other")]),
        ((), []),
    ],
)
def test_an_input_is_told_as_one(overrides: tuple[str, ...], told: list[tuple[str, str, str]]) -> None:
    found = changed_inputs(data(), data(*overrides))
    assert [(each.address, each.base, each.head) for each in found] == told


OVERRIDES = (
    "limits.tpot=100 ms",
    "limits.ttft=2 s",
    "hardware.slice=4x4",
    "workload.concurrency=16",
    "workload.prompt_tokens={mean: 64, p95: 512}",
    "workload.max_context=1024",
    "pins.generate.kv_cache=heads",
    "serving.chunked_prefill=auto",
    "model.kv_cache.page_tokens=32",
    "objective=latency",
)


@settings(deadline=None)
@given(st.sets(st.sampled_from(OVERRIDES)), st.sets(st.sampled_from(OVERRIDES)), st.data())
def test_specs_between_two_others(before: set[str], after: set[str], drawn: st.DataObject) -> None:
    base, head = data(*sorted(before)), data(*sorted(after))
    addresses = [each.address for each in changed_inputs(base, head)]
    assert mixed(base, head, ()) == unfilled(base)
    assert spec_from_data(mixed(base, head, addresses)) == spec_from_data(head)
    some = drawn.draw(st.sets(st.sampled_from(addresses))) if addresses else set()
    between = mixed(base, head, some)
    assert {each.address for each in changed_inputs(base, between)} == some
    assert {each.address for each in changed_inputs(between, head)} == set(addresses) - some
