"""Page ids and their holders."""

from random import Random
from types import SimpleNamespace

import pytest


def test_a_group_gives_its_own_pages_only(core: SimpleNamespace):
    pages = core.Pages(3, 4)
    assert sorted(pages.take(1, 4)) == [4, 5, 6, 7]
    assert [pages.free(group) for group in range(3)] == [4, 0, 4]
    with pytest.raises(core.OutOfPages, match="group 1 has 0 free pages of 4; 1 were asked for"):
        pages.take(1, 1)
    with pytest.raises(core.OutOfPages):
        pages.take(2, 5)
    assert pages.free(2) == 4


def test_a_page_is_free_when_its_last_holder_drops_it(core: SimpleNamespace):
    pages = core.Pages(1, 2)
    [page] = pages.take(0, 1)
    pages.share(page)
    pages.drop(page)
    assert (pages.holders(page), pages.free(0)) == (1, 1)
    pages.drop(page)
    assert (pages.holders(page), pages.free(0)) == (0, 2)


@pytest.mark.parametrize("page", [-1, 0, 2])
def test_a_page_without_holders_is_neither_shared_nor_dropped(core: SimpleNamespace, page: int):
    pages = core.Pages(1, 2)
    for verb in (pages.share, pages.drop):
        with pytest.raises(ValueError, match=f"page {page} has no holder"):
            verb(page)


def test_check_tells_what_does_not_add_up(core: SimpleNamespace):
    pages = core.Pages(2, 2)
    taken = pages.take(1, 1)
    pages.check(taken)
    with pytest.raises(RuntimeError, match=f"page {taken[0]} has 1 holders; 0 are known"):
        pages.check([])
    with pytest.raises(RuntimeError, match=f"page {taken[0]} has 1 holders; 2 are known"):
        pages.check(taken * 2)
    pages._free[1].append(taken[0])
    with pytest.raises(RuntimeError, match="free pages of group 1 are not those without holders"):
        pages.check(taken)


def test_ten_thousand_random_operations_lose_no_page(core: SimpleNamespace):
    random, pages = Random(0), core.Pages(3, 7)
    held: list[int] = []
    for _ in range(10_000):
        verb = random.choice(("take", "share", "drop", "drop"))
        group = random.randrange(3)
        if verb == "take" and pages.free(group):
            held += pages.take(group, random.randint(1, pages.free(group)))
        elif held:
            page = random.choice(held)
            getattr(pages, "share" if verb == "share" else "drop")(page)
            held.append(page) if verb == "share" else held.remove(page)
        pages.check(held)
    for page in held:
        pages.drop(page)
    assert [pages.free(group) for group in range(3)] == [7, 7, 7]
