"""train: one training, checked before its first step."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.data import SemiData
from dessl.functional import cross_entropy
from dessl.objective import Loss
from dessl.risk import RISKS
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import forked, seed_generators
from dessl.surrogates.codes import noise_on_codes
from dessl.surrogates.passes import slow_statistics
from dessl.training.folder import RunFolder, locked_folder
from dessl.training.loop import drive
from dessl.training.member import Callback, TrainResult, checked_callbacks
from dessl.training.model_state import begin_training, check_all_in_tensors, check_initialised
from dessl.training.online import linear_layers
from dessl.training.plan import TrainPlan
from dessl.training.ranks import rank
from dessl.training.run import Run
from dessl.training.shared_model import restore_norms
from dessl.training.step import check_propensity, plan_for
from dessl.training.watch import LEAST_ROWS, levels, not_held_out


def train(
    model: nn.Module | Callable[[], nn.Module],
    surrogate: str | Surrogate | Callable[..., Tensor],
    data: SemiData,
    plan: TrainPlan,
    *,
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    resume: bool = True,
    transform: Callable[[Tensor], Tensor] | None = None,
    loss: Loss = cross_entropy,
    progress: bool = True,
    sync_batch_norm: bool = False,
    checkpoint_seconds: float = 0.0,
) -> TrainResult:
    """Train a model on labelled and unlabelled rows, on the device where the data is.

    Under ``torchrun``, within :func:`dessl.training.ranks.process_group`, the ranks train one model
    together on the same batches; only rank 0 writes, shows progress and runs callbacks.

    Runs of one seed draw the same rows at every step, whatever their risk and λ, so that their
    differences are paired. The complete case draws labelled rows only.

    Args:
        model: Network from rows (n, ...), transformed by the surrogate's views, to logits (n,
            classes). It is trained in place. A function that builds it is called with ``plan.seed``
            set, so that runs of one seed start with the same weights. Its parameters and all
            buffers, persistent or not, are selected and saved.
        surrogate: The unlabelled term H, its name in ``dessl.SURROGATES``, or a function h(logits)
            or h(model, x).
        data: Data with its labels drawn; its validation part is used at evaluations. Validation
            rows that are not part of x get the ids after the largest, for terms that look up rows.
        plan: Training plan.
        callbacks: Functions called with an :class:`Event` at every evaluation.
        out: Folder for ``run.json``, ``history.jsonl`` and checkpoints; None to keep nothing.
        resume: Whether to resume from the checkpoints in ``out``; if False, a folder with a run
            is refused.
        transform: Transform of rows in evaluation; pass the normalisation of the views. Default:
            levels in [0, 1] for uint8 images, unchanged rows otherwise.
        loss: L of logits (n, classes) and labels (n,), one value for each row; for example
            ``lambda z, y: F.cross_entropy(z, y, weight=w, reduction="none")``. Metrics and
            ``lam_opt`` of evaluations, and ``surrogate.bounded_up_to``, are those of the
            cross-entropy.
        progress: Whether to show a progress bar on a terminal.
        sync_batch_norm: Whether BatchNorm computes its statistics over the rows of all ranks, as in
            one process, by PyTorch's ``SyncBatchNorm``; only on GPUs. Default: each rank's own.
        checkpoint_seconds: Least time between two checkpoints; the last step is always saved, and
            sharded weights at every evaluation, like all by default.

    >>> from dessl.models import MLP
    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> data = SemiData(x[:40], torch.where(torch.arange(40) < 10, y[:40], -1),
    ...                 validation=(x[40:], y[40:]))
    >>> plan = TrainPlan(steps=60, labelled_batch=10, unlabelled_batch=30, learning_rate=0.1)
    >>> result = train(lambda: MLP(2, 2), "entropy", data, plan)
    >>> result.steps, len(result.history), sorted(result.history[-1].validation)[:2]
    (60, 20, ['accuracy', 'adaptive_ece'])
    """
    surrogate, callbacks = as_surrogate(surrogate), checked_callbacks(callbacks)
    _check(plan, data)
    if not callable(loss):
        raise TypeError(
            "loss must be a function of logits (n, classes) and labels (n,), with one value for "
            f"each row; got {_checks.quoted(loss)}."
        )
    if plan.online:
        _check_online(data, surrogate, loss)
    _checks.number("checkpoint_seconds", checkpoint_seconds, low=0)
    plan = plan_for(plan, data)
    if warning := not_held_out(data):
        warnings.warn(warning, UserWarning, stacklevel=2)
    if transform is None and data.is_image:
        transform = levels
    first = rank() == 0
    with _seeded(plan.seed, data.device), locked_folder(out if first else None) as folder:
        model = begin_training(_built(model, plan.seed, data.device))
        if not first:  # each rank has its own dropout
            seed_generators(hash((plan.seed, rank())) % 2**63, data.device)
        _check_model(model, surrogate, data, plan, saved=folder is not None)
        run = Run(
            model, surrogate, data, plan, transform, loss=loss, sync_batch_norm=sync_batch_norm
        )
        run.save_seconds = checkpoint_seconds
        try:
            drive(
                run,
                folder,
                shared=None if out is None else RunFolder(Path(out)),
                resume=resume,
                callbacks=callbacks if first else (),
                progress=progress and first,
            )
        finally:
            restore_norms(run.norms)
            surrogate.set_shares([1.0] * len(surrogate.separate_bounds))  # another run has its own
        return run.result()


def _check_online(data: SemiData, surrogate: Surrogate, loss: Loss) -> None:
    if loss is not cross_entropy:
        raise ValueError(
            "online=True estimates λ for the cross-entropy, but loss is another one. Use a fixed "
            "lam."
        )
    least = LEAST_ROWS - 1 + len(surrogate.separate_bounds)  # a slope for each term
    if data.validation is None or len(data.validation.y) < least:
        raise ValueError(
            f"online=True needs at least {least} validation rows, which λ follows. Hold rows "
            "out with draw_labels(..., n_validation=...), or use a fixed lam."
        )
    if data.propensity is not None:
        raise ValueError(
            "online=True estimates λ for labels that are missing completely at random, but data "
            "has propensities. Use a fixed lam."
        )


def _check(plan: TrainPlan, data: SemiData) -> None:
    if not isinstance(plan, TrainPlan):
        raise TypeError(f"plan must be a TrainPlan; got {type(plan).__name__}.")
    if not isinstance(data, SemiData):
        raise TypeError(
            f"data must be a SemiData; got {type(data).__name__}. From arrays: dessl.SemiData(x, "
            "y); from a PyTorch Dataset: dessl.SemiData.from_dataset(dataset). To keep your own "
            "loaders, keep your loop and call dessl.objective in it."
        )
    check_propensity(plan.risk, data)
    if plan.select != "last" and data.validation is None:
        raise ValueError(
            f"select={plan.select!r} needs a validation part, but data has none. Hold rows out "
            "with draw_labels(..., n_validation=...), or keep select='last'."
        )


def _check_model(
    model: nn.Module, surrogate: Surrogate, data: SemiData, plan: TrainPlan, *, saved: bool
) -> None:
    """Refuse a model that cannot be trained as planned; warn of one that hardly fits the term."""
    check_initialised(model)
    if saved or plan.select != "last" or plan.ema:
        check_all_in_tensors(model)
    if plan.online:
        linear_layers(model)
    if RISKS[plan.risk].unlabelled:
        for said in (slow_statistics(model, surrogate), noise_on_codes(model, surrogate, data.x)):
            if said:
                warnings.warn(said, UserWarning, stacklevel=3)  # at the call of train


def _built(
    model: nn.Module | Callable[[], nn.Module], seed: int, device: torch.device
) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    built = model() if callable(model) else model
    if not isinstance(built, nn.Module):
        raise TypeError(
            f"model must be an nn.Module or a function that builds one; got {type(built).__name__}."
        )
    # So that dropout is the same whether the model was given or built.
    seed_generators(seed, device)
    return built


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's own generators for the run, and restore them after it.

    On CUDA, let cuDNN time its convolutions once: shapes never change.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = before or device.type == "cuda"
    try:
        with forked(device):
            seed_generators(seed, device)
            yield
    finally:
        cudnn.benchmark = before
