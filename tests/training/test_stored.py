"""Training on stored rows: the same as in memory, resumed bit for bit, refused where it must be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.training import several_ranks
from torch import Tensor, distributed, nn

from dessl import Batches, DataError, SemiData
from dessl.data import LabelDraw, open_rows
from dessl.surrogates import Entropy, FixMatch, FlexMatch, Rows, TemporalEnsembling
from dessl.training import PopulationRun, train, train_population
from dessl.training.ranks import rank
from dessl.training.run import Run
from dessl.training.step import Step


@pytest.fixture
def make_stored(make_data: Any, tmp_path: Path) -> Any:
    """The data of the other tests with its 100 unlabelled rows in two files."""

    def make() -> SemiData:
        data = make_data()
        for number, rows in enumerate((data.x[20:70], data.x[70:])):
            np.save(tmp_path / f"{number}.npy", rows.numpy())
        stored = open_rows(tmp_path)
        return SemiData(data.x[:20], data.y[:20], validation=data.validation, stored=stored)

    return make


def weights(model: nn.Module) -> list[Tensor]:
    return [value.clone() for value in model.state_dict().values()]


def test_what_the_data_says(make_stored: Any) -> None:
    data = make_stored()
    assert (data.n_labelled, data.n_unlabelled, data.n_stored) == (20, 100, 100)
    assert data.first_stored_id == 20
    assert "100 of them stored" in repr(data)
    assert "100 stored" in data._repr_html_()
    assert data.with_stored(None).n_unlabelled == 0


def test_a_step_is_that_of_the_same_rows_in_memory(
    make_data: Any, make_stored: Any, make_model: Any, make_plan: Any
) -> None:
    plan = make_plan()
    found = []
    for data, stored in ((make_data(), None), (make_stored(), Rows)):
        torch.manual_seed(0)
        model = make_model()
        step = Step(model, Entropy(), data, plan)
        rows = torch.arange(8)
        drawn = torch.arange(30, 54)
        if stored is None:
            step(torch.cat([rows, drawn]), 0.5)
        else:
            x = torch.from_numpy(data.stored.rows((drawn - 20).tolist()))
            step(rows, 0.5, Rows(x, drawn))
        found.append(weights(model))
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


@pytest.mark.parametrize("surrogate", [Entropy, FlexMatch, TemporalEnsembling])
def test_a_run_killed_in_an_epoch_resumes_bit_for_bit(
    make_stored: Any, make_model: Any, make_plan: Any, tmp_path: Path, surrogate: Any
) -> None:
    plan, data = make_plan(steps=14, lam=0.5, select="accuracy"), make_stored()

    def views() -> Any:
        plain = {"weak": lambda x, g: x, "strong": lambda x, g: x}
        return surrogate(**plain) if surrogate is FlexMatch else surrogate()

    def stop(event: Any) -> None:
        if event.step == 8:  # 192 of 100 rows: in the second epoch
            raise KeyboardInterrupt

    whole = train(make_model, views(), data, plan)
    with pytest.raises(KeyboardInterrupt):
        train(make_model, views(), data, plan, out=tmp_path / "run", callbacks=[stop])
    resumed = train(make_model, views(), make_stored(), plan, out=tmp_path / "run")
    pairs = zip(weights(whole.model), weights(resumed.model), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert [e.risk for e in whole.history] == [e.risk for e in resumed.history]


def test_another_store_is_another_run(
    make_stored: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    data = make_stored()
    train(make_model, Entropy(), data, make_plan(), out=tmp_path / "run")
    x = np.load(tmp_path / "1.npy")
    np.save(tmp_path / "1.npy", x + 1)
    with pytest.raises(ValueError, match="different rows on disk"):
        train(make_model, Entropy(), data, make_plan(), out=tmp_path / "run")


def test_ids_of_memories_count_stored_rows(
    make_stored: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_stored()
    surrogate = FlexMatch(weak=lambda x, g: x, strong=lambda x, g: x)
    Run(make_model(), surrogate, data, make_plan(), None)
    assert surrogate.last_label.shape == (20 + 100 + 40,)
    assert (surrogate.last_label[:120] == -1).all()
    assert (surrogate.last_label[120:] != -1).all()  # validation rows are never drawn


def test_rows_on_all_are_weighed_by_all_rows(
    make_stored: Any, make_model: Any, make_plan: Any
) -> None:
    run = Run(make_model(), Entropy(), make_stored(), make_plan(on="all"), None)
    assert run.step._weights is not None
    assert run.step._weights[0].item() == pytest.approx(100 / 24 * 8 / 20)


def test_the_complete_case_reads_no_stored_row(
    make_stored: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    data = make_stored()
    (tmp_path / "0.npy").unlink()
    train(make_model, Entropy(), data, make_plan(risk="complete_case"))
    with pytest.raises(DataError, match=r"0\.npy"):
        train(make_model, Entropy(), data, make_plan())


def test_images_are_augmented_after_they_are_read(make_plan: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), np.uint8)
    np.save(tmp_path / "a.npy", x[20:])
    data = SemiData(x[:20], np.arange(20) % 2, stored=open_rows(tmp_path))

    def network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))

    result = train(network, FixMatch(), data, make_plan(lam=0.5))
    assert result.steps == 12


def test_what_cannot_be_done_is_refused(
    make_stored: Any, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_stored()
    with pytest.raises(ValueError, match="include_labelled"):
        train(make_model, Entropy(), data, make_plan(include_labelled=True))
    with pytest.raises(ValueError, match="drawn from rows in memory"):
        Batches(data, 4, 8, seed=0)
    draw = LabelDraw(torch.arange(10), torch.arange(10, 20), torch.arange(0))
    with pytest.raises(ValueError, match="one by one"):
        train_population(
            make_model, "entropy", data, [PopulationRun(0, draw, 1.0, "ssl")], make_plan()
        )
    with pytest.raises(ValueError, match=r"rows must be like those of x, \(2,\)"):
        SemiData(torch.zeros(4, 2), [0, 1, 0, 1], stored=data.stored)
    with pytest.raises(TypeError, match="open_rows"):
        SemiData(torch.zeros(4, 2), [0, 1, 0, 1], stored=np.zeros((4, 2)))  # type: ignore[arg-type]


def _ranks_data(folder: Path) -> SemiData:
    whole = several_ranks.data()
    if not (folder / "rows.npy").exists():
        np.save(folder / "rows.npy", whole.x[60:].numpy())
    stored = open_rows(folder / "rows.npy")
    return SemiData(whole.x[:60], whole.y[:60], validation=whole.validation, stored=stored)


def _on_ranks(folder: Path) -> None:
    plan = several_ranks.plan(12, evaluate_every=4)
    rows = _ranks_data(folder)
    run = train(several_ranks.network, "entropy", rows, plan, out=folder / "run", progress=False)
    torch.save(several_ranks.weights(run.model), folder / f"rank-{rank()}.pt")


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this PyTorch has no gloo")
def test_two_ranks_go_on_where_one_process_stopped(tmp_path: Path) -> None:
    """Order belongs to rows: ranks draw what one process would have drawn."""
    data, plan = _ranks_data(tmp_path), several_ranks.plan(12, evaluate_every=4)

    def stop(event: Any) -> None:
        if event.step == 8:
            raise KeyboardInterrupt

    whole = train(several_ranks.network, "entropy", data, plan)
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(several_ranks.network, "entropy", data, plan, out=out, callbacks=[stop])
    assert several_ranks.run_ranks(2, _on_ranks, tmp_path) == [0, 0]
    for number in range(2):
        found = torch.load(tmp_path / f"rank-{number}.pt", weights_only=True)
        torch.testing.assert_close(found, several_ranks.weights(whole.model), atol=1e-5, rtol=0)
