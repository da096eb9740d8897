"""Text of streams of tokens: whole characters, and stop strings that are never seen."""

import random
from typing import Any

import pytest

from tests.package.harness import Package
from tests.serving.fake_runner import VOCAB
from tests.serving.machine import PIECES, PieceTokenizer, ids_of

HARD = "naïve 日本語 👩‍👩‍👧 ok 👩👩👩👩日日日 ü"
SEEDS = range(200)


@pytest.fixture(scope="session")
def text(package: Package) -> Any:
    return package.module("text")


@pytest.fixture(scope="session")
def tokenizer(package: Package) -> Any:
    return package.module("tokenizer")


class ByteFallback(PieceTokenizer):
    """A decoder that gives up a whole run of bytes that are no text, as SentencePiece's do."""

    def decode(self, ids: Any) -> str:
        run = b"".join(PIECES[token] for token in ids)
        try:
            return run.decode()
        except UnicodeDecodeError:
            return "\ufffd" * len(run)


def streamed(stream: Any, ids: list[int]) -> list[str]:
    """The pieces of a stream to its end."""
    return [*(stream.add(token) for token in ids), stream.finish()]


def random_pieces(seed: int, length: int = 60) -> list[int]:
    """Tokens most of which are parts of characters."""
    drawn = random.Random(seed)
    partial = [token for token, piece in enumerate(PIECES) if max(piece) > 127]
    return [drawn.choice(partial) if drawn.random() < 0.8 else drawn.randrange(VOCAB) for _ in range(length)]


# F2: huggingface/text-generation-inference#333, Blaizzy/mlx-vlm#1076, deepjavalibrary/djl#3085


@pytest.mark.parametrize("seed", SEEDS)
def test_f2_pieces_join_to_the_text_of_all_tokens(tokenizer: Any, seed: int):
    ids = random_pieces(seed)
    plain = PieceTokenizer()
    assert "".join(streamed(tokenizer.Detokenizer(plain), ids)) == plain.decode(ids)


def test_f2_no_character_is_cut_wherever_tokens_cut_it(tokenizer: Any):
    begin, rest = (PIECES.index(each) for each in ("👩".encode()[:1], "👩".encode()[1:2]))
    straddling = [begin, rest, *[PIECES.index(b"\x91\xa9\xf0\x9f")] * 40]
    for ids in (ids_of(HARD), straddling):
        pieces = streamed(tokenizer.Detokenizer(PieceTokenizer()), ids)
        assert "\ufffd" not in "".join(pieces[:-1])
        assert "".join(pieces) == PieceTokenizer().decode(ids)
        assert len([piece for piece in pieces if piece]) > 20


@pytest.mark.parametrize("kind", [PieceTokenizer, ByteFallback])
def test_f2_bytes_become_characters_one_by_one(tokenizer: Any, kind: Any):
    single = [PIECES.index(bytes([byte])) for byte in "日日👩日".encode()]
    pieces = streamed(tokenizer.Detokenizer(kind()), single)
    assert pieces == ["", "", "日", "", "", "日", "", "", "", "👩", "", "", "日", ""]


@pytest.mark.parametrize("length", [400, 4000])
def test_f2_the_cost_of_a_token_does_not_grow_with_the_text(tokenizer: Any, length: int):
    longest = 0

    class Counting(PieceTokenizer):
        def decode(self, ids: Any) -> str:
            nonlocal longest
            longest = max(longest, len(ids))
            return "".join(PIECES[token].decode(errors="replace") for token in ids if token != 0)

    for ids in ([PIECES.index("日".encode()[1:2])] * length, [5] + [0] * length, [5, 0] * (length // 2)):
        streamed(tokenizer.Detokenizer(Counting()), ids)
    assert longest <= 50


def test_a_token_without_text_does_not_hide_what_was_before(tokenizer: Any):
    class Spaced(PieceTokenizer):
        """Each piece begins with a space, which the first of a text loses; token 0 is special."""

        def decode(self, ids: Any) -> str:
            return "".join(f" w{token}" for token in ids if token).removeprefix(" ")

    assert "".join(streamed(tokenizer.Detokenizer(Spaced()), [1, 0, 2, 0, 0, 3])) == "w1 w2 w3"


# Stop strings


def until_stop(whole: str, stops: list[str]) -> str:
    """The text before the stop string that is complete first."""
    for end in range(len(whole) + 1):
        ended = [stop for stop in stops if whole[:end].endswith(stop)]
        if ended:
            return whole[: end - max(map(len, ended))]
    return whole


@pytest.mark.parametrize("seed", SEEDS)
def test_text_ends_before_the_first_stop_string_however_it_is_cut(text: Any, seed: int):
    drawn = random.Random(seed)
    whole = "".join(drawn.choice("ab日") for _ in range(30))
    stops = ["".join(drawn.choice("ab日") for _ in range(drawn.randrange(1, 6))) for _ in range(drawn.randrange(5))]
    ids = [PIECES.index(bytes([byte])) for byte in whole.encode()]
    stream = text.TextStream(PieceTokenizer(), stops)
    told = ""
    for token in ids:
        told += stream.add(token)
        assert until_stop(whole, stops).startswith(told)
    assert told + stream.finish() == until_stop(whole, stops)
    assert stream.stopped == (until_stop(whole, stops) != whole or any(whole.endswith(stop) for stop in stops))


def test_a_stop_string_inside_one_token_stops(text: Any):
    stream = text.TextStream(PieceTokenizer(), ["to"])
    assert streamed(stream, ids_of("a stop b")) == ["a", " ", "s", "", "", ""]
    assert stream.stopped


def test_only_what_may_become_a_stop_string_is_held_back(text: Any):
    stream = text.TextStream(PieceTokenizer(), ["xyz"])
    ids = [PIECES.index(bytes([byte])) for byte in b"axyxyq"]
    assert [stream.add(token) for token in ids] == ["a", "", "", "xy", "", "xyq"]
