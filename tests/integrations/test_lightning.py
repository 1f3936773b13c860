"""A real Trainer on a real data module: it learns, H's state moves, nothing is left behind."""

import logging
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector
from torch.utils.data import DataLoader, TensorDataset

from dessl import SemiData, TrainPlan, train
from dessl.evaluation import evaluate
from dessl.models import MLP
from dessl.objective import objective
from dessl.schedules import schedule_from
from dessl.surrogates import (
    Entropy,
    FixMatch,
    FlexMatch,
    MeanTeacher,
    Rows,
    Scores,
    TemporalEnsembling,
    as_is,
)
from dessl.surrogates.base import Model
from dessl.training import DivergenceError

lightning = pytest.importorskip("lightning")

TEACHER_STEPS = "surrogate.teacher.steps"


@pytest.fixture
def data() -> SemiData:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    few = torch.where(torch.arange(200) < 40, y[:200], -1)
    return SemiData(x[:200], few, validation=(x[200:], y[200:]))


def trainer(folder: Path, epochs: int, **options: Any) -> "lightning.Trainer":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    settings: dict[str, Any] = {
        "max_epochs": epochs,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
    }
    return lightning.Trainer(**{**settings, **options})


def fit(
    folder: Path,
    module: object,
    data: SemiData,
    epochs: int,
    ckpt_path: Path | None = None,
    **options: Any,
) -> "lightning.Trainer":
    from dessl.integrations.lightning import SemiDataModule

    ours = trainer(folder, epochs, **options)
    batches = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60)
    with quiet():
        ours.fit(module, batches, ckpt_path=ckpt_path)
    return ours


@contextmanager
def quiet() -> Iterator[None]:
    """Hide Lightning's advice on workers and lengths, and its own use of deprecated PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def first_batch(module: "lightning.LightningDataModule") -> dict[str, Any]:
    with quiet():
        batch, *_ = next(iter(module.train_dataloader()))
    return batch


def joint(batch: dict[str, Any]) -> tuple[Tensor, ...]:
    """Labelled rows, then unlabelled ones; labels and propensities of the former."""
    (x, ids, *labels), (others, other_ids, *_) = batch["labelled"], batch["unlabelled"]
    return torch.cat([x, others]), torch.cat([ids, other_ids]), *labels


class Noting(Entropy):
    """Notes the rows of its training passes and of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[list[int]] = []
        self.steps: list[list[int]] = []

    def forward(self, model: Model, rows: Rows) -> Scores:
        self.passes.append(rows.ids.tolist())
        return super().forward(model, rows)

    def after_step(self, model: torch.nn.Module, rows: Rows, scores: Scores) -> None:
        assert scores.logits.shape == (1, *rows.ids.shape, 2)
        assert scores.h.shape == rows.ids.shape == rows.x.shape[:1]
        self.steps.append(rows.ids.tolist())


def test_a_trainer_learns_and_logs_and_leaves_nothing(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    torch.manual_seed(0)
    module = DeSSLModule(MLP(2, 2, hidden=(16,)), Entropy(), lam=0.3, learning_rate=0.02)
    used = fit(tmp_path, module, data, epochs=20)
    assert used.global_step == 20 * 2
    assert used.callback_metrics["validation_accuracy"] > 0.9
    assert {"risk", "loss", "h_labelled", "h_unlabelled"} <= set(used.callback_metrics)
    assert list(tmp_path.iterdir()) == []


def test_labels_guessed_apart_save_what_the_loss_does_not_need(
    tmp_path: Path, data: SemiData
) -> None:
    from dessl.integrations.lightning import DeSSLModule

    model, seen = MLP(2, 2, hidden=(8,)), []
    model.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    module = DeSSLModule(model, FixMatch(targets="apart"), lam=0.5)
    fit(tmp_path, module, data, epochs=1, limit_train_batches=1, limit_val_batches=0)
    assert seen == [80, 20 + 80]  # guesses of all rows; then 20 weak views and all strong ones


def test_the_step_is_the_objective_of_the_batch(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    model = MLP(2, 2, hidden=(8,), dropout=0.0)
    module = DeSSLModule(model, Entropy(), lam=0.7)
    logged: dict[str, Tensor] = {}
    module.log = lambda name, value, **_: logged.update({name: value})
    x, ids, y = joint(
        batch := first_batch(SemiDataModule(data, labelled_batch=10, unlabelled_batch=30))
    )
    assert x.shape == (40, 2)
    assert y.shape == (10,)
    assert (y >= 0).all()
    assert (data.y[ids[:10]] == y).all()
    assert (data.y[ids[10:]] == -1).all()
    value = module.training_step(batch, 0)
    expected = objective(Entropy()(model, Rows(x, ids)), y, 0.7)
    assert torch.equal(value, expected.value)
    assert torch.equal(logged["loss"], expected.loss)


def test_a_teacher_is_made_and_moves(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    torch.manual_seed(0)
    model = MLP(2, 2, hidden=(8,), dropout=0.0)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    teacher = MeanTeacher(decay=0.5)
    fit(tmp_path, DeSSLModule(model, teacher, learning_rate=0.1), data, epochs=2)
    weights = dict(teacher.teacher.model.named_parameters())
    assert any(not torch.equal(first[name], value) for name, value in weights.items())
    assert any(not torch.equal(model.state_dict()[n], value) for n, value in weights.items())


def test_a_checkpoint_goes_on_with_the_surrogates_state(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    def module() -> DeSSLModule:
        return DeSSLModule(MLP(2, 2, hidden=(8,)), MeanTeacher(decay=0.5), learning_rate=0.1)

    def teacher(module: DeSSLModule) -> dict[str, Tensor]:
        return module.surrogate.teacher.model.state_dict()

    first = module()
    fit(tmp_path, first, data, epochs=2).save_checkpoint(tmp_path / "two.ckpt")
    kept = {name: value.clone() for name, value in teacher(first).items()}
    second = module()
    fit(tmp_path, second, data, epochs=2, ckpt_path=tmp_path / "two.ckpt")  # nothing left to do
    assert all(torch.equal(kept[name], value) for name, value in teacher(second).items())
    third = module()
    fit(tmp_path, third, data, epochs=3, ckpt_path=tmp_path / "two.ckpt")
    assert any(not torch.equal(kept[name], value) for name, value in teacher(third).items())


STATEFUL = [lambda: MeanTeacher(decay=0.5), TemporalEnsembling, FlexMatch]


@pytest.mark.parametrize("surrogate", STATEFUL)
def test_a_checkpoint_is_read_by_a_module_that_was_never_trained(
    surrogate: Any, tmp_path: Path, data: SemiData
) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    def parts() -> dict[str, Any]:
        return {"model": MLP(2, 2, hidden=(8,)), "surrogate": surrogate()}

    first = DeSSLModule(**parts())
    fit(tmp_path, first, data, epochs=2).save_checkpoint(tmp_path / "two.ckpt")
    with quiet():
        loaded = DeSSLModule.load_from_checkpoint(tmp_path / "two.ckpt", **parts())
    checked = DeSSLModule(**parts())
    fewer = SemiData(data.x[:50], data.y[:50], validation=data.validation)  # no stream to go on
    with quiet():
        trainer(tmp_path, 1).validate(
            checked, SemiDataModule(fewer), ckpt_path=tmp_path / "two.ckpt", verbose=False
        )
    for module in (loaded, checked):
        for name, value in first.named_buffers():
            assert torch.equal(module.get_buffer(name), value)
        for name, value in first.named_parameters():
            assert torch.equal(module.get_parameter(name), value)


@pytest.mark.parametrize("surrogate", STATEFUL)
def test_lightnings_average_of_weights_goes_with_a_surrogates_state(
    surrogate: Any, tmp_path: Path, data: SemiData
) -> None:
    """It copies the module before the module's own setup."""
    from lightning.pytorch.callbacks import EMAWeightAveraging

    from dessl.integrations.lightning import DeSSLModule

    module = DeSSLModule(MLP(2, 2, hidden=(8,)), surrogate())
    average = EMAWeightAveraging(decay=0.5, update_starting_at_step=0)
    assert fit(tmp_path, module, data, epochs=2, callbacks=[average]).global_step == 4
    fit(tmp_path, module, data, epochs=1)  # another fit prepares anew
    if isinstance(module.surrogate, MeanTeacher):
        assert module.surrogate.get_buffer("teacher.steps") == 2


def test_a_checkpoint_of_a_step_has_the_surrogates_state_of_that_step(
    tmp_path: Path, data: SemiData
) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    from dessl.integrations.lightning import DeSSLModule

    each = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=1)
    module = DeSSLModule(MLP(2, 2, hidden=(8,)), MeanTeacher())
    fit(tmp_path, module, data, epochs=2, enable_checkpointing=True, callbacks=[each])
    found = [torch.load(file, weights_only=True) for file in tmp_path.glob("*.ckpt")]
    assert len(found) == 4
    for saved in found:
        assert saved["state_dict"]["surrogate.teacher.steps"] == saved["global_step"]


@pytest.mark.parametrize("steps", [4, 5])  # at the end of an epoch and within one
def test_a_resumed_fit_goes_on_with_the_rows_that_come_next(
    steps: int, tmp_path: Path, data: SemiData
) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    from dessl.integrations.lightning import DeSSLModule

    def passes(**options: Any) -> list[list[int]]:
        term = Noting()
        fit(tmp_path, DeSSLModule(MLP(2, 2), term), data, epochs=4, **options)
        return term.passes

    each = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, every_n_train_steps=1)
    whole = passes(enable_checkpointing=True, callbacks=[each])
    assert len(whole) == 8
    assert passes(ckpt_path=tmp_path / f"step={steps}.ckpt") == whole[steps:]


def test_the_surrogate_moves_once_a_step_by_all_its_batches(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    labels = torch.where(torch.arange(200) < 100, (data.x[:, 0] > 0).long(), -1)
    more = SemiData(data.x, labels)  # five batches an epoch: steps of two, two and one
    term = Noting()
    used = fit(tmp_path, DeSSLModule(MLP(2, 2), term), more, epochs=2, accumulate_grad_batches=2)
    assert used.global_step == len(term.steps) == 6
    one, two, three, four, five = term.passes[:5]
    assert term.steps[:3] == [one + two, three + four, five]


def test_the_accuracy_of_a_one_logit_model_is_logged(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    module = DeSSLModule(torch.nn.Linear(2, 1), Entropy(), lam=0.1, learning_rate=0.1)
    used = fit(tmp_path, module, data, epochs=10)
    expected = evaluate(module.model, *data.validation).accuracy
    assert expected > 0.8
    assert used.callback_metrics["validation_accuracy"] == pytest.approx(expected)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_test_and_predictions_are_those_of_the_model(
    tmp_path: Path, data: SemiData, outputs: int
) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    x = torch.randn(1_100, 2, generator=torch.Generator().manual_seed(1))
    y = (x[:, 0] > 0).long()
    data = SemiData(data.x, data.y, validation=data.validation, test=(x, y))
    module = DeSSLModule(torch.nn.Linear(2, outputs), Entropy(), lam=0.1, learning_rate=0.1)
    used = fit(tmp_path, module, data, epochs=2)
    batches = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60)
    with quiet():
        (found,) = used.test(module, batches, verbose=False)
        (held_out,) = used.validate(module, batches, verbose=False)
    for stage, metrics, rows in (
        ("test", found, (x, y)),
        ("validation", held_out, data.validation),
    ):
        expected = evaluate(module.model, *rows)
        assert metrics == {
            f"{stage}_accuracy": pytest.approx(expected.accuracy),
            f"{stage}_cross_entropy": pytest.approx(expected.cross_entropy, rel=1e-5),
        }
    fit(tmp_path, module, data, epochs=1)  # what a test left does not disturb a fit
    for rows in (x, TensorDataset(x), TensorDataset(x, y)):
        with quiet():
            logits = used.predict(module, DataLoader(rows, batch_size=500))
        assert [len(part) for part in logits] == [500, 500, 100]
        assert torch.equal(torch.cat(logits), module(x).detach())


def test_a_test_without_test_rows_says_what_to_pass(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    module, batches = DeSSLModule(MLP(2, 2), Entropy()), SemiDataModule(data, labelled_batch=20)
    with pytest.raises(ValueError, match=r"Pass SemiData\(..., test=\(x, y\)\)"):
        trainer(tmp_path, 1).test(module, batches, verbose=False)


def test_the_complete_case_sees_labelled_rows_alone(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    rows: list[int] = []
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    model.register_forward_hook(lambda m, x, _: rows.append(len(x[0])) if m.training else None)
    fit(tmp_path, DeSSLModule(model, Entropy(), risk="complete_case"), data, epochs=1)
    assert set(rows) == {20}


def test_another_source_of_batches_is_refused(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    batches = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60)
    module = DeSSLModule(MLP(2, 2, hidden=(8,)), Entropy())
    with quiet(), pytest.raises(TypeError, match=r"got other loaders.*fit\(module, SemiDataModule"):
        trainer(tmp_path, 1).fit(module, batches.train_dataloader())


def test_arguments_of_another_kind_are_refused(data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    with pytest.raises(TypeError, match=r"nn\.Module; got function.*call it"):
        DeSSLModule(lambda: MLP(2, 2), Entropy())
    with pytest.raises(TypeError, match=r"SemiData; got Tensor.*dessl\.SemiData\(x, y\)"):
        SemiDataModule(data.x)


def test_a_batch_of_another_kind_is_refused(tmp_path: Path, data: SemiData) -> None:
    from torch.utils.data import DataLoader, TensorDataset

    from dessl.integrations.lightning import DeSSLModule

    module = DeSSLModule(MLP(2, 2, hidden=(8,)), Entropy(), n_rows=200, n_classes=2)
    loader = DataLoader(TensorDataset(data.x, data.y), batch_size=20)
    with quiet(), pytest.raises(TypeError, match="CombinedLoader of two such loaders"):
        trainer(tmp_path, 1).fit(module, loader)


def own_loaders(
    labelled: tuple[Tensor, ...], unlabelled: tuple[Tensor, ...], mode: str = "max_size_cycle"
) -> Any:
    from lightning.pytorch.utilities import CombinedLoader

    parts = {"labelled": labelled, "unlabelled": unlabelled}
    loaders = {k: DataLoader(TensorDataset(*part), batch_size=20) for k, part in parts.items()}
    with quiet():
        return CombinedLoader(loaders, mode)


@pytest.mark.parametrize(
    ("which", "mode", "message"),
    [
        (
            "x y, x",
            "max_size_cycle",
            r"labelled loader must yield \(x, ids, y\).*list of Tensor, T",
        ),
        (
            "x i y, x",
            "max_size_cycle",
            r"unlabelled loader must yield \(x, ids\).*list of Tensor\.",
        ),
        ("x i y, x i", "max_size", r'no labelled rows.*"max_size_cycle".*"min_size"'),
    ],
)
def test_loaders_of_another_form_are_told_what_to_yield(
    which: str, mode: str, message: str, tmp_path: Path, data: SemiData
) -> None:
    from dessl.integrations.lightning import DeSSLModule

    of = {"x": data.x, "i": data.ids, "y": data.y}
    first, second = (part.split() for part in which.split(", "))
    loaders = own_loaders(tuple(of[k][:40] for k in first), tuple(of[k][40:] for k in second), mode)
    module = DeSSLModule(MLP(2, 2, hidden=(8,)), Entropy(), n_rows=200, n_classes=2)
    with quiet(), pytest.raises(TypeError, match=message):
        trainer(tmp_path, 1).fit(module, loaders)


def test_too_few_outputs_are_refused(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    module = DeSSLModule(MLP(2, 2, hidden=(8,)), Entropy(), n_rows=200, n_classes=3)
    loaders = own_loaders((data.x[:40], data.ids[:40], data.y[:40]), (data.x[40:], data.ids[40:]))
    with quiet(), pytest.raises(ValueError, match="data's 3 classes; it gives 2 for a row"):
        trainer(tmp_path, 1).fit(module, loaders)


def test_outputs_that_are_probabilities_are_warned_of_once(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    def warned(*layers: torch.nn.Module) -> int:
        module = DeSSLModule(torch.nn.Sequential(torch.nn.Linear(2, 2), *layers), Entropy())
        rows = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer(tmp_path, 2).fit(module, rows)
        return sum("remove the model's softmax" in str(one.message) for one in caught)

    assert warned(torch.nn.Softmax(-1)) == 1
    assert warned() == 0


def test_data_without_unlabelled_rows_trains_the_complete_case(
    tmp_path: Path, data: SemiData
) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    full = SemiData(data.x[:40], data.y[:40])
    message = r"SemiDataModule\(..., unlabelled_batch=0\).*risk='complete_case'"
    with pytest.raises(ValueError, match=message):
        SemiDataModule(full, labelled_batch=20)
    rows = SemiDataModule(full, labelled_batch=20, unlabelled_batch=0)
    with quiet(), pytest.raises(ValueError, match="Use risk='complete_case'"):
        trainer(tmp_path, 1).fit(DeSSLModule(MLP(2, 2), Entropy()), rows)
    ours = trainer(tmp_path, 1)
    with quiet():
        ours.fit(DeSSLModule(MLP(2, 2), Entropy(), risk="complete_case"), rows)
    assert ours.global_step == 2


@pytest.mark.parametrize(
    "options",
    [
        {"ramp": "linear_ramp"},
        {"ramp": {"name": "ramp", "until": 1.0}, "risk": "ssl"},
        {"on": "all"},
        {"bound": "nonnegative"},
        {"bound": "nonnegative", "on": "all", "ramp": "linear_ramp"},
    ],
)
def test_the_options_of_the_risk_are_those_of_train(
    options: dict[str, Any], tmp_path: Path, data: SemiData
) -> None:
    from dessl.integrations.lightning import DeSSLModule

    class Plain(DeSSLModule):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.model.parameters(), lr=0.5)

    def network() -> torch.nn.Module:
        torch.manual_seed(0)
        return MLP(2, 2, hidden=(8,), dropout=0.0)

    def end(**options: Any) -> Tensor:
        plan = TrainPlan(
            epochs=4, labelled_batch=20, unlabelled_batch=60, learning_rate=0.5, momentum=0.0,
            nesterov=False, lam=1.5, **options,
        )  # fmt: skip
        return parameters_to_vector(train(network(), Entropy(), data, plan).model.parameters())

    module = Plain(network(), Entropy(), lam=1.5, **options)
    fit(tmp_path, module, data, epochs=4)
    ours = parameters_to_vector(module.model.parameters())
    torch.testing.assert_close(ours, end(**options), rtol=0, atol=1e-5)
    assert (ours - end(risk=options.get("risk", "debiased"))).abs().max() > 1e-3


def test_options_that_cannot_work_are_refused(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    model = MLP(2, 2, hidden=(8,))
    with pytest.raises(ValueError, match="bound requires risk='debiased'; got risk='ssl'"):
        DeSSLModule(model, Entropy(), risk="ssl", bound="nonnegative")
    with pytest.raises(ValueError, match="ramp='linear' lowers λ"):
        DeSSLModule(model, Entropy(), ramp="linear")
    endless = trainer(tmp_path, -1, limit_train_batches=1)
    loaders = own_loaders((data.x[:40], data.ids[:40], data.y[:40]), (data.x[40:], data.ids[40:]))
    own: dict[str, Any] = {"n_rows": 200, "n_classes": 2}
    with quiet(), pytest.raises(ValueError, match="Pass max_steps or max_epochs"):
        endless.fit(DeSSLModule(model, Entropy(), ramp="ramp", **own), loaders)
    with quiet(), pytest.raises(TypeError, match=r"yield \(x, ids, weights\)"):
        trainer(tmp_path, 1).fit(DeSSLModule(model, Entropy(), on="all", **own), loaders)
    chances = torch.full((200,), 0.2)
    weighed = SemiData(data.x, data.y, propensity=chances)
    with pytest.raises(ValueError, match="bound cannot be used with data that has propensities"):
        fit(tmp_path, DeSSLModule(model, Entropy(), bound="nonnegative"), weighed, epochs=1)
    weighing = own_loaders(
        (data.x[:40], data.ids[:40], data.y[:40], chances[:40]), (data.x[40:], data.ids[40:])
    )
    for options in ({"bound": "nonnegative"}, {"on": "all"}):
        with quiet(), pytest.raises(ValueError, match="requires risk='debiased'"):
            trainer(tmp_path, 1).fit(DeSSLModule(model, Entropy(), **options, **own), weighing)


def test_labels_with_propensities_are_weighed(data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    chances = torch.rand(200, generator=torch.Generator().manual_seed(1)) / 2 + 0.1
    weighed = SemiData(data.x, data.y, propensity=chances)
    module = DeSSLModule(MLP(2, 2, dropout=0.0), "entropy", lam=0.7)
    module.log = lambda *_, **__: None  # type: ignore[method-assign]
    rows = SemiDataModule(weighed, labelled_batch=40, unlabelled_batch=160)
    x, ids, y, chance = joint(batch := first_batch(rows))
    assert torch.equal(chance, chances[ids[:40]])
    risk = module.training_step(batch, 0).detach()
    with torch.no_grad():
        log_p = module(x).log_softmax(1)
    h = -(log_p.exp() * log_p).sum(1)
    loss = -log_p[:40].gather(1, y[:, None])[:, 0]
    # All rows are in the batch: (1/n) Σ [(r/π)(L − λH) + λH].
    expected = (((loss - 0.7 * h[:40]) / chance).sum() + 0.7 * h.sum()) / 200
    assert float(risk) == pytest.approx(float(expected), rel=1e-5)


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    page = (Path(__file__).parents[2] / "docs" / "lightning.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    with quiet():
        exec("\n".join(blocks), {"__name__": "__main__"})


def by_hand(surrogate: Any, lams: list[float], accumulated: int = 1) -> "lightning.LightningModule":
    """A module that takes the steps of two optimisers itself, and notes each λ that it uses."""
    from dessl.integrations.lightning import DeSSLModule

    class ByHand(DeSSLModule):
        automatic_optimization = False

        def configure_optimizers(self) -> list[torch.optim.Optimizer]:  # type: ignore[override]
            halves = list(self.model.parameters())
            return [torch.optim.SGD(halves[:2], lr=0.1), torch.optim.SGD(halves[2:], lr=0.1)]

        def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
            risk = super().training_step(batch, batch_idx)
            self.manual_backward(risk / accumulated)
            if (batch_idx + 1) % accumulated == 0:
                for optimiser in self.optimizers():
                    optimiser.step()
                    optimiser.zero_grad()
            return risk

        def _lam_at(self, step: int) -> float:
            lams.append(super()._lam_at(step))
            return lams[-1]

    return ByHand(MLP(2, 2), surrogate, lam=0.5, ramp="linear_ramp")


@pytest.mark.parametrize("accumulated", [1, 2])
def test_manual_optimisation_moves_the_surrogate_too(
    tmp_path: Path, data: SemiData, accumulated: int
) -> None:
    term, lams = Noting(), list[float]()
    fit(tmp_path, by_hand(term, lams, accumulated), data, epochs=2)  # of two batches
    ramp = schedule_from("linear_ramp")
    assert lams == [0.5 * ramp(batch // accumulated, 4) for batch in range(4)]
    one, two, three, four = term.passes
    assert term.steps == (
        [one, two, three, four] if accumulated == 1 else [one + two, three + four]
    )


@pytest.mark.parametrize("epochs", [-1, 3])
def test_max_steps_counts_each_of_several_optimisers(
    tmp_path: Path, data: SemiData, epochs: int
) -> None:
    lams = list[float]()
    fit(tmp_path, by_hand("entropy", lams), data, epochs, max_steps=8)
    ramp = schedule_from("linear_ramp")
    assert lams == [0.5 * ramp(batch, 4) for batch in range(4)]


def test_divergence_under_manual_optimisation_names_its_step(
    tmp_path: Path, data: SemiData
) -> None:
    lams = list[float]()

    def h(logits: Tensor) -> Tensor:
        return logits.square().sum(-1) * (math.nan if len(lams) > 3 else 1)

    with pytest.raises(DivergenceError, match=r"step 4: H of labelled rows was nan"):
        fit(tmp_path, by_hand(h, lams), data, epochs=2)


def test_a_checkpoint_of_a_manual_step_has_the_surrogate_after_it(
    tmp_path: Path, data: SemiData
) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    each = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=1)
    module = by_hand(MeanTeacher(view=as_is), [])
    fit(tmp_path, module, data, epochs=2, callbacks=[each], enable_checkpointing=True)
    saved = [torch.load(file, weights_only=True) for file in tmp_path.glob("*.ckpt")]
    steps = {one["global_step"]: int(one["state_dict"][TEACHER_STEPS]) for one in saved}
    assert steps == {2: 1, 4: 2, 6: 3, 8: 4}  # Lightning counts two optimisers
