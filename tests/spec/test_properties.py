"""What holds for every spec: printing loads back, a typo names its key, and no text gives a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from planner.spec import PINS, Spec, check_spec, load_spec, spec_from_data, spec_from_text, spec_to_data, spec_to_yaml
from planner.spec.fields import addresses, keys, section_at
from planner.spec.nearest import edits
from planner.spec.pins import EXPERT_AXES, GENERATE_LAYOUTS

EXAMPLES = sorted((Path(__file__).parents[2] / "docs" / "examples").glob("*.yaml"))
FOLDER = Path("/nowhere")
BASE = spec_to_data(load_spec(EXAMPLES[0]))


def load(text: str) -> Spec:
    spec, diagnostics = spec_from_text(text, "spec.yaml", FOLDER)
    assert spec is not None, diagnostics
    return spec


counts = st.integers(1, 10**9)
reals = st.floats(1e-300, 1e300)
flags = st.booleans()
axes = st.lists(st.sampled_from(["x", "y", "z", "y0", "y1"]), max_size=3, unique=True)
blocks = st.lists(st.sampled_from(["attention", "mlp"]), max_size=2, unique=True)
VALUES = {
    "slice": st.just("4x4"),
    "batch": counts,
    "chunk": counts | st.just("none"),
    "switch": st.just("off"),
    "kv_cache": st.sampled_from(["heads", "batch", "heads_x_batch", "replicated"]),
    "label": st.sampled_from(GENERATE_LAYOUTS),
    "axes": axes.map(lambda value: value if len(value) > 1 else (value[0] if value else "none")),
    "mesh": st.just(["x=4", "y=4"]),
    "copies": blocks.map(lambda value: value if len(value) > 1 else (value[0] if value else "none")),
}
DENSE_PINS = {address: kind for address, kind in PINS.items() if address.rpartition(".")[2] not in EXPERT_AXES}
pins = st.fixed_dictionaries({}, optional={address: VALUES[kind] for address, kind in DENSE_PINS.items()})

drafting = st.fixed_dictionaries(
    {"drafted_tokens": st.integers(1, 32), "acceptance": st.floats(0, 1, exclude_max=True), "draft_step": reals}
)
chunks = st.sampled_from(["auto", "off"]) | counts
servings = st.fixed_dictionaries({}, optional={"chunked_prefill": chunks, "speculation": drafting})


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """A resolved spec as plain data."""
    model: dict[str, Any] = {key: draw(counts) for key in ("layers", "d_model", "d_ff", "vocab")}
    model |= {"family": draw(st.sampled_from(["llama", "mistral"])), "max_positions": 10**9}
    model["kv_heads"] = draw(st.integers(1, 64))
    model["q_heads"] = model["kv_heads"] * draw(st.integers(1, 16))
    model["head_dim"] = 2 * draw(st.integers(1, 512))
    model |= draw(st.fixed_dictionaries({}, optional={"norm_eps": reals, "qkv_bias": flags, "tied_embeddings": flags}))
    model["rope"] = draw(st.fixed_dictionaries({"theta": reals}, optional={"scaling": scalings}))
    model |= draw(st.fixed_dictionaries({}, optional={"sliding_window": st.fixed_dictionaries({"tokens": counts})}))
    dtypes = st.sampled_from(["float32", "bf16", "int8"])
    model |= {"weights": {"dtype": draw(dtypes)}, "kv_cache": {"dtype": draw(dtypes), "page_tokens": draw(counts)}}
    tokens = st.tuples(st.integers(1, 10**8), st.integers(1, 10**8)).map(
        lambda two: {"mean": min(two), "p95": max(two)}
    )
    return {
        "version": 1,
        "name": draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)),
        "model": model,
        "hardware": {"chip": "v5e", "slices": ["4x4", "2x4"], "reserve": draw(st.floats(0, 1, exclude_max=True))},
        "workload": {"prompt_tokens": draw(tokens), "output_tokens": draw(tokens), "concurrency": draw(counts)},
        "limits": draw(st.fixed_dictionaries({}, optional={"ttft": reals, "tpot": reals})),
        "objective": draw(st.sampled_from(["cost", "throughput", "latency"])),
        "serving": draw(servings),
        "pins": draw(pins),
    }


scalings = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["linear", "dynamic", "yarn"]), "factor": reals}),
    st.fixed_dictionaries(
        {
            "type": st.just("llama3"),
            "factor": reals,
            "low_freq_factor": reals,
            "high_freq_factor": reals,
            "original_max_positions": counts,
        }
    ),
)


@settings(deadline=None, max_examples=60)
@given(specs())
def test_a_printed_spec_loads_to_the_same_spec(data: dict[str, Any]) -> None:
    spec = Spec.model_validate(data)
    text = spec_to_yaml(spec)
    assert load(text) == spec
    assert spec_to_yaml(load(text)) == text
    assert spec_from_data(spec_to_data(spec)) == spec
    assert spec_from_data(YAML(typ="safe", pure=True).load(text)) == spec


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_right_and_prints_a_fixed_point(path: Path) -> None:
    spec, diagnostics = check_spec(path)
    assert spec is not None
    assert not diagnostics
    assert load(spec_to_yaml(spec)) == spec


@st.composite
def typos(draw: st.DrawFn) -> tuple[tuple[str, ...], str]:
    """The address of a key in the base spec, and the key with one slip of the hand in it."""
    written = [address for address in addresses() if _get(BASE, address) is not None]
    address = draw(st.sampled_from(written))
    key, at = address[-1], draw(st.integers(0, len(address[-1]) - 1))
    slips = (
        key[:at] + key[at + 1 :],
        key[:at] + key[at] * 2 + key[at + 1 :],
        key[:at] + key[at : at + 2][::-1] + key[at + 2 :],
    )
    return address, draw(st.sampled_from(slips))


@settings(deadline=None, max_examples=100)
@given(typos())
def test_a_typo_in_any_key_is_one_error_that_suggests_the_key(typo: tuple[tuple[str, ...], str]) -> None:
    address, slip = typo
    known = keys(section_at(address[:-1]) or Spec)
    assume(slip and slip not in known)
    assume([key for key in known if edits(slip, key) <= edits(slip, address[-1])] == [address[-1]])
    _, diagnostics = spec_from_text(yaml_text(_renamed(BASE, address, slip)), "spec.yaml", FOLDER)
    unknown = [diagnostic for diagnostic in diagnostics if diagnostic.rule == "unknown-key"]
    assert [diagnostic.hint for diagnostic in unknown] == [f'did you mean "{address[-1]}"?']
    assert diagnostics == tuple(unknown)


@settings(deadline=None, max_examples=100)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="ab:-[]{}&*!|>%@`'\"#?, \n\t0x1e.", max_size=40)))
def test_no_text_gives_a_traceback(text: str) -> None:
    spec, diagnostics = spec_from_text(text, "spec.yaml", FOLDER)
    assert spec is None
    assert diagnostics
    assert all(diagnostic.headline for diagnostic in diagnostics)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(sorted(addresses())), values)
@example(("hardware", "reserve"), "\U00010000")
@example(("hardware", "reserve"), "\ud800")
@example(("pins",), {"\udfff": "\U0001f600"})
def test_no_value_of_any_key_gives_a_traceback(address: tuple[str, ...], value: object) -> None:
    spec, diagnostics = spec_from_text(yaml_text(_with(BASE, address, value)), "spec.yaml", FOLDER)
    assert spec is not None or diagnostics


@pytest.mark.parametrize("address", PINS)
@pytest.mark.parametrize("value", [[[]], [{}], [["x"], ["x"]], [None, None], [[], "x"]])
def test_no_pin_of_nested_lists_gives_a_traceback(address: str, value: object) -> None:
    spec, diagnostics = spec_from_text(yaml_text(_with(BASE, ("pins", address), value)), "spec.yaml", FOLDER)
    assert spec is None
    assert diagnostics


def yaml_text(data: object) -> str:
    """`data` as JSON-like YAML, strings quoted."""
    return json.dumps(data).replace("Infinity", ".inf").replace("NaN", ".nan")


def _get(data: Any, address: tuple[str, ...]) -> Any:
    for key in address:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _renamed(data: dict[str, Any], address: tuple[str, ...], slip: str) -> dict[str, Any]:
    key, rest = address[0], address[1:]
    if not rest:
        return {(slip if name == key else name): value for name, value in data.items()}
    return {name: _renamed(value, rest, slip) if name == key else value for name, value in data.items()}


def _with(data: Any, address: tuple[str, ...], value: object) -> Any:
    if not address:
        return value
    below = data if isinstance(data, dict) else {}
    return {**below, address[0]: _with(below.get(address[0]), address[1:], value)}
