"""The device-free modules of a rendered package."""

from types import SimpleNamespace

import pytest

from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from tests.package.harness import load
from tests.render.plans import TINY, Case

MODULES = ("pages", "prefix_cache", "sequence", "places", "scheduler")


@pytest.fixture(scope="session")
def core(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """All names of those modules; they are the same in every package."""
    package = load(Case("core", {"x": 1}, G(), P(), TINY), tmp_path_factory.mktemp("core"))
    names: dict[str, object] = {}
    for module in MODULES:
        names |= vars(package.module(module))
    return SimpleNamespace(**names)
