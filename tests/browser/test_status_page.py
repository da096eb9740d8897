"""The status page as people see it: what it says of a server, to whom, and in which window."""

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from playwright.sync_api import Locator, expect

from tests.browser.conftest import aside
from tests.browser.look import PALE, WIDE, WIDTHS
from tests.browser.visit import Visit, Visits
from tests.package.harness import Package
from tests.serving.machine import Machine, Machines, PieceTokenizer, TalkingRunner, wait_until


@contextmanager
def asking(machine: Machine, clients: int, tokens: int, again: bool = False) -> Iterator[None]:
    """Clients that all at once ask for so many tokens each, once or `again` and again; at the end they have answers."""
    ending = threading.Event()

    def ask(nth: int) -> None:
        params: Any = {"model": "fake", "prompt": f"client {nth} tells a story", "seed": nth}
        with machine.client() as client:
            client.completions.create(max_tokens=tokens, **params)
            while again and not ending.is_set():
                client.completions.create(max_tokens=tokens, **params)

    threads = [threading.Thread(target=ask, args=(nth,)) for nth in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        machine.runner.pause_s = 0.0
        for thread in threads:
            thread.join()


def part(visit: Visit, element: str) -> Locator:
    return visit.page.locator(f"#{element}")


# What it says


def test_it_tells_the_plan_and_an_idle_server(machines: Machines, visits: Visits):
    visit = visits(machines(rules={"model": "<b>llama</b>"}).listen().port)
    expect(part(visit, "state")).to_have_text("Ready: requests are taken.")
    expect(visit.page).to_have_title("Ready: llama-3.1-70b-v5e-4x4")
    expect(visit.page.locator("h1")).to_have_text("llama-3.1-70b-v5e-4x4")
    expect(visit.page.locator("header p")).to_have_text("16 chips of a v5e 4x4 slice · model <b>llama</b>")
    assert visit.row("slots") == ["32"]
    assert visit.row("generate step")[0] == "9.98 ms"
    assert visit.row("per token after it") == ["22.1 ms", "none yet", ""]
    assert visit.row("prefill of 1,024 tokens bound by compute") == ["97.4 ms"]
    rules = visit.page.get_by_role("row").filter(has=visit.page.get_by_role("cell", name="d_ff", exact=True))
    assert rules.get_by_role("cell").all_inner_texts() == ["d_ff", "x, y1", "x, y0, y1"]
    expect(part(visit, "rate")).to_have_text("0")
    assert [visit.text(each) for each in ("slots", "queue", "pages")] == ["0 of 4", "0", "0 of 400"]


def test_figures_follow_the_load(machines: Machines, visits: Visits, screenshots: Path):
    machine = machines(limits={"queue": 8}).listen()
    visit = visits(machine.port)
    expect(part(visit, "slots")).to_have_text("0 of 4")
    assert visit.row("generate step")[1:] == ["none yet", ""]
    machine.runner.pause_s = 0.03
    with asking(machine, 6, 250):
        expect(part(visit, "slots")).to_have_text("4 of 4")
        expect(part(visit, "slots-of")).to_have_text("100 %")
        expect(part(visit, "queue")).to_have_text("2")
        expect(part(visit, "queue-of")).to_have_text("of 8 at most")
        expect(part(visit, "rate")).to_have_text(re.compile("[1-9]"), timeout=10_000)
        expect(part(visit, "pages")).not_to_have_text("0 of 400")
        measured, difference = visit.row("generate step")[1:]
        assert float(measured.removesuffix(" ms")) >= 30
        assert difference.endswith((" % more", " times"))
        assert (
            part(visit, "slots-bar").locator("i").evaluate("(bar) => bar.offsetWidth / bar.parentNode.offsetWidth") == 1
        )
        visit.page.screenshot(path=screenshots / "load.png", full_page=True)
    machine.check_base_line()
    expect(part(visit, "slots")).to_have_text("0 of 4")
    expect(visit.page.get_by_role("row").filter(has_text="requests answered")).to_contain_text("6")
    assert visit.row("tokens generated") == ["1,500"]
    assert "p95 " in visit.row("to the first token")[1]
    expect(part(visit, "pages-of")).not_to_have_text("0 in the prefix cache")


def test_what_was_refused_is_told_by_status(machines: Machines, visits: Visits):
    machine = machines().listen()
    with machine.client() as client:
        for _ in range(2):
            with pytest.raises(openai.BadRequestError):
                client.completions.create(model="fake", prompt="a", max_tokens=-1)
    visit = visits(machine.port)
    row = visit.page.get_by_role("row").filter(has_text="refused")
    expect(row).to_contain_text("by status: 2 with 400")
    assert row.get_by_role("cell").all_inner_texts() == ["2"]


# States


def starting_machine(package: Package) -> Machine:
    """A server whose engine has not begun."""
    runner, tokenizer, server = TalkingRunner(), PieceTokenizer(), package.module("server")
    scheduler = package.module("scheduler")
    service = package.module("service").Service(lambda: scheduler.Scheduler(runner))
    rules = package.module("api").Rules(model="fake", vocab=353)
    return Machine(package, runner, tokenizer, service, server.create_app(service, tokenizer, server.Options(rules)))


def test_a_server_that_starts_becomes_ready(package: Package, machines: Machines, visits: Visits):
    machine = starting_machine(package).listen()
    machines.made.append(machine)
    visit = visits(machine.port)
    expect(part(visit, "state")).to_contain_text("Starting: weights are loaded")
    expect(part(visit, "slots-of")).to_have_text("not known yet")
    machine.service.start()
    expect(part(visit, "state")).to_have_text("Ready: requests are taken.")
    expect(part(visit, "slots")).to_have_text("0 of 4")


def test_a_server_that_drains_says_so_until_it_stops(machines: Machines, visits: Visits):
    machine = machines().listen()
    machine.runner.pause_s = 0.02
    visit = visits(machine.port)
    with asking(machine, 1, 400):
        wait_until(lambda: machine.service.load.made_tokens > 0)
        draining = threading.Thread(target=lambda: asyncio.run(machine.service.drain(60)))
        draining.start()
        expect(part(visit, "state")).to_contain_text("Draining: no more requests are taken")
    draining.join()
    expect(part(visit, "state")).to_contain_text("Stopped: the engine has ended")


def test_an_engine_that_failed_is_called_so(machines: Machines, visits: Visits):
    machine = machines().listen()
    visit = visits(machine.port)
    expect(part(visit, "state")).to_contain_text("Ready")
    machine.runner.broken = OSError("secret")
    with machine.client() as client, pytest.raises(openai.InternalServerError):
        client.completions.create(model="fake", prompt="a", max_tokens=5)
    expect(part(visit, "state")).to_contain_text("Failed: the engine ended with an error")
    assert "secret" not in visit.page.content()


def test_a_server_that_is_gone_is_told_with_the_age_of_its_figures(
    machines: Machines, visits: Visits, screenshots: Path
):
    machine = machines().listen()
    visit = visits(machine.port)
    expect(part(visit, "slots")).to_have_text("0 of 4")
    visit.server_goes = True
    aside(machine.stop)
    expect(part(visit, "state")).to_contain_text("Not reachable: the figures below are of ")
    visit.page.screenshot(path=screenshots / "gone.png", full_page=True)
    expect(part(visit, "slots")).to_have_text("0 of 4")


def test_figures_of_a_server_that_was_started_anew_begin_anew(machines: Machines, visits: Visits):
    machine = machines().listen()
    visit = visits(machine.port)
    with asking(machine, 2, 20):
        pass
    expect(visit.page.get_by_role("row").filter(has_text="tokens generated")).to_contain_text("40")
    told = visit.page.evaluate("async () => (await fetch('status')).json()")
    fresh = told | {"uptime_s": 0.5, "made_tokens": 0, "read_tokens": 0, "finished": {}}
    visit.page.route("**/status", lambda route: route.fulfill(json=fresh))
    expect(visit.page.get_by_role("row").filter(has_text="up for")).to_contain_text("0 s")
    assert visit.page.evaluate("points.every((point) => point.uptime_s === 0.5)")
    expect(part(visit, "rate")).to_have_text("–")


# Whoever looks


def focused(visit: Visit) -> Any:
    """The name of what has the focus, and whether that can be seen."""
    return visit.page.evaluate(
        "() => [document.activeElement.textContent, getComputedStyle(document.activeElement).outlineStyle]"
    )


def test_everything_that_can_be_pressed_is_reached_by_keyboard(machines: Machines, visits: Visits):
    visit = visits(machines().listen().port)
    expect(part(visit, "slots")).to_have_text("0 of 4")
    found = []
    for _ in range(visit.page.locator("a:visible, button:visible").count()):
        visit.page.keyboard.press("Tab")
        found.append(focused(visit))
    names = ["Pause", "these figures as JSON", "metrics for Prometheus"]
    assert found == [[name, "solid"] for name in names]
    links = [each.get_attribute("href") for each in visit.page.get_by_role("link").all()]
    assert [visit.page.request.get(f"{visit.origin}/{link}").status for link in links] == [200, 200]


def test_updates_can_be_stopped_and_resumed_by_keyboard(machines: Machines, visits: Visits):
    machine = machines().listen()
    visit = visits(machine.port)
    visit.page.clock.install()
    visit.page.reload()
    expect(part(visit, "slots")).to_have_text("0 of 4")
    visit.page.keyboard.press("Tab")
    visit.page.keyboard.press("Enter")
    expect(part(visit, "pause")).to_have_text("Resume")
    expect(visit.page.get_by_role("status")).to_contain_text("Paused: the figures below are of ")
    asked = len(visit.asked)
    visit.page.clock.run_for(60_000)
    assert len(visit.asked) == asked
    with asking(machine, 1, 10):
        pass
    visit.page.keyboard.press("Space")
    expect(part(visit, "pause")).to_have_text("Pause")
    expect(part(visit, "state")).to_have_text("Ready: requests are taken.")
    expect(visit.page.get_by_role("row").filter(has_text="tokens generated")).to_contain_text("10")
    with visit.page.expect_request("**/status"):
        visit.page.clock.run_for(2_000)


def test_a_state_is_announced_once_and_pictures_have_names(machines: Machines, visits: Visits):
    visit = visits(machines().listen().port)
    expect(visit.page.get_by_role("status")).to_have_text("Ready: requests are taken.")
    visit.page.evaluate("new MutationObserver(() => window.announced = true).observe(at('state'), {childList: true})")
    asked = visit.page.evaluate("asked")
    wait_until(lambda: visit.page.evaluate("asked") >= asked + 2)
    assert visit.page.evaluate("window.announced") is None
    assert all(each.get_attribute("aria-label") for each in visit.page.locator("svg").all())
    assert visit.page.locator("h1").count() == visit.page.get_by_role("main").count() == 1
    assert visit.page.get_by_role("heading", level=2).count() == visit.page.locator("section[aria-labelledby]").count()


@pytest.fixture
def busy(machines: Machines) -> Iterator[Machine]:
    """A server of many slots that is about as fast as its plan, and has something to tell of everything."""
    sizes = {"slots": 32, "pages_per_group": 4096, "context": 2048, "pages_per_slot": 512, "longest_prompt": 2047}
    machine = machines(limits={"queue": 64}, **sizes).listen()
    machine.runner.pause_s = 0.006
    with machine.client() as client, pytest.raises(openai.BadRequestError):
        client.completions.create(model="fake", prompt="a", max_tokens=-1)
    with asking(machine, 40, 120, again=True):
        wait_until(lambda: machine.records)
        yield machine


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_window_in_both_colour_schemes(busy: Machine, visits: Visits, screenshots: Path, scheme: Any):
    visit = visits(busy.port, color_scheme=scheme)
    wait_until(lambda: visit.page.evaluate("points.length") > 5)
    for name, width in WIDTHS.items():
        visit.page.set_viewport_size({"width": width, "height": 900})
        visit.page.screenshot(path=screenshots / f"{name}-{scheme}.png", full_page=True)
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(WIDE) == []
        assert visit.page.evaluate(PALE) == []
    paper = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]


def test_it_prints_without_what_cannot_be_pressed_on_paper(busy: Machine, visits: Visits, screenshots: Path):
    visit = visits(busy.port, 794, color_scheme="dark")
    expect(part(visit, "slots")).to_contain_text(" of 32")
    visit.page.emulate_media(media="print")
    expect(visit.page.get_by_role("button")).to_be_hidden()
    expect(visit.page.get_by_role("link")).to_have_count(0)
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    visit.page.screenshot(path=screenshots / "print.png", full_page=True)
    assert visit.page.pdf().count(b"/Type /Page\n") == 1
