"""The engine thread: what clients are told, whatever happens."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.package.harness import Package
from tests.serving.machine import Machine, Machines, wait_until


def request(machine: Machine, name: str, prompt: tuple[int, ...] = (1, 2), tokens: int | None = 5, **other: Any) -> Any:
    """A request for the scheduler."""
    return machine.package.module("sequence").Request(name, prompt, tokens, machine.choosing(), **other)


async def events_of(machine: Machine, made: Any) -> list[Any]:
    """Submit a request, and wait for all its events."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    await machine.service.submit(made, queue)
    return await until_end(queue)


async def until_end(queue: asyncio.Queue[Any]) -> list[Any]:
    events = [await queue.get()]
    while events[-1].finish is None:
        events.append(await queue.get())
    return events


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def test_clients_of_many_loops_are_told_what_they_asked_for(machines: Machines):
    machine = machines()
    found: dict[str, list[int]] = {}

    def client(nth: int) -> None:
        async def ask() -> None:
            for each in range(5):
                name = f"{nth}-{each}"
                events = await events_of(machine, request(machine, name, (nth, each), 10))
                found[name] = [event.token for event in events]

        asyncio.run(ask())

    threads = [threading.Thread(target=client, args=(nth,)) for nth in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"{nth}-{each}": machine.expected([nth, each], 10) for nth in range(6) for each in range(5)}
    machine.check_base_line()
    assert machine.service.load.made_tokens == 300


def test_an_idle_engine_does_not_spin(machines: Machines):
    machine = machines()
    run(events_of(machine, request(machine, "a")))
    wait_until(lambda: machine.scheduler.idle)
    woken = 0
    step = machine.scheduler.step

    def counting() -> Any:
        nonlocal woken
        woken += 1
        return step()

    machine.scheduler.step = counting
    run(asyncio.sleep(0.1))
    assert woken == 0
    run(events_of(machine, request(machine, "b")))
    assert woken > 0


def test_what_the_scheduler_refuses_is_raised_where_it_was_submitted(machines: Machines):
    machine = machines({"queue": 1}, slots=1)
    sequence = machine.package.module("sequence")
    with pytest.raises(sequence.PromptTooLong):
        run(events_of(machine, request(machine, "long", (1,) * 600)))

    async def crowd() -> list[Any]:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(5)]
        machine.runner.pause_s = 0.01
        await machine.service.submit(request(machine, "0", tokens=20), queues[0])
        await queues[0].get()  # it has the only slot now
        await machine.service.submit(request(machine, "1"), queues[1])
        for name in ("2", "3"):
            with pytest.raises(sequence.QueueFull):
                await machine.service.submit(request(machine, name), queues[2])
        with pytest.raises(ValueError, match="not finished"):
            await machine.service.submit(request(machine, "1"), queues[2])
        return [(await until_end(queue))[-1].finish for queue in queues[:2]]

    assert run(crowd()) == ["length", "length"]
    machine.check_base_line()


def test_more_than_the_queue_cannot_pile_up_before_it(machines: Machines):
    machine = machines({"queue": 3}, slots=1)
    machine.runner.reads.clear()  # the engine thread stands still

    async def crowd() -> list[Any]:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        asks = [asyncio.create_task(machine.service.submit(request(machine, str(nth)), queue)) for nth in range(12)]
        await asyncio.sleep(0)
        machine.runner.reads.set()
        return await asyncio.gather(*asks, return_exceptions=True)

    refused = [each for each in run(crowd()) if each is not None]
    assert {type(each).__name__ for each in refused} == {"QueueFull"}
    assert len(refused) >= 5
    machine.check_base_line()


def test_a_task_that_is_cancelled_while_it_submits_leaves_nothing(machines: Machines):
    machine = machines()
    machine.runner.reads.clear()

    async def leave() -> str:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(2)]
        await machine.service.submit(request(machine, "0"), queues[0])
        task = asyncio.create_task(machine.service.submit(request(machine, "1"), queues[1]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        machine.runner.reads.set()
        await until_end(queues[0])
        return str((await until_end(queues[1]))[-1].finish)

    assert run(leave()) == "cancelled"
    machine.check_base_line()


def test_a_fault_ends_every_stream_with_an_error(machines: Machines, caplog: pytest.LogCaptureFixture):
    machine = machines(slots=2)
    machine.runner.pause_s = 0.005

    async def broken() -> list[Any]:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(4)]
        for nth, queue in enumerate(queues):
            await machine.service.submit(request(machine, str(nth), tokens=400), queue)
        await queues[0].get()
        machine.runner.broken = OSError("the chips are gone")
        ends = [(await until_end(queue))[-1] for queue in queues]
        with pytest.raises(machine.package.module("service").Unavailable, match="failed"):
            await machine.service.submit(request(machine, "late"), queues[0])
        return ends

    ends = run(broken())
    assert [(end.token, end.finish, end.info) for end in ends] == [(None, "error", "the engine failed")] * 4
    assert machine.service.state == "failed"
    assert str(machine.service.fault) == "the chips are gone"
    assert "the chips are gone" in caplog.text
    assert [record.finish for record in machine.records] == ["error"] * 4


def test_a_scheduler_that_cannot_be_made_is_a_fault(package: Package):
    def build() -> Any:
        raise ValueError("no such weights")

    service = package.module("service").Service(build)
    service.start()
    wait_until(lambda: service.state == "failed")
    assert not service.built
    with pytest.raises(package.module("service").Unavailable):
        run(service.submit(package.module("sequence").Request("a", (1,)), asyncio.Queue()))
    assert run(service.drain(1))


def test_e3_draining_finishes_what_is_live_and_takes_nothing_new(machines: Machines):
    machine = machines(slots=2)
    machine.runner.pause_s = 0.002

    async def drained() -> tuple[list[Any], bool]:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(4)]
        for nth, queue in enumerate(queues):
            await machine.service.submit(request(machine, str(nth), tokens=50), queue)
        draining = asyncio.create_task(machine.service.drain(60))
        await asyncio.sleep(0)
        assert machine.service.state == "draining"
        with pytest.raises(machine.package.module("service").Unavailable, match="draining"):
            await machine.service.submit(request(machine, "late"), queues[0])
        return [(await until_end(queue))[-1].finish for queue in queues], await draining

    assert run(drained()) == (["length"] * 4, True)
    assert machine.service.state == "stopped"
    machine.check_base_line()


def test_e3_what_is_not_done_in_time_ends_with_an_error(machines: Machines):
    machine = machines(slots=2)
    machine.runner.pause_s = 0.02

    async def drained() -> tuple[list[Any], bool]:
        queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(4)]
        for nth, queue in enumerate(queues):
            await machine.service.submit(request(machine, str(nth), tokens=500), queue)
        in_time = await machine.service.drain(0.1)
        return [(await until_end(queue))[-1] for queue in queues], in_time

    ends, in_time = run(drained())
    assert not in_time
    assert {(end.finish, end.info) for end in ends} == {("error", "the server stops before the answer is complete")}
    assert machine.service.state == "stopped"
    machine.check_base_line()


def test_e3_an_engine_that_does_not_answer_does_not_hold_the_end_up(machines: Machines):
    machine = machines()
    service = machine.package.module("service")
    seconds, service.CANCEL_SECONDS = service.CANCEL_SECONDS, 0.05
    machine.runner.reads.clear()

    async def drained() -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue()
        await machine.service.submit(request(machine, "0"), queue)
        assert not await machine.service.drain(0.05)
        return (await until_end(queue))[-1]

    try:
        end = run(drained())
    finally:
        service.CANCEL_SECONDS = seconds
    assert (end.finish, end.info) == ("error", "the engine does not answer")


def test_records_tell_tokens_and_times(machines: Machines):
    machine = machines()
    run(events_of(machine, request(machine, "a", (1, 2, 3), 7)))
    (record,) = machine.records
    assert (record.id, record.prompt_tokens, record.tokens, record.finish) == ("a", 3, 7, "length")
    assert 0 <= record.ttft_s <= record.total_s
    assert record.tpot_s == pytest.approx((record.ended - record.first) / 6)
    wait_until(lambda: machine.service.load.step_ms is not None)
    assert machine.service.load.made_tokens == 7
    assert machine.service.load.slots == 4


def test_steps_are_measured_where_no_prompt_is_read(package: Package):
    times = package.module("measures").StepTimes()
    times.note(9.0, steps=1, read_tokens=5)
    times.note(9.0, steps=0, read_tokens=0)
    assert times.median_s is None
    for seconds in (1.0, 2.0, 6.0):
        times.note(seconds, steps=2, read_tokens=0)
    assert times.median_s == 1.0


def test_times_of_the_last_requests_are_told_in_milliseconds(package: Package):
    measures = package.module("measures")
    times = measures.RequestTimes()
    times.note(measures.Record("never answered", 1, arrived=0.0, ended=9.0))
    assert set(times.told_ms().values()) == {None}
    for nth in range(1, 201):
        first = nth / 1000
        times.note(measures.Record(str(nth), 1, arrived=0.0, first=first, ended=first + 0.02, tokens=1 + nth % 2 * 10))
    told = times.told_ms()
    assert told == pytest.approx({"ttft_ms": 150, "ttft_p95_ms": 195, "tpot_ms": 2, "tpot_p95_ms": 2})
    assert measures.percentile_ms([0.003, 0.001], 50) == pytest.approx(1)
