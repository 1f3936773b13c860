"""A real Trainer on a real data module: it learns, H's state moves, nothing is left behind."""

import logging
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dessl import SemiData
from dessl.models import MLP
from dessl.objective import objective
from dessl.surrogates import Entropy, MeanTeacher, Rows

lightning = pytest.importorskip("lightning")


@pytest.fixture
def data() -> SemiData:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    few = torch.where(torch.arange(200) < 40, y[:200], -1)
    return SemiData(x[:200], few, validation=(x[200:], y[200:]))


def trainer(folder: Path, epochs: int) -> "lightning.Trainer":
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )


def fit(folder: Path, module: object, data: SemiData, epochs: int) -> "lightning.Trainer":
    from dessl.integrations.lightning import SemiDataModule

    ours = trainer(folder, epochs)
    with warnings.catch_warnings():
        # Lightning's advice on workers and lengths, and its own use of deprecated PyTorch
        warnings.simplefilter("ignore")
        ours.fit(module, SemiDataModule(data, labelled_batch=20, unlabelled_batch=60))
    return ours


def test_a_trainer_learns_and_logs_and_leaves_nothing(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    torch.manual_seed(0)
    module = DeSSLModule(MLP(2, 2, hidden=(16,)), Entropy(), lam=0.3, learning_rate=0.02)
    used = fit(tmp_path, module, data, epochs=20)
    assert used.global_step == 20 * 2
    assert used.callback_metrics["validation_accuracy"] > 0.9
    assert {"risk", "loss", "h_labelled", "h_unlabelled"} <= set(used.callback_metrics)
    assert list(tmp_path.iterdir()) == []


def test_the_step_is_the_objective_of_the_batch(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    model = MLP(2, 2, hidden=(8,), dropout=0.0)
    module = DeSSLModule(model, Entropy(), lam=0.7)
    logged: dict[str, Tensor] = {}
    module.log = lambda name, value, **_: logged.update({name: value})
    batch = next(
        iter(SemiDataModule(data, labelled_batch=10, unlabelled_batch=30).train_dataloader())
    )
    x, ids, y = batch
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
