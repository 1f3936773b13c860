"""Ranks that were started again meet under a name of their own."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from torch import distributed

from dessl.training.meeting import CALL, fresh_store

SOON = timedelta(seconds=20)


def met(store: Any, n: int) -> list[Any]:
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda rank: fresh_store(store, rank, n, SOON), range(n)))


def test_all_ranks_of_an_attempt_share_a_store_that_no_other_has_used() -> None:
    store = distributed.HashStore()
    seen = set()
    for n in (3, 3, 2):  # two restarts, the last with a rank less
        stores = met(store, n)
        stores[0].set("address", f"of attempt {len(seen)}")
        assert {one.get("address").decode() for one in stores} == {f"of attempt {len(seen)}"}
        name = json.loads(store.get(CALL))["name"]
        assert name not in seen
        seen.add(name)


def test_a_call_to_processes_that_have_died_is_not_answered() -> None:
    store = distributed.HashStore()
    store.set("dessl token 1", "dead")
    store.set(CALL, json.dumps({"name": "old", "tokens": {"1": "dead"}}))
    store.set("dessl answer old 1", "here")
    with pytest.raises(RuntimeError, match=r"rank 1 waited .* which did not connect"):
        fresh_store(store, 1, 2, timedelta(seconds=0.2))
