"""The ways between a slice that reads prompts and one that generates."""

import pytest

from cost_models.chips import chip
from cost_models.torus import parse_slice
from planner.problem.handover import face_links, links


@pytest.mark.parametrize(
    ("name", "one", "other", "faces"),
    [
        pytest.param("v5e", "2x4", "2x4", 4, id="halves of 4x4 share a face of four chips"),
        pytest.param("v5e", "4x4", "4x4", 4, id="halves of 4x8"),
        pytest.param("v5e", "2x2", "4x4", 0, id="no slice is made of these"),
        pytest.param("v5p", "2x2x1", "2x2x1", 4, id="halves of 2x2x2 lie on each other"),
        pytest.param("v5p", "4x4x4", "4x4x4", 16, id="cubes of a 4x4x8"),
    ],
)
def test_halves_of_a_legal_slice_share_a_face(name: str, one: str, other: str, faces: int):
    assert face_links(parse_slice(chip(name), one), parse_slice(chip(name), other), chip(name)) == faces


def test_the_network_of_a_v5e_host_carries_a_cache_in_the_time_that_is_known():
    # 25 GB/s for the 8 chips of a host: 1.34 GB take 54 ms
    slice_ = parse_slice(chip("v5e"), "2x4")
    dcn = next(each for each in links(slice_, slice_, chip("v5e")) if each.name == "dcn")
    assert 1.34e9 * dcn.ns_per_byte == pytest.approx(54e6, rel=0.01)


def test_gpus_of_one_domain_use_their_links_only_while_the_fleet_fits():
    slice_ = parse_slice(chip("h100"), "4")
    ici, dcn = links(slice_, slice_, chip("h100"))
    assert (ici.name, ici.most_chips, dcn.name) == ("ici", 8, "dcn")
    assert ici.ns_per_byte < dcn.ns_per_byte


def test_a_chip_without_a_network_hands_over_between_neighbours_only():
    slice_ = parse_slice(chip("cpu"), "2x2")
    assert [each.name for each in links(slice_, slice_, chip("cpu"))] in ([], ["ici"])
