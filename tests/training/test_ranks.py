"""Several ranks on one machine, by gloo: the gradients, weights and state of one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import data, dying, network, plan, run_ranks, weights
from torch import Tensor, distributed, nn

import dessl.risk
from dessl.data import draw_labels
from dessl.models import MLP
from dessl.training import (
    FailedRankError,
    PopulationRun,
    TrainPlan,
    loop,
    train,
    train_population,
)
from dessl.training.ranks import (
    LostRankError,
    check_same_on_ranks,
    from_each,
    from_first,
    process_group,
    rank,
    ranks,
    spread,
)
from dessl.training.ranks import (
    _in_one_line as in_one_line,
)
from dessl.training.shared_model import share
from dessl.training.stacked_runs import Population

pytestmark = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)

ROOT = Path(__file__).parents[2]
TERMS = (
    "entropy",
    "fixmatch",
    "vat",
    "mixmatch",
    "freematch",
    "temporal_ensembling",
)
RISKS: dict[str, dict[str, Any]] = {
    "complete_case": {"risk": "complete_case"},
    "ssl": {"risk": "ssl"},
    "debiased": {"risk": "debiased"},
    "nonnegative": {"risk": "debiased", "bound": "nonnegative"},
    "on all": {"risk": "debiased", "on": "all"},
    "uneven in all": {"risk": "debiased", "unlabelled_batch": 30},
}
WEIGHED: dict[str, dict[str, Any]] = {  # with propensities
    "complete_case, weighed": {"risk": "complete_case"},
    "ssl, weighed": {"risk": "ssl"},
    "debiased, weighed": {"risk": "debiased"},
    "inverse propensity": {"risk": "inverse_propensity"},
}


def plain_step(**more: Any) -> TrainPlan:
    """One step of plain descent at rate 1, which moves the weights by minus the gradient."""
    return plan(1, learning_rate=1.0, momentum=0.0, nesterov=False, **more)


def trained_by_all(**more: Any) -> dict[str, Tensor]:
    """What every case ends in: one step of each risk, then ten; ten steps of each term.

    Three ranks, which take long on two cores, train one term for all.
    """
    found = {}
    for name, its in (RISKS | WEIGHED).items():
        rows = data(weighed=name in WEIGHED)
        found[name] = weights(train(network, "entropy", rows, plain_step(**its), **more).model)
        ten = plan(10, evaluate_every=10, **its)
        found[f"{name}, ten"] = weights(train(network, "entropy", rows, ten, **more).model)
    for term in TERMS if ranks() < 3 else TERMS[1:2]:
        ten = plan(10, evaluate_every=5, bound="nonnegative")
        found[term] = weights(train(network, term, data(), ten, **more).model)
    return found


def _train_all(folder: Path) -> None:
    torch.save(trained_by_all(progress=False), folder / f"{ranks()}-{rank()}.pt")


@pytest.fixture(scope="module")
def alone() -> dict[str, Tensor]:
    return trained_by_all()


@pytest.mark.parametrize("n", [2, 3])
def test_ranks_train_as_one_process_does(n: int, tmp_path: Path, alone: dict[str, Tensor]) -> None:
    assert {case["risk"] for case in (RISKS | WEIGHED).values()} == set(dessl.risk.RISKS)
    assert run_ranks(n, _train_all, tmp_path) == [0] * n
    for number in range(n):
        found = torch.load(tmp_path / f"{n}-{number}.pt", weights_only=True)
        assert n > 2 or found.keys() == alone.keys()
        for name in found:
            expected = alone[name]
            close = 1e-6 if name in RISKS | WEIGHED else 1e-5  # ten steps add up rounding
            torch.testing.assert_close(
                found[name], expected, atol=close, rtol=0, msg=lambda m, name=name: f"{name}: {m}"
            )


def _interrupted(folder: Path, dies_at: int | None) -> None:
    """Train with checkpoints; one rank kills itself in the middle of a step."""
    try:
        result = train(
            network,
            dying(dies_at),
            data(),
            plan(20, evaluate_every=4),
            out=folder / "run",
            progress=False,
        )
    except LostRankError as error:
        (folder / f"lost-{rank()}").write_text(str(error))
        os._exit(7)
    if rank() == 0:
        torch.save(weights(result.model), folder / "end.pt")


def test_a_killed_rank_ends_the_run_which_resumes_on_other_ranks(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    _interrupted(whole, None)
    expected = torch.load(whole / "end.pt", weights_only=True)
    broken = tmp_path / "broken"
    broken.mkdir()
    assert run_ranks(2, _interrupted, broken, 11) == [7, -signal.SIGKILL]
    assert "any number of ranks" in (broken / "lost-0").read_text()
    for n in (1, 3):
        again = tmp_path / f"again-{n}"
        shutil.copytree(broken, again)
        assert run_ranks(n, _interrupted, again, None) == [0] * n
        found = torch.load(again / "end.pt", weights_only=True)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        lines = (again / "run" / "history.jsonl").read_text().splitlines()
        assert len(lines) == 5


def _with_dropout(folder: Path) -> None:
    def model() -> nn.Module:
        return MLP(4, 3, hidden=(16,), dropout=0.5)

    its = plan(8, evaluate_every=4)
    result = train(model, "entropy", data(), its, out=folder / "run", progress=False)
    torch.save(weights(result.model), folder / f"end-{rank()}.pt")


def test_every_rank_goes_on_with_its_own_draws(tmp_path: Path) -> None:
    assert run_ranks(2, _with_dropout, tmp_path) == [0, 0]
    cut = shutil.copytree(tmp_path, tmp_path.with_name("cut"))
    shutil.rmtree(cut / "run" / "checkpoints" / "step-000000008")
    assert run_ranks(2, _with_dropout, cut) == [0, 0]
    for number in range(2):
        found, expected = (
            torch.load(folder / f"end-{number}.pt", weights_only=True) for folder in (cut, tmp_path)
        )
        assert torch.equal(found, expected)


def _shares(folder: Path) -> None:
    own = share(7).tolist()
    (folder / f"share-{rank()}").write_text(json.dumps([own, from_each(rank()), from_first(rank)]))


def test_rows_are_shared_out_once(tmp_path: Path) -> None:
    assert run_ranks(3, _shares, tmp_path) == [0] * 3
    found = [json.loads((tmp_path / f"share-{number}").read_text()) for number in range(3)]
    assert sorted(row for own, _, _ in found for row in own) == list(range(7))
    assert all(every == [0, 1, 2] and first == 0 for _, every, first in found)


def _one_row(folder: Path) -> None:
    """Fewer labelled rows than ranks: still the same gradient."""
    its = TrainPlan(
        steps=1, labelled_batch=1, unlabelled_batch=1, learning_rate=1.0, momentum=0.0,
        nesterov=False,
    )  # fmt: skip
    result = train(network, "entropy", data(), its, progress=False)
    torch.save(weights(result.model), folder / f"one-{ranks()}-{rank()}.pt")


def test_fewer_rows_than_ranks(tmp_path: Path) -> None:
    _one_row(tmp_path)
    assert run_ranks(3, _one_row, tmp_path) == [0] * 3
    expected = torch.load(tmp_path / "one-1-0.pt", weights_only=True)
    found = torch.load(tmp_path / "one-3-2.pt", weights_only=True)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def _spread(folder: Path) -> None:
    def job(number: int) -> list[int]:
        warnings.warn(f"job {number}", UserWarning, stacklevel=1)
        if ranks() != 1 or number == 8:
            raise ValueError(f"job {number} cannot be done")
        return [number, os.getpid()]

    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        done = spread([partial(job, number) for number in range(5)])
        with pytest.raises((ValueError, FailedRankError), match="job 8 cannot be done"):
            spread([partial(job, number) for number in range(7, 10)])
    said = sorted({str(one.message) for one in noted})
    (folder / f"spread-{rank()}").write_text(json.dumps([done, os.getpid(), said]))


def test_jobs_are_spread_and_their_values_are_everywhere(tmp_path: Path) -> None:
    assert run_ranks(2, _spread, tmp_path) == [0, 0]
    (first, one, said), (second, two, heard) = (
        json.loads((tmp_path / f"spread-{number}").read_text()) for number in range(2)
    )
    assert first == second == [[number, (one, two)[number % 2]] for number in range(5)]
    assert said == heard == [f"job {number}" for number in (0, 1, 2, 3, 4, 7, 8, 9)]


def _of_rank_0(folder: Path) -> None:
    def make() -> None:
        raise OSError("rank 0 cannot do this")

    with pytest.raises(OSError if rank() == 0 else FailedRankError, match="cannot do this"):
        from_first(make)
    with pytest.raises(ValueError, match=r"the data must be the same on every rank \(rows: 0 on"):
        check_same_on_ranks({"rows": rank(), "name": "same"}, "the data")
    rows = data()
    rows.x[0, 0] += rank()
    with pytest.raises(ValueError, match=r"must be the same on every rank.*data rows_sha256"):
        train(network, "entropy", rows, plan(1), progress=False)
    (folder / f"told-{rank()}").touch()


def test_ranks_are_told_of_a_failure_and_of_a_difference(tmp_path: Path) -> None:
    assert run_ranks(2, _of_rank_0, tmp_path) == [0, 0]
    assert (tmp_path / "told-1").exists()


def _population(folder: Path, out: str | None = None, dies_at: int | None = None) -> None:
    """Train five runs; the last rank kills itself when it has saved a step."""
    rows, last = data(), rank() == ranks() - 1
    draws = [
        draw_labels(rows.y, 40, n_validation=8, generator=torch.Generator().manual_seed(seed))
        for seed in range(5)
    ]
    risks = ("ssl", "complete_case", "debiased", "ssl", "debiased")
    runs = [PopulationRun(i, draw, 0.5, risks[i]) for i, draw in enumerate(draws)]
    saved, Population.save_seconds = loop.save_checkpoint, 0.0

    def saving(place: Path, step: int, *rest: Any) -> Path:
        found = saved(place, step, *rest)
        if step == dies_at and last:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    loop.save_checkpoint = saving
    results = train_population(
        network,
        "entropy",
        rows,
        runs,
        plan(6, evaluate_every=2),
        out=folder / (out or f"of-{ranks()}"),
        progress=False,
    )
    found = {str(i): weights(result.model) for i, result in enumerate(results)}
    assert [result.plan.risk for result in results] == list(risks)
    torch.save(found, folder / f"population-{ranks()}-{rank()}.pt")


def test_a_population_is_divided_by_the_ranks(tmp_path: Path) -> None:
    _population(tmp_path)
    assert run_ranks(2, _population, tmp_path) == [0, 0]
    alone, first, second = (
        torch.load(tmp_path / f"population-{name}.pt", weights_only=True)
        for name in ("1-0", "2-0", "2-1")
    )
    torch.testing.assert_close(first, alone, atol=1e-6, rtol=0)
    torch.testing.assert_close(second, first, atol=0, rtol=0)
    groups = json.loads((tmp_path / "of-2" / "groups.json").read_text())
    assert sorted(map(len, groups.values())) == [1, 1, 3]  # a complete case, and the others
    assert all((tmp_path / "of-2" / name).is_dir() for name in groups)
    assert run_ranks(2, _population, tmp_path, "broken", 4)[1] == -signal.SIGKILL
    for n in (1, 3):
        shutil.copytree(tmp_path / "broken", tmp_path / f"again-{n}")
        assert run_ranks(n, _population, tmp_path, f"again-{n}") == [0] * n
        for number in range(n):
            found = torch.load(tmp_path / f"population-{n}-{number}.pt", weights_only=True)
            torch.testing.assert_close(found, alone, atol=1e-6, rtol=0)
    cut = json.loads((tmp_path / "again-3" / "groups.json").read_text())
    assert sorted(map(len, cut.values())) == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE must be a number of processes; got 'two'"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "MASTER_ADDR, MASTER_PORT is not set"),
    ],
)
def test_a_launcher_that_says_too_little(
    setting: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=words), process_group():
        pass


def torchrun(*words: object) -> subprocess.Popen[str]:
    paths = os.pathsep.join(str(ROOT / part) for part in ("", "src"))
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *map(str, words)],
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1" if "--nnodes=1:2" in words else "0",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_what_another_rank_is_to_blame_for_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[type] = []
    for error in (LostRankError("a rank has gone"), ValueError("mine")):
        in_one_line(lambda kind, *_: told.append(kind), type(error), error, None)
    assert capsys.readouterr().err == "dessl: a rank has gone\n"
    assert told == [ValueError]


LOSING = """
import sys
from pathlib import Path
from dessl.training import process_group, train
from tests.training.several_ranks import data, dying, network, plan
with process_group():
    train(network, dying(5), data(), plan(20), out=Path(sys.argv[1]), progress=False)
"""


@pytest.mark.slow
def test_a_script_that_loses_a_rank_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LOSING)
    job = torchrun("--standalone", "--nproc-per-node=3", tmp_path / "script.py", tmp_path / "run")
    _, err = job.communicate(timeout=120)
    assert job.returncode
    assert err.count("dessl: a rank of 3 has died") == 1
    assert "LostRankError" not in err


KEEPING = """
import sys, weakref
from torch import distributed
from dessl.training.ranks import process_group
assert "torch._dynamo" not in sys.modules
with process_group():
    group = weakref.ref(distributed.group.WORLD)
    import torch._dynamo
assert group() is None
"""


def test_nothing_keeps_the_group_when_its_block_has_ended(tmp_path: Path) -> None:
    """Its threads would work on while Python ends, which aborts the process now and then."""
    (tmp_path / "script.py").write_text(KEEPING)
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    processes = [
        subprocess.Popen(
            [sys.executable, tmp_path / "script.py"], env=os.environ | shared | {"RANK": number}
        )
        for number in "01"
    ]
    assert [process.wait(60) for process in processes] == [0, 0]


SCRIPT = """
import os, sys
from pathlib import Path
from dessl.training.ranks import process_group
from tests.training import test_ranks
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["WORLD_SIZE"] == "2"
kill = os.kill
if sys.argv[2] == "host":  # the launcher dies with its rank
    os.kill = lambda number, signal: (kill(os.getppid(), signal), kill(number, signal))
with process_group():
    test_ranks._interrupted(Path(sys.argv[1]), 11 if first else None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["rank", "host"])
def test_torchrun_restarts_a_job_that_lost(dies: str, tmp_path: Path) -> None:
    """The last rank is killed in step 11; torchrun starts the others again, and they resume."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for place in (whole, broken):
        place.mkdir()
    _interrupted(whole, None)
    (tmp_path / "script.py").write_text(SCRIPT)
    hosts: list[list[object]] = [["--standalone", "--nproc-per-node=2", "--max-restarts=1"]]
    if dies == "host":
        store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        port = store.port
        del store
        own = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=2", "--rdzv-backend=c10d"]
        own += [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-conf=keep_alive_interval=1"]
        hosts = [[*own, "--local-addr=127.0.0.1"]] * 2
    jobs = [torchrun(*hosts[0], tmp_path / "script.py", broken, dies)]
    if dies == "host":  # the other one joins when the first has the meeting place
        distributed.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=120))
        jobs.append(torchrun(*hosts[1], tmp_path / "script.py", broken, dies))
    ended = [job.communicate(timeout=300) for job in jobs]
    codes = sorted(job.returncode for job in jobs)
    assert codes == ([0] if dies == "rank" else [-signal.SIGKILL, 0]), ended
    assert "any number of ranks" in (broken / "lost-0").read_text()
    found = torch.load(broken / "end.pt", weights_only=True)
    expected = torch.load(whole / "end.pt", weights_only=True)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert len((broken / "run" / "history.jsonl").read_text().splitlines()) == 5


def test_without_torchrun_there_is_no_group() -> None:
    with process_group() as device:
        assert device is None
        assert (rank(), ranks()) == (0, 1)
