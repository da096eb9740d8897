"""A server over a fake runner, and a real Chromium that looks at it."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

from planner.plan.file import read_plan
from tests.browser.chromium import NoChromium, arguments, find_chromium
from tests.browser.visit import Visit, Visits
from tests.package.harness import Package, load_plan
from tests.serving.machine import Machine, Machines

PLAN = Path(__file__).resolve().parents[2] / "generated" / "llama_3_1_70b_v5e_4x4" / "plan.yaml"


def pytest_configure(config: pytest.Config) -> None:
    """Say at once, and once, that there is no Chromium."""
    try:
        find_chromium(os.environ)
    except NoChromium as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package of a real plan, as the templates render it now."""
    return load_plan(read_plan(PLAN), "watched", tmp_path_factory.mktemp("watched"))


def aside(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own: the driver's event loop is in this one, where no other may run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


@pytest.fixture
def machines(package: Package) -> Iterator[Machines]:
    """Makes servers over fake runners; they are stopped at the end."""
    made: list[Machine] = []
    yield Machines(package, made)
    for machine in made:
        aside(machine.stop)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=find_chromium(os.environ), args=arguments())
        yield browser
        browser.close()


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    """Opens pages, and checks at the end that they kept to their server and made no mistake."""
    made: list[Visit] = []
    yield Visits(browser, made)
    for visit in made:
        visit.page.context.close()
        visit.check()


@pytest.fixture
def screenshots(tmp_path: Path) -> Path:
    """Where pictures go: the folder that SCREENSHOTS names, else one of the test's own."""
    folder = Path(os.environ.get("SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
