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


def fit(
    folder: Path, module: object, data: SemiData, epochs: int, **options: object
) -> "lightning.Trainer":
    from dessl.integrations.lightning import SemiDataModule

    ours = trainer(folder, epochs)
    with warnings.catch_warnings():
        # Lightning's advice on workers and lengths, and its own use of deprecated PyTorch
        warnings.simplefilter("ignore")
        ours.fit(module, SemiDataModule(data, labelled_batch=20, unlabelled_batch=60), **options)
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


def test_the_complete_case_sees_labelled_rows_alone(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule

    rows: list[int] = []
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 2))
    model.register_forward_hook(lambda m, x, _: rows.append(len(x[0])) if m.training else None)
    fit(tmp_path, DeSSLModule(model, Entropy(), risk="complete_case"), data, epochs=1)
    assert set(rows) == {20}


def test_another_source_of_batches_is_refused(tmp_path: Path, data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    batches = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60).train_dataloader()
    module = DeSSLModule(MLP(2, 2, hidden=(8,)), Entropy())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match=r"fit\(module, SemiDataModule"):
            trainer(tmp_path, 1).fit(module, batches)
