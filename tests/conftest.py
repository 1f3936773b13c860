from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest


@pytest.fixture(scope="session")
def no_public_sets(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], AbstractContextManager[None]]:
    """While it is entered, public sets are nowhere on disk, whatever this machine has."""

    @contextmanager
    def entered() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DESSL_DATA", str(tmp_path_factory.mktemp("no_data")))
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("no_cache")))
            yield

    return entered
