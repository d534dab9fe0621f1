# SPDX-License-Identifier: Apache-2.0
"""What each process has a part of: every element once, and every byte of a block's weights."""

import random
import re
from types import SimpleNamespace

import pytest

import mebp
from mebp.distributed.choices import check_choices
from mebp.distributed.placement import exposed, predict
from mebp.distributed.shards import slices
from mebp.distributed.weights import shards


@pytest.mark.parametrize("seed", range(50))
def test_slices_have_each_element_once_and_no_more_than_there_is_room_for(seed):
    drawn = random.Random(seed)
    ranks, room = drawn.randint(1, 5), drawn.randint(1, 9)
    sizes = [drawn.randint(1, 30) for _ in range(drawn.randint(1, 6))]
    owned: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for size in sizes:
        cuts = [0, *sorted(drawn.randint(0, size) for _ in range(ranks - 1)), size]
        for rank in range(ranks):
            owned[rank].append((cuts[rank], cuts[rank + 1]))
    owners, ended = {}, []
    for each in slices(sizes, owned, room):
        for rank, pieces in enumerate(each.of):
            assert sum(piece.end - piece.begin for piece in pieces) <= room
            for piece in pieces:
                assert piece.index not in ended
                for element in range(piece.begin, piece.end):
                    assert owners.setdefault((piece.index, element), rank) == rank
                    assert owned[rank][piece.index][0] <= element < owned[rank][piece.index][1]
        ended += each.ended
    assert ended == list(range(len(sizes)))[::-1]
    assert len(owners) == sum(sizes)


@pytest.mark.parametrize("size", [0, 1, 16384, 16385, 1_000_000])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_shards_of_a_region_follow_one_another_at_pages(size, ranks):
    parts = shards(size, ranks)
    assert [begin for begin, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == size
    assert all(begin % 16384 == 0 or begin == size for begin, _ in parts)


def test_what_shows_of_a_region_is_what_the_block_before_does_not_hide():
    forward = [1.0, 1.0, 1.0]
    assert exposed(forward, [0.0, 1.0, 1.0]) == 0.0
    assert exposed(forward, [0.5, 0.0, 0.0]) == 0.5  # nothing runs before the first
    assert exposed(forward, [0.0, 1.5, 0.0]) == 0.5  # a backward is two forwards
    assert exposed(forward, [0.0, 3.0, 0.0]) == 2.0 + 1.0


def test_mapped_weights_are_as_fast_where_they_stay_in_memory():
    regions = [1000] * 10
    fits = predict(1.0, regions, 2, network=1e3, disk=1.0, memory=10_000)
    assert fits.fits and fits.mapped == 1.0 < fits.sharded
    larger = predict(1.0, regions, 2, network=1e9, disk=1e3, memory=9_999)
    assert not larger.fits and larger.sharded < larger.mapped


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shard": "some"}, "--shard some is none of none, optimizer, weights, auto"),
        ({"reduce": "star"}, "--reduce star is none of tree, ring"),
    ],
)
def test_what_is_no_choice_is_named(given, said):
    options = SimpleNamespace(**{"shard": "none", "reduce": "tree", **given})
    with pytest.raises(mebp.Error, match=f"^{re.escape(said)}"):
        check_choices(options)
