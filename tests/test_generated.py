"""The committed packages are what their specs plan and render to; `pytest --update-golden` rewrites them."""

from pathlib import Path

import pytest

from planner.plan.file import plan_to_yaml, read_plan
from planner.plan.make import make_plan
from planner.render import check_package, write_package
from planner.spec import load_spec

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("smollm2_135m_cpu8", "llama_3_1_70b_v5e_4x4")


@pytest.mark.parametrize("name", PACKAGES)
def test_a_committed_package_is_what_its_spec_renders_to(name: str, request: pytest.FixtureRequest):
    folder = ROOT / "generated" / name
    plan = make_plan(load_spec(ROOT / "docs" / "examples" / f"{name}.yaml"))
    if request.config.getoption("update_golden"):
        write_package(plan, folder)
    assert (folder / "plan.yaml").read_text(encoding="utf-8") == plan_to_yaml(plan)
    drift = check_package(read_plan(folder / "plan.yaml"), folder)
    assert not drift, drift.text()


def test_nothing_else_is_committed_as_generated():
    assert sorted(path.name for path in (ROOT / "generated").iterdir() if path.is_dir()) == sorted(PACKAGES)
