"""Names of slices for the TPU compiler."""

import pytest

from planner.errors import CannotRun
from planner.plan.make import make_plan
from planner.plan.schema import Plan
from planner.spec import load_spec
from planner.verify.topology import topology_of
from tests.verify.test_audit import EXAMPLES


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(load_spec(EXAMPLES / "llama_3_1_8b_v5e_2x4.yaml"))


@pytest.mark.parametrize(
    ("chip", "shape", "name", "options"),
    [
        ("v5e", "2x4", "v5e:2x4", {"chips_per_host_bounds": [2, 2, 1]}),
        ("v5e", "1x1", "v5e:1x1", {"chips_per_host_bounds": [1, 1, 1]}),
        ("v6e", "16x16", "v6e:16x16", {"chips_per_host_bounds": [2, 2, 1]}),
        ("v5p", "2x2x1", "v5p:2x2x1", {"chips_per_host_bounds": [2, 2, 1]}),
        ("v4", "4x4x4", "v4:4x4x4", {"chips_per_host_bounds": [2, 2, 1], "chip_config_name": "megacore"}),
    ],
)
def test_topology_names(plan: Plan, chip: str, shape: str, name: str, options: dict[str, object]):
    assert topology_of(plan.model_copy(update={"chip": chip, "slice": shape})) == (name, options)


def test_chips_that_cannot_be_compiled_for_are_told(plan: Plan):
    with pytest.raises(CannotRun, match="as 2 devices"):
        topology_of(plan.model_copy(update={"chip": "7x", "slice": "2x2x1"}))
    with pytest.raises(CannotRun, match="knows no h100"):
        topology_of(plan.model_copy(update={"chip": "h100", "slice": "8"}))
