"""Find the other ranks again after ``torchrun`` has restarted them.

The store of ``torchrun`` outlives its processes, with the addresses of those that have died. Ranks
that are started again would take these for the addresses of the living and fail to connect
(pytorch/pytorch#135712, #167288), and no variable counts the attempts consistently on all hosts. So
the ranks first agree on an unused name, under which all that follows is stored:

    rank r   shows a random token
    rank 0   calls a random name, with the tokens that it sees
    rank r   answers a call that has its own token: so the call is of this attempt, and the name new
"""

import json
import secrets
import time
from datetime import timedelta
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore

PAUSE = 0.02  # seconds between two looks at the store
CALL = "dessl call"


def fresh_store(store: Any, rank: int, ranks: int, timeout: timedelta) -> Any:
    """Return the part of a store that only the ranks of this attempt use.

    Args:
        store: Store of ``torchrun``; it may have entries of dead processes.
        rank: Rank of this process.
        ranks: Number of ranks.
        timeout: Longest time to wait for the others.

    Raises:
        RuntimeError: The other ranks did not connect.
    """
    until = time.monotonic() + timeout.total_seconds()
    own = secrets.token_hex(8)
    if rank:
        store.set(f"dessl token {rank}", own)
    while time.monotonic() < until:
        name = _called(store, own, ranks) if rank == 0 else _answered(store, own, rank)
        if name is not None:
            return PrefixStore(f"dessl {name}", store)
        time.sleep(PAUSE)
    raise RuntimeError(
        f"rank {rank} waited {timeout} for the other {ranks - 1} ranks, which did not connect. "
        "Start all hosts with the same address and number of nodes, and check that they can reach "
        "it."
    )


def _called(store: Any, name: str, ranks: int) -> str | None:
    """Call a name; return it when all ranks have answered."""
    others = range(1, ranks)
    shown = {str(r): _seen(store, f"dessl token {r}") for r in others}
    store.set(CALL, json.dumps({"name": name, "tokens": shown}))
    return name if all(store.check([f"dessl answer {name} {r}"]) for r in others) else None


def _answered(store: Any, own: str, rank: int) -> str | None:
    """Answer the call that is meant for this process, and return its name."""
    called = json.loads(_seen(store, CALL) or "{}")
    if called.get("tokens", {}).get(str(rank)) != own:
        return None
    store.set(f"dessl answer {called['name']} {rank}", "here")
    return str(called["name"])


def _seen(store: Any, key: str) -> str | None:
    return store.get(key).decode() if store.check([key]) else None
