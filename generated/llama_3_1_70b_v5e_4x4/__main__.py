# Rendered from plan.yaml (sha256 7eb229a6). Do not edit: `shardwright render plan.yaml` overwrites this file.
"""Command line: serve clients, chat with the model, continue a prompt, or measure the steps beside their prediction."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TypeVar

import jax
from jax.sharding import Mesh

from .checkpoint import CheckpointError, RandomCheckpoint, open_checkpoint
from .config import MODEL, PREDICTED_GENERATE_MS, PREDICTED_PREFILL_MS, PREDICTED_PREFILL_TOKENS, TINY, Config
from .devices import is_first, open_devices, shared_line
from .engine import Engine
from .loading import load_weights
from .programs import Programs
from .runner import Runner
from .sampling import Sampling
from .scheduler import Scheduler
from .serve import add_arguments, limits_of, serve
from .sharding import CHIPS, DeviceError, make_mesh
from .tokenizer import ByteTokenizer, Detokenizer, Message, Tokenizer, TokenizerError, load_tokenizer
from .weights import Weights

N = TypeVar("N", int, float)
REPEATS = 10
UserErrors = (CheckpointError, DeviceError, TokenizerError, ValueError)


def parser() -> argparse.ArgumentParser:
    """The command line's grammar."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--weights", type=Path, help="GGUF file, safetensors file, or folder of safetensors")
    common.add_argument("--tiny", action="store_true", help="a tiny model with random weights, under the same rules")
    devices = common.add_argument("--devices", choices=("auto", "cpu"), default="auto")
    devices.help = "cpu: virtual CPU devices, as many as planned"
    common.add_argument("--coordinator", metavar="HOST:PORT", help="process 0 of several hosts, or auto")
    common.add_argument("--processes", type=_count, help="hosts that run together")
    common.add_argument("--process", type=int, help="which of them this is, from 0")
    text = argparse.ArgumentParser(add_help=False)
    text.add_argument("--max-tokens", type=_count, default=256, help="longest answer (default: 256)")
    text.add_argument("--temperature", type=_temperature, default=0.0, help="0 takes the best token (default)")
    text.add_argument("--top-k", type=int, default=0, help="draw among this many best tokens; 0 is off")
    text.add_argument("--top-p", type=_probability, default=1.0, help="draw among the best of this total probability")
    text.add_argument("--seed", type=int, default=0, help="seed of the draws")
    whole = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    commands = whole.add_subparsers(dest="command", required=True)
    add_arguments(commands.add_parser("serve", parents=[common], help="answer clients of OpenAI's API over HTTP"))
    chat = commands.add_parser("chat", parents=[common, text], help="talk with the model")
    chat.add_argument("--prompt", help="one question; without it, questions are read line by line")
    generate = commands.add_parser("generate", parents=[common, text], help="continue a text")
    generate.add_argument("--prompt", required=True)
    generate.add_argument("--ids", action="store_true", help="print token ids instead of text")
    commands.add_parser("bench", parents=[common], help="measure both steps beside the plan's prediction")
    return whole


def _count(text: str) -> int:
    return _number(int, text, lambda value: value >= 1, "a whole number of at least 1")


def _temperature(text: str) -> float:
    return _number(float, text, lambda value: value >= 0, "a number of at least 0")


def _probability(text: str) -> float:
    return _number(float, text, lambda value: 0 < value <= 1, "a number above 0 and at most 1")


def _number(kind: Callable[[str], N], text: str, good: Callable[[N], bool], wanted: str) -> N:
    """`text` as a number; argparse tells what was wanted when it is not one."""
    try:
        value = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not {wanted}") from None
    if not good(value):
        raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
    return value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it worked, 2 when it could not."""
    options = parser().parse_args(arguments)
    run = {"serve": serve_clients, "chat": chat, "generate": generate, "bench": bench}[options.command]
    try:
        run(options)
    except UserErrors as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def start(options: argparse.Namespace) -> tuple[Engine, Tokenizer]:
    """The engine with its weights on the devices, and the tokenizer of the model."""
    tokenizer = _tokenizer(options)
    weights, config, mesh = _loaded(options)
    return Engine(weights, config, mesh, tokenizer.end_ids), tokenizer


def _tokenizer(options: argparse.Namespace) -> Tokenizer:
    if not options.tiny and options.weights is None:
        raise ValueError("give --weights PATH, or --tiny for random weights")
    if options.weights is not None and not options.weights.exists():
        raise CheckpointError(f"no weights at {options.weights}")
    return ByteTokenizer() if options.tiny else load_tokenizer(options.weights)


def _loaded(options: argparse.Namespace) -> tuple[Weights, Config, Mesh]:
    """Weights on the devices, of which sizes they are, and the devices."""
    mesh = make_mesh(open_devices(options.devices == "cpu", options.coordinator, options.processes, options.process))
    if not is_first():
        sys.stdout = StringIO()  # of several processes, which all do the same, one speaks
    if options.tiny:
        return load_weights(RandomCheckpoint(TINY), TINY, mesh), TINY, mesh
    return load_weights(open_checkpoint(options.weights, MODEL), MODEL, mesh), MODEL, mesh


def serve_clients(options: argparse.Namespace) -> None:
    """Answer clients until the process is told to end."""
    tokenizer = _tokenizer(options)
    if options.compilation_cache:
        jax.config.update("jax_compilation_cache_dir", str(options.compilation_cache))
    vocab = (TINY if options.tiny else MODEL).vocab
    with jax.profiler.trace(options.profile) if options.profile else nullcontext():
        serve(options, partial(_scheduler, options), tokenizer, vocab)


def _scheduler(options: argparse.Namespace) -> Scheduler:
    """A scheduler of the plan's chips, with every program compiled."""
    programs = Programs(*_loaded(options))
    programs.warm_up_to_serve(options.steps_per_dispatch)
    return Scheduler(Runner(programs, options.steps_per_dispatch), limits_of(options))


def chat(options: argparse.Namespace) -> None:
    """Answer one question, or one after the other, as the answers are made."""
    engine, tokenizer = start(options)
    messages: list[Message] = []
    while (question := options.prompt or shared_line(_ask() if is_first() else None)) is not None:
        messages.append({"role": "user", "content": question})
        answer = _tell(engine, tokenizer, tokenizer.encode_chat(messages), options)
        messages.append({"role": "assistant", "content": answer})
        if options.prompt:
            return


def _ask() -> str | None:
    print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return line.strip() if line else None


def generate(options: argparse.Namespace) -> None:
    """Continue a raw prompt."""
    engine, tokenizer = start(options)
    prompt = tokenizer.encode(options.prompt)
    if options.ids:
        tokens = engine.stream(prompt, options.max_tokens, _sampling(options))
        print(" ".join(str(token.id) for token in tokens))
    else:
        _tell(engine, tokenizer, prompt, options)


def _sampling(options: argparse.Namespace) -> Sampling:
    top_k, top_p = max(0, options.top_k), options.top_p
    return Sampling(temperature=options.temperature, top_k=top_k, top_p=top_p, seed=options.seed)


def _tell(engine: Engine, tokenizer: Tokenizer, prompt: Sequence[int], options: argparse.Namespace) -> str:
    """Print what follows `prompt` while it is made; the text."""
    engine.warm_up([engine.config.bucket(len(prompt))])
    stream = Detokenizer(tokenizer)
    pieces: list[str] = []
    for token in engine.stream(prompt, options.max_tokens, _sampling(options)):
        pieces.append("" if token.finish == "stop" else stream.add(token.id))
        print(pieces[-1], end="", flush=True)
    pieces.append(stream.finish())
    print(pieces[-1])
    return "".join(pieces)


def bench(options: argparse.Namespace) -> None:
    """Print the median time of each step, measured here, beside the prediction for the planned chips."""
    engine, _ = start(options)
    config = engine.config
    bucket = config.bucket(min(PREDICTED_PREFILL_TOKENS, config.buckets[-1], config.context - 1))
    prompt = [1] * min(bucket, config.context - REPEATS - 2)
    engine.warm_up([bucket])
    prefill_ms = _median_ms(lambda: jax.block_until_ready(engine.prefill(prompt).kv))
    prefilled = engine.prefill(prompt)
    for slot in engine.free_slots:
        engine.insert(prefilled, slot)
    generate_ms = _median_ms(engine.generate)
    print(f"{'step':32}{'measured':>12}{'predicted':>12}")
    print(f"{f'prefill, {bucket} tokens':32}{prefill_ms:>9.3g} ms{PREDICTED_PREFILL_MS:>9} ms")
    print(f"{f'generate, {config.batch} slots':32}{generate_ms:>9.3g} ms{PREDICTED_GENERATE_MS:>9} ms")
    _explain(options)


def _explain(options: argparse.Namespace) -> None:
    kind = jax.devices()[0].device_kind
    print(f"Measured: median of {REPEATS} on {len(CHIPS)} {kind} devices, host work included, all slots in use.")
    print(f"Predicted: the planned model and {PREDICTED_PREFILL_TOKENS} prompt tokens on {len(CHIPS)} v5e chips.")
    if options.tiny:
        print("The measured model is the tiny one: the two columns are not comparable.")


def _median_ms(step: Callable[[], object]) -> float:
    step()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


if __name__ == "__main__":
    sys.exit(main())
