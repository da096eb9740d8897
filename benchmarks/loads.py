"""Requests for a server that is measured: the same for every server, drawn once from a seed."""

import json
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from random import Random

VOCAB = 49152  # of SmolLM2
LOW, HIGH = 1000, 40000  # ordinary words among its token ids


@dataclass(frozen=True)
class Arrival:
    """A request: when it comes, in seconds from the start, what it asks, and how many tokens it wants, neither more
    nor fewer."""

    at_s: float
    prompt: list[int]
    tokens: int


@dataclass(frozen=True)
class Served:
    """What became of a request: seconds from the start."""

    arrived_s: float
    first_s: float
    ended_s: float
    tokens: int

    @property
    def ttft_s(self) -> float:
        """Seconds to the first token."""
        return self.first_s - self.arrived_s

    @property
    def tpot_s(self) -> float:
        """Seconds for each token behind the first."""
        return (self.ended_s - self.first_s) / (self.tokens - 1)


def drawn(
    count: int, rate: float | None = None, shared: int = 0, prompts: tuple[int, int] = (32, 224), seed: int = 7
) -> list[Arrival]:
    """`count` requests, all at once or at `rate` a second at random; all prompts begin with `shared` same tokens."""
    random = Random(seed)
    begin = [random.randrange(LOW, HIGH) for _ in range(shared)]
    gaps = [random.expovariate(rate) if rate else 0.0 for _ in range(count)]
    return [Arrival(at_s, [*begin, *_words(random, prompts)], random.randint(64, 128)) for at_s in accumulate(gaps)]


def _words(random: Random, lengths: tuple[int, int]) -> list[int]:
    return [random.randrange(LOW, HIGH) for _ in range(random.randint(*lengths))]


def write(arrivals: list[Arrival], path: Path) -> Path:
    """Keep requests for another process."""
    path.write_text(json.dumps([asdict(each) for each in arrivals]))
    return path


def read(path: Path) -> list[Arrival]:
    """The requests in a file."""
    return [Arrival(**each) for each in json.loads(path.read_text())]
