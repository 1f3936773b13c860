"""Lightning's DDP strategy on two processes: the gradients, state and metrics of one process."""

import logging
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import SemiData, objective
from dessl.models import MLP
from dessl.surrogates import Entropy, FlexMatch, FreeMatch, Rows, Scores, TemporalEnsembling
from dessl.surrogates.base import Model, as_is

lightning = pytest.importorskip("lightning")
pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="no gloo"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="autograd's threads survive no fork"),
    pytest.mark.enable_socket,  # Lightning looks for a free port of this machine
]

CASES: dict[str, dict[str, Any]] = {
    "complete case": {"risk": "complete_case"},
    "ssl": {"risk": "ssl"},
    "debiased": {"risk": "debiased"},
    "ssl, propensities unused": {"risk": "ssl"},
    "inverse propensity": {"risk": "inverse_propensity"},
    "on all rows": {"on": "all"},
    "bounded": {"bound": "nonnegative"},
    "at its bound": {"bound": "nonnegative", "lam": 1.5},
}


def data(*, weighed: bool = False) -> SemiData:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(231, 4, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    given = torch.where(torch.arange(200) < 60, y[:200], -1)
    propensity = torch.rand(200, generator=generator) / 2 + 0.25 if weighed else None
    return SemiData(x[:200], given, validation=(x[200:], y[200:]), propensity=propensity)


def module(surrogate: Any = "entropy", rate: float = 1.0, **options: Any) -> Any:
    """Plain descent: at rate 1, one step moves the weights by minus the gradient."""
    from dessl.integrations.lightning import DeSSLModule

    class Module(DeSSLModule):
        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.model.parameters(), lr=rate)

    torch.manual_seed(0)
    settings = {"lam": 0.5, **options}
    return Module(MLP(4, 3, hidden=(16,), dropout=0.0), surrogate, **settings)


def fit(
    folder: Path,
    module: Any,
    rows: Any,
    processes: int,
    ckpt_path: Path | None = None,
    broadcast_buffers: bool = True,
    **options: Any,
) -> Any:
    from lightning.pytorch.strategies import DDPStrategy

    logging.getLogger("lightning").setLevel(logging.ERROR)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    if processes > 1:
        strategy = DDPStrategy(
            start_method="fork", process_group_backend="gloo", broadcast_buffers=broadcast_buffers
        )
        options.update(devices=processes, strategy=strategy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
            **options,
        )
        trainer.fit(module, rows, ckpt_path=ckpt_path)
    return trainer


def weights(module: Any) -> Tensor:
    return torch.cat([value.detach().flatten() for value in module.model.parameters()])


def rows(name: str) -> Any:
    """Batches of 13 and 31 rows, which two processes do not share evenly."""
    from dessl.integrations.lightning import SemiDataModule

    drawn = data(weighed="propensit" in name)
    return SemiDataModule(drawn, labelled_batch=13, unlabelled_batch=31)


def by_hand(name: str) -> Tensor:
    """The weights after one step on the rows of the first batch, without Lightning."""
    drawn, trained = rows(name), module(**CASES[name])
    batch = next(drawn.batches)
    x = torch.cat([batch.x_labelled, batch.x_unlabelled])
    scores = Entropy()(trained.model, Rows(x, torch.arange(len(x))))
    options = dict(CASES[name])
    if name == "complete case":
        scores = Scores(scores.h[:13], scores.logits[:, :13])
    if name == "inverse propensity":
        options["propensity"] = drawn.data.propensity[batch.ids_labelled]
    if name in ("inverse propensity", "on all rows"):
        options["weights_unlabelled"] = torch.full((31,), 140 / 31 * 13 / 60)
    objective(scores, batch.y, **{"lam": 0.5, **options}).value.backward()
    moved = [value.detach() - value.grad for value in trained.model.parameters()]
    return torch.cat([value.flatten() for value in moved])


@pytest.mark.parametrize("name", CASES)
def test_two_processes_have_the_gradient_and_metrics_of_one(name: str, tmp_path: Path) -> None:
    found, metrics = {}, {}
    for n in (1, 2):
        trained = module(**CASES[name])
        used = fit(
            tmp_path, trained, rows(name), n, max_epochs=1, limit_train_batches=1,
            enable_checkpointing=False,
        )  # fmt: skip
        found[n], metrics[n] = weights(trained), used.callback_metrics
    assert (found[1] - weights(module())).abs().max() > 1e-3
    torch.testing.assert_close(found[1], by_hand(name), atol=1e-6, rtol=0)
    torch.testing.assert_close(found[2], found[1], atol=1e-6, rtol=0)
    assert metrics[1].keys() > {"risk", "h_labelled", "validation_accuracy"}
    for key, value in metrics[1].items():
        torch.testing.assert_close(metrics[2][key], value, atol=1e-6, rtol=0, msg=key)


@pytest.mark.parametrize(
    "term",
    [
        lambda: FlexMatch(0.5, weak=as_is, strong=as_is),
        pytest.param(lambda: FreeMatch(0.9, weak=as_is, strong=as_is), marks=pytest.mark.slow),
    ],
)
def test_a_surrogates_state_is_that_of_all_rows_also_on_other_processes_later(
    term: Any, tmp_path: Path
) -> None:
    from lightning.pytorch.callbacks import ModelCheckpoint

    def ended(n: int, steps: int, ckpt_path: Path | None = None) -> Path:
        each = ModelCheckpoint(tmp_path / f"{n} to {steps}", "{step}", every_n_train_steps=3)
        batches = rows("debiased")
        options = {"max_steps": steps, "callbacks": [each], "ckpt_path": ckpt_path}
        fit(tmp_path, module(term(), rate=0.1), batches, n, **options)
        return tmp_path / f"{n} to {steps}" / f"step={steps}.ckpt"

    expected = torch.load(ended(1, steps=6), weights_only=True)["state_dict"]
    middle = ended(2, steps=3)
    for n in (1, 2):
        state = torch.load(ended(n, 6, middle), weights_only=True)["state_dict"]
        for name, value in expected.items():
            if torch.is_tensor(value):  # not the state of the draws
                torch.testing.assert_close(state[name], value, atol=1e-5, rtol=0, msg=name)


def test_processes_draw_the_same_where_state_moves_by_chance(tmp_path: Path) -> None:
    from lightning.pytorch import Callback

    class Keep(Callback):
        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            state = dict(pl_module.surrogate.named_buffers())
            torch.save(state, tmp_path / f"{trainer.global_rank}.pt")

    fit(
        tmp_path, module(TemporalEnsembling(), rate=0.1), rows("debiased"), 2, max_steps=20,
        enable_checkpointing=False, callbacks=[Keep()], broadcast_buffers=False,
    )  # fmt: skip
    one, two = (torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in (0, 1))
    assert one["latest"].any()
    assert one["round"] > 1
    for name, value in one.items():
        assert torch.equal(two[name], value), name


class Noting(Entropy):
    """Writes down the rows of each step, with a number that each process drew for them."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def forward(self, model: Model, rows: Rows) -> Scores:
        drawn = torch.rand(len(rows.x), generator=self.generator(rows.x.device))
        scores = super().forward(model, rows)
        return Scores(scores.h * 0 + drawn, scores.logits)

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        if torch.distributed.get_rank() == 0:
            assert rows.x.shape == (len(rows.ids), 4)
            with self.file.open("a") as file:
                for row, h in zip(rows.ids.tolist(), scores.h.tolist(), strict=True):
                    print(row, h, file=file)


def test_loaders_of_your_own_are_shared_out_and_draws_are_the_processes_own(tmp_path: Path) -> None:
    from lightning.pytorch.utilities import CombinedLoader
    from torch.utils.data import DataLoader, TensorDataset

    given, x = data(), torch.randn(84, 4)
    few = TensorDataset(x[:24], torch.arange(24), given.y[:24])
    many = TensorDataset(x[24:], torch.arange(24, 84))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaders = CombinedLoader(
            {
                "labelled": DataLoader(few, batch_size=4, shuffle=True),
                "unlabelled": DataLoader(many, batch_size=10, shuffle=True),
            },
            "max_size_cycle",
        )
    own = module(Noting(tmp_path / "rows"), n_rows=84, n_classes=3)
    fit(tmp_path, own, loaders, 2, max_epochs=1, enable_checkpointing=False)
    lines = [line.split() for line in (tmp_path / "rows").read_text().splitlines()]
    assert sorted(int(row) for row, _ in lines) == list(range(84))  # each row once in an epoch
    assert len({h for _, h in lines}) == 84


def test_fewer_rows_than_processes_are_refused(tmp_path: Path) -> None:
    from dessl.integrations.lightning import SemiDataModule

    few = SemiDataModule(data(), labelled_batch=1, unlabelled_batch=31)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few.trainer = lightning.Trainer(
            accelerator="cpu", devices=2, strategy="ddp", logger=False, default_root_dir=tmp_path
        )
    with pytest.raises(ValueError, match="labelled_batch=1 is too small for 2 processes"):
        few.train_dataloader()
