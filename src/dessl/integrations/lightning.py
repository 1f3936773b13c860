"""Lightning: surrogate + objective as a LightningModule, two streams of rows as a DataModule.

Needs ``pip install 'dessl[lightning]'``. The Trainer, its loggers, strategies and checkpoints stay
as they are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from dessl import _checks
from dessl.data import Batches, SemiData
from dessl.functional import cross_entropy, log_probabilities
from dessl.objective import RiskKind, objective
from dessl.risk import RISKS, risk_named
from dessl.surrogates import Rows, Scores, Surrogate, as_surrogate
from dessl.surrogates.state import device_of

try:
    import lightning
    from lightning.pytorch.core.optimizer import LightningOptimizer
except ImportError as error:
    raise ImportError(
        "Lightning is not installed. Install it with pip install 'dessl[lightning]'."
    ) from error


class DeSSLModule(lightning.LightningModule):
    """A model trained with an unlabelled term; batches are those of :class:`SemiDataModule`.

    Args:
        model: From rows, as the surrogate's views show them, to logits (n, classes).
        surrogate: The unlabelled term H, or its name or a function as :func:`dessl.as_surrogate`
            takes.
        lam: λ.
        risk: A key of ``dessl.risk.RISKS``. ``"debiased"`` weighs labels by 1/π where the data has
            propensities.
        learning_rate: Of AdamW; override ``configure_optimizers`` for anything else.
        transform: What the model sees of a row in evaluation; levels / 255 for uint8 images and
            rows as they are otherwise, if not given.
    """

    def __init__(
        self,
        model: nn.Module,
        surrogate: str | Surrogate | Callable[..., Tensor],
        *,
        lam: float = 1.0,
        risk: RiskKind = "debiased",
        learning_rate: float = 1e-3,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.surrogate = as_surrogate(surrogate)
        self.lam = _checks.number("lam", lam, low=0, open_high=True)
        risk_named(risk)
        self.risk: RiskKind = risk
        self.learning_rate = learning_rate
        self.transform = transform
        self._sizes: tuple[int, int] | None = None  # rows and classes that H is prepared for
        self._ready = False  # prepared for the fit that is about to start
        self._seen: dict[int, tuple[Rows, Scores]] = {}  # of each batch since the last step

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of rows as they come."""
        if self.transform is not None:
            x = self.transform(x)
        elif x.dtype == torch.uint8:
            x = x.float() / 255
        logits: Tensor = self.model(x)
        return logits

    def setup(self, stage: str) -> None:
        """Let the surrogate make its state once the data is known, before a checkpoint fills it."""
        if stage == "fit":
            self._prepare_for_fit()

    def configure_model(self) -> None:
        """Do the same for callbacks that copy the module in a setup of theirs, before its own."""
        trainer = self._trainer  # None where a checkpoint is read without one
        if trainer is not None and trainer.state.fn == "fit":
            self._prepare_for_fit()

    def on_fit_start(self) -> None:
        """Note that the fit has its state: another fit makes its own."""
        self._ready = False

    def _prepare_for_fit(self) -> None:
        if self._ready:
            return
        module = self.trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(module, SemiDataModule):
            raise TypeError(
                f"a DeSSLModule is trained on a SemiDataModule; got {type(module).__name__}. Call "
                "trainer.fit(module, SemiDataModule(data))."
            )
        data = module.data
        self._prepare(int(data.ids.max()) + 1, data.n_classes)
        drawn = torch.cat([data.labelled_rows, data.unlabelled_rows])
        self.surrogate.draws_from(data.ids[drawn].to(device_of(self.model)))
        self._seen.clear()
        self._ready = True

    def _prepare(self, n_rows: int, n_classes: int) -> None:
        self.surrogate.prepare(self.model, n_rows, n_classes)
        self._sizes = n_rows, n_classes

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Note what the surrogate's state was made for."""
        if self._sizes:
            checkpoint["dessl_sizes"] = self._sizes

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Make room for the surrogate's saved state where no data said how much."""
        if self._sizes is None and "dessl_sizes" in checkpoint:
            self._prepare(*checkpoint["dessl_sizes"])

    def training_step(self, batch: tuple[Tensor, ...], batch_idx: int) -> Tensor:
        """Return the risk of a batch, labelled rows first, and log its parts.

        A batch is (x, ids, y), and (x, ids, y, π, weights of unlabelled rows) with propensities.
        """
        x, ids, y, *weighed = batch
        # Nothing of an unlabelled row reaches the complete case, not even through BatchNorm.
        seen = len(x) if RISKS[self.risk].unlabelled else len(y)
        rows = Rows(x[:seen], ids[:seen])
        scores = self.surrogate.step_scores(self.model, rows, len(y))
        self._seen[batch_idx] = rows, Scores(scores.h.detach(), scores.logits.detach())
        risk = objective(scores, y, self.lam, **self._risk_options(weighed))
        for name, value in risk._asdict().items():
            self.log("risk" if name == "value" else name, value.detach(), batch_size=len(y))
        return risk.value

    def _risk_options(self, weighed: list[Tensor]) -> dict[str, Any]:
        """The debiased risk takes its inverse-propensity form where π came with the batch."""
        if self.risk not in ("debiased", "inverse_propensity") or not weighed:
            return {"risk": self.risk}
        propensity, weights = weighed
        return {
            "risk": "inverse_propensity",
            "propensity": propensity,
            "weights_unlabelled": weights,
        }

    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer | LightningOptimizer,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Take the step, then update the surrogate's teachers, memories and thresholds.

        They move once for each step, by the rows of all batches whose gradients went into it, and
        before any callback saves a checkpoint.
        """
        super().optimizer_step(epoch, batch_idx, optimizer, optimizer_closure)
        rows, scores = zip(*self._seen.values(), strict=True)
        self._seen.clear()
        x, ids = (torch.cat(parts) for parts in zip(*rows, strict=True))
        h = torch.cat([its.h for its in scores])
        logits = torch.cat([its.logits for its in scores], dim=1)
        with torch.no_grad():
            self.surrogate.after_step(self.model, Rows(x, ids), Scores(h, logits))

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:  # noqa: ARG002
        """Log accuracy and cross-entropy of fully labelled rows."""
        x, y = batch
        logits = self(x)
        # One logit stands for two classes.
        hits = (log_probabilities(logits).argmax(-1) == y).float().mean()
        self.log("validation_accuracy", hits, batch_size=len(y))
        self.log("validation_cross_entropy", cross_entropy(logits, y).mean(), batch_size=len(y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW on all of the model."""
        return torch.optim.AdamW(self.model.parameters(), lr=self.learning_rate)


class SemiDataModule(lightning.LightningDataModule):
    """Two streams of a :class:`dessl.SemiData` as batches, labelled rows first.

    A training batch is (x, ids, y): x and ids of labelled_batch + unlabelled_batch rows, y of the
    first labelled_batch; with propensities also those of the labelled rows and the weights of the
    others. An epoch is one pass through the labelled rows. One process draws them:
    several would draw the same rows.

    Args:
        data: With its labels drawn; its validation part, where there is one, is for validation.
        labelled_batch: Labelled rows in a batch.
        unlabelled_batch: Unlabelled rows in a batch.
        seed: Of both streams.
    """

    def __init__(
        self,
        data: SemiData,
        *,
        labelled_batch: int = 64,
        unlabelled_batch: int = 448,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.data = data
        self.batches = Batches(data, labelled_batch, unlabelled_batch, seed=seed)
        self.steps = max(1, data.n_labelled // labelled_batch)

    def train_dataloader(self) -> "DataLoader[Any]":
        """Batches without end, cut into epochs."""
        if self.trainer is not None and self.trainer.world_size > 1:
            raise ValueError(
                f"SemiDataModule would give the same rows to all {self.trainer.world_size} "
                "processes. Train on one device: lightning.Trainer(devices=1)."
            )
        return DataLoader(_Epoch(self), batch_size=None)

    def val_dataloader(self) -> "DataLoader[Any] | list[Any]":
        """The validation part, 512 rows at a time; nothing if the data has none."""
        part = self.data.validation
        if part is None:
            return []
        return DataLoader(TensorDataset(part.x, part.y), batch_size=512)

    def state_dict(self) -> dict[str, Any]:
        """Where both streams are, for a checkpoint."""
        return self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume with the rows that would have come next; only a fit draws any."""
        if self.trainer is None or self.trainer.state.fn == "fit":
            self.batches.load_state_dict(state_dict)


class _Epoch(IterableDataset[tuple[Tensor, ...]]):
    def __init__(self, module: SemiDataModule) -> None:
        self.module = module

    def __len__(self) -> int:
        return self.module.steps

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        data, batches = self.module.data, self.module.batches
        for _ in range(self.module.steps):
            drawn = batches.draw()
            rows = torch.cat(tuple(drawn))
            batch = (data.x[rows], data.ids[rows], data.y[drawn[0]])
            if data.propensity is None:
                yield batch
                continue
            # As many rows as each unlabelled one stands for beside a labelled one.
            stands = data.n_unlabelled / len(drawn[1]) * len(drawn[0]) / data.n_labelled
            weights = torch.full((len(drawn[1]),), stands, device=data.device)
            yield (*batch, data.propensity[drawn[0]], weights)
