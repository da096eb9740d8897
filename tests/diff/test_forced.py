"""What a change forces on a running service: each word where it holds, and not where it does not."""

import pytest

from planner.diff import compare
from planner.plan.records import Fleet
from planner.plan.schema import Plan
from tests.plans_of import example_plan

SMOLLM2 = "smollm2_135m_cpu8"
APART = ("serving.mode=disaggregated", "hardware.fleet_chips=16")


def plan(*overrides: str) -> Plan:
    return example_plan(SMOLLM2, *overrides)


def forced(base: Plan, head: Plan) -> list[str]:
    return [each.force for each in compare(base, head).forced]


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ((), (), []),
        ((), ("limits.tpot=1 s",), []),
        (("name=a",), ("name=b",), []),
        (
            (),
            ("hardware.slice=4x4",),
            ["reshard_weights", "drop_kv_cache", "recompile", "other_slices", "more_chips"],
        ),
        (
            ("hardware.slice=4x4",),
            (),
            ["reshard_weights", "drop_kv_cache", "recompile", "other_slices", "fewer_chips"],
        ),
        ((), ("model.kv_cache.page_tokens=32",), ["drop_kv_cache", "recompile"]),
        ((), ("workload.prompt_tokens={mean: 64, p95: 300}",), ["recompile"]),
        (
            (),
            ("model.config=llama-3.2-1b",),
            ["replace_model", "drop_kv_cache", "recompile"],
        ),
        (
            APART,
            (*APART, "model.kv_cache.page_tokens=32"),
            ["drop_kv_cache", "recompile", "redeploy_together"],
        ),
    ],
)
def test_what_is_forced(base: tuple[str, ...], head: tuple[str, ...], expected: list[str]) -> None:
    assert forced(plan(*base), plan(*head)) == expected


def test_another_dtype_of_the_same_layout_is_converted() -> None:
    model = plan().spec["model"]
    assert isinstance(model, dict)
    spec = {**plan().spec, "model": {**model, "weights": {"dtype": "bf16"}}}
    found = compare(plan(), plan().model_copy(update={"spec": spec}))
    assert [each.force for each in found.forced] == ["rewrite_weights", "recompile"]
    assert "kept as bf16 instead of float32" in found.forced[0].text


def of_slices(slices: int) -> Plan:
    fleet = Fleet(
        mode="interleaved", requests_per_s=1.0, slices=slices, chips=8 * slices, slot_utilization=0.5,
        prefill_utilization=0.5,
    )  # fmt: skip
    return plan().model_copy(update={"fleet": fleet})


def test_more_of_the_same_slices_need_no_new_package() -> None:
    found = compare(of_slices(2), of_slices(3))
    assert [each.force for each in found.forced] == ["more_chips"]
    assert found.order == ("Add slices with the package that runs today.",)
    back = compare(of_slices(3), of_slices(2))
    assert [each.force for each in back.forced] == ["fewer_chips"]
    assert back.order == ("Drain and stop slices with the package that runs today.",)


def test_a_new_package_is_brought_in_beside_the_old_one() -> None:
    order = compare(plan(), plan("hardware.slice=4x4")).order
    assert "Have 16 chips free beside those that serve" in order[1]
    assert compare(plan(), plan("limits.tpot=1 s")).order == ()
    converted = compare(plan("model.weights.dtype=bf16"), plan("model.weights.dtype=int8"))
    assert converted.order[0] == "Have the checkpoint ready where servers load it."
