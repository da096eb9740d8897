"""The device-free modules of a rendered package."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from planner.plan.schema import GenerateRules as G
from planner.plan.schema import PrefillRules as P
from tests.package.harness import Package, load
from tests.render.plans import TINY, Case
from tests.serving.machine import Machine, Machines

MODULES = ("pages", "prefix_cache", "sequence", "places", "scheduler")


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """A package; those modules are the same in every one."""
    return load(Case("core", {"x": 1}, G(), P(), TINY), tmp_path_factory.mktemp("core"))


@pytest.fixture(scope="session")
def core(package: Package) -> SimpleNamespace:
    """All names of the scheduler's modules."""
    names: dict[str, object] = {}
    for module in MODULES:
        names |= vars(package.module(module))
    return SimpleNamespace(**names)


@pytest.fixture
def machines(package: Package) -> Iterator[Machines]:
    """Makes servers over fake runners; they are stopped at the end."""
    made: list[Machine] = []
    yield Machines(package, made)
    for machine in made:
        machine.stop()
