"""Serve the requests of a file with a rendered package, without HTTP, and print what became of each as JSON.

    python serve_package.py PACKAGE_FOLDER WEIGHTS REQUESTS [--steps N] [--no-prefix-cache]

Run by `serving.py`, in a process of its own for each row of its table. Before anything is timed, all programs are
compiled and a few requests are served.
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from loads import Arrival, Served, drawn, read


def service_of(name: str, options: argparse.Namespace) -> Any:
    """The service of the package, started and ready."""

    def module(part: str) -> Any:
        return import_module(f"{name}.{part}")

    def build() -> Any:
        config, devices = module("config").MODEL, module("devices").open_devices(True, None, None, None)
        mesh = module("sharding").make_mesh(devices)
        checkpoint = module("checkpoint").open_checkpoint(options.weights, config)
        programs = module("programs").Programs(module("loading").load_weights(checkpoint, config, mesh), config, mesh)
        programs.warm_up_to_serve(options.steps)
        limits = module("scheduler").Limits(queue=1000, prefix_cache=not options.no_prefix_cache)
        return module("scheduler").Scheduler(module("runner").Runner(programs, options.steps), limits)

    service = module("service").Service(build)
    service.start()
    while service.state == "starting":
        time.sleep(0.1)
    return service


async def served(service: Any, name: str, arrivals: list[Arrival], mark: str) -> list[Served]:
    """Serve all requests, each at its time."""
    begin = time.monotonic()

    async def one(nth: int, arrival: Arrival) -> Served:
        await asyncio.sleep(begin + arrival.at_s - time.monotonic())
        events: asyncio.Queue[Any] = asyncio.Queue()
        arrived, first = time.monotonic() - begin, 0.0
        await service.submit(request(name, f"{mark}{nth}", arrival), events)
        for token in range(arrival.tokens):
            event = await events.get()
            assert event.finish != "error", event.info
            first = first if token else time.monotonic() - begin
        return Served(arrived, first, time.monotonic() - begin, arrival.tokens)

    return await asyncio.gather(*(one(nth, arrival) for nth, arrival in enumerate(arrivals)))


def request(name: str, mark: str, arrival: Arrival) -> Any:
    """A greedy request of the package."""
    choosing = import_module(f"{name}.runner").Choosing(import_module(f"{name}.sampling").Sampling())
    return import_module(f"{name}.sequence").Request(mark, tuple(arrival.prompt), arrival.tokens, choosing)


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--no-prefix-cache", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(options.package.parent))
    name = options.package.name
    service = service_of(name, options)
    if service.fault:
        raise service.fault
    asyncio.run(served(service, name, drawn(4, seed=1), "warm"))
    done = asyncio.run(served(service, name, read(options.requests), "r"))
    print(json.dumps([asdict(each) for each in done]))
    asyncio.run(service.drain(30))


if __name__ == "__main__":
    main()
