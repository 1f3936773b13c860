"""A fit in Lightning warns of a large λ and stops when its risk diverges, as dessl.train does."""

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dessl import SemiData
from dessl.models import MLP
from dessl.surrogates import Combine, Entropy, FixMatch, FromFunction, MixMatch
from dessl.training import DivergenceError

lightning = pytest.importorskip("lightning")


def runs_off(logits: Tensor) -> Tensor:
    return logits.square().sum(-1)


@pytest.fixture
def data() -> SemiData:
    x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    return SemiData(
        x[:200], torch.where(torch.arange(200) < 40, y[:200], -1), validation=(x[200:], y[200:])
    )


def fit(data: SemiData, surrogate: Any, epochs: int = 1, lam: float = 0.3, **options: Any) -> Any:
    """Fit a small network in epochs of two batches; options are the module's or the Trainer's."""
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    ours = {"risk", "bound", "risk_limit", "learning_rate"} & options.keys()
    own = {name: options.pop(name) for name in ours}
    torch.manual_seed(0)
    module = DeSSLModule(MLP(2, 2, hidden=(16,)), surrogate, lam=lam, **own)
    settings = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=epochs, **(settings | options))
    trainer.fit(module, SemiDataModule(data, labelled_batch=20, unlabelled_batch=60))
    return trainer


def said(data: SemiData, surrogate: Any, **options: Any) -> list[str]:
    """Warnings of a fit about λ."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(data, surrogate, **options)
    return [str(one.message) for one in caught if "λ" in str(one.message)]


def test_lambda_past_the_bound_is_warned_of_once(data: SemiData) -> None:
    (warning,) = said(data, FixMatch(), lam=1.0)
    assert warning == (
        "λ = 1 is past FixMatch's bound, 0.5: the debiased risk has no lower bound there and may "
        "diverge. Lower lam, pass bound='nonnegative', or smooth H with dessl.surrogates.Smooth."
    )
    assert said(data, FixMatch(), lam=0.5) == []
    (of_a_sum,) = said(data, Combine([FixMatch(), MixMatch(augmentations=4)]), lam=0.2)
    assert of_a_sum.startswith("λ = 0.2 is past Combine's bound, 0.166667")
    assert said(data, FixMatch(), lam=1.0, risk="ssl") == []
    assert said(data, FixMatch(), lam=1.0, bound="nonnegative") == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batches", [1, 2])  # a step
def test_a_risk_that_runs_off_ends_the_fit_at_its_step(data: SemiData, batches: int) -> None:
    options: dict[str, Any] = {"lam": 5.0, "learning_rate": 0.02, "risk_limit": 1e3, "epochs": 500}
    options["accumulate_grad_batches"] = batches
    risks: list[float] = []

    class Noting(lightning.Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, *_: object) -> None:
            risks.append(float(trainer.callback_metrics["risk"]))

    with pytest.raises(DivergenceError, match="FromFunction states no bounded_up_to") as caught:
        fit(data, runs_off, callbacks=[Noting()], **options)
    first = next(i for i, risk in enumerate(risks) if abs(risk) > 1e3)
    assert caught.value.step == first // batches + 1
    assert "pass bound='nonnegative'" in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_weights_that_diverged_are_not_saved(data: SemiData, tmp_path: Path) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    options: dict[str, Any] = {"lam": 5.0, "learning_rate": 0.02, "risk_limit": 1e3, "epochs": 500}
    each = ModelCheckpoint(tmp_path, save_top_k=-1, monitor="validation_accuracy")
    with pytest.raises(DivergenceError) as caught:
        fit(data, runs_off, callbacks=[each], enable_checkpointing=True, **options)
    kept = [torch.load(file, weights_only=True)["global_step"] for file in tmp_path.glob("*.ckpt")]
    assert max(kept) == (caught.value.step - 1) // 2 * 2


@pytest.mark.filterwarnings("ignore")
def test_nan_is_reported_with_its_term_and_step(data: SemiData) -> None:
    def h(logits: Tensor) -> Tensor:
        return (-logits.square().sum(-1)).log()

    with pytest.raises(DivergenceError, match=r"step 1: H of labelled rows was nan.* H itself"):
        fit(data, h)


@pytest.mark.filterwarnings("ignore")
def test_a_logger_that_reads_values_is_enough(data: SemiData, tmp_path: Path) -> None:
    from lightning.pytorch.loggers import CSVLogger

    stepped: list[int] = []

    class Exploding(Entropy):
        def after_step(self, *_: object) -> None:
            stepped.append(1)

    with pytest.raises(DivergenceError, match="λ is not past Exploding's stated bound, inf"):
        fit(
            data,
            Exploding(),
            risk_limit=1e-6,
            logger=CSVLogger(tmp_path),
            log_every_n_steps=1,
        )
    assert len(stepped) == 1


@pytest.mark.filterwarnings("ignore")
def test_a_module_that_diverged_can_be_validated_and_fitted_again(data: SemiData) -> None:
    from dessl.integrations.lightning import DeSSLModule, SemiDataModule

    rows = SemiDataModule(data, labelled_batch=20, unlabelled_batch=60)
    module = DeSSLModule(MLP(2, 2), FromFunction(runs_off), risk_limit=1e-6)
    plain = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=1, **plain, **quiet)
    with pytest.raises(DivergenceError):
        trainer.fit(module, rows)
    module.risk_limit = 1e6
    lightning.Trainer(**plain, **quiet).validate(module, rows)
    lightning.Trainer(max_epochs=1, **plain, **quiet).fit(module, rows)


def test_a_term_without_a_gradient_is_warned_of_once(data: SemiData) -> None:
    def h(logits: Tensor) -> Tensor:
        return logits.detach().square().sum(-1)

    (warning,) = said(data, h, lam=0.5)
    assert warning.startswith("H of FromFunction has no gradient, so λ = 0.5 has no effect")
    assert said(data, h, lam=0.0) == []
    assert said(data, h, lam=0.5, risk="complete_case") == []
