"""The loop: draw, step, and at each evaluation look, write a line, save, select."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import forked
from dessl.training.accelerate import Accelerated
from dessl.training.checkpoint import save_checkpoint
from dessl.training.event import Callback, Event
from dessl.training.folder import RunFolder, locked_folder, run_identity
from dessl.training.guard import NotFiniteError, divergence, past_bound
from dessl.training.model_state import check_all_in_tensors, check_initialised
from dessl.training.plan import TrainPlan
from dessl.training.progress import progress_bar
from dessl.training.run import Run, TrainResult
from dessl.training.watch import levels


def train(
    model: nn.Module | Callable[[], nn.Module],
    surrogate: Surrogate | Callable[..., Tensor],
    data: SemiData,
    plan: TrainPlan,
    *,
    callbacks: Sequence[Callback] = (),
    out: str | Path | None = None,
    resume: bool = True,
    transform: Callable[[Tensor], Tensor] | None = None,
    progress: bool = True,
) -> TrainResult:
    """Train a model on labelled and unlabelled rows, on the device where the data is.

    Runs of one seed draw the same rows at every step, whatever their risk and λ, so that their
    differences are paired. The complete case draws labelled rows only.

    Args:
        model: From rows (n, ...), as the surrogate's views show them, to logits (n, classes). It is
            trained in place. A function that builds it is called with ``plan.seed`` set, so that
            runs of one seed begin alike. Its parameters and buffers, whether its ``state_dict``
            has them or not, are all that is selected and saved.
        surrogate: The unlabelled term H, or a function h(logits) or h(model, x).
        data: With its labels drawn; its validation part is used at evaluations. Rows of a part that
            is not held out of x go, where a term looks rows up, by the ids after the largest.
        plan: How to train.
        callbacks: Each is called with an :class:`Event` at every evaluation.
        out: Folder for ``run.json``, ``history.jsonl`` and checkpoints; None to keep nothing.
        resume: Whether to go on from the checkpoints in ``out``; False refuses a folder with a run.
        transform: What the model sees of a row in evaluation: give the normalisation of the views.
            Levels in [0, 1] for uint8 images and rows as they are otherwise, if not given.
        progress: Whether to show a progress bar, where there is a terminal.

    >>> from dessl.models import MLP
    >>> x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    >>> y = (x[:, 0] > 0).long()
    >>> data = SemiData(x[:40], torch.where(torch.arange(40) < 10, y[:40], -1),
    ...                 validation=(x[40:], y[40:]))
    >>> plan = TrainPlan(steps=60, labelled_batch=10, unlabelled_batch=30, learning_rate=0.1)
    >>> from dessl.surrogates import Entropy
    >>> result = train(lambda: MLP(2, 2), Entropy(), data, plan)
    >>> result.steps, len(result.history), sorted(result.history[-1].validation)[:2]
    (60, 20, ['accuracy', 'adaptive_ece'])
    """
    surrogate, callbacks = as_surrogate(surrogate), tuple(callbacks)
    _check(plan, data)
    if warning := past_bound(plan.lam, plan, surrogate):
        warnings.warn(warning, UserWarning, stacklevel=2)
    if transform is None and data.is_image:
        transform = levels
    with _seeded(plan.seed, data.device), locked_folder(out) as folder:
        model = _built(model, plan.seed)
        check_initialised(model)
        if folder or plan.select != "last" or plan.ema:
            check_all_in_tensors(model)
        run = Run(model, surrogate, data, plan, transform)
        take = Accelerated(run.step)  # after all that may refuse the call, the folder is begun
        if folder:
            identity = run_identity(plan, data, surrogate, model)
            if saved := folder.begin(identity, resume=resume):
                run.restore(saved)
            folder.rewrite_history(run.history)
        return _trained(run, take, folder, callbacks, progress=progress)


def _trained(
    run: Run,
    take: Accelerated,
    folder: RunFolder | None,
    callbacks: Sequence[Callback],
    *,
    progress: bool,
) -> TrainResult:
    with progress_bar(run.steps, run.done, shown=progress) as bar:
        while not run.finished:
            began = time.perf_counter()
            for step in range(run.done, run.next_stop()):
                rows = torch.cat(run.batches.draw())
                rate, lam = (
                    run.plan.learning_rate_at(step, run.steps),
                    run.plan.lam_at(step, run.steps),
                )
                try:
                    take(rows, rate, lam)
                except NotFiniteError as error:
                    _guard(run, folder)  # a step before this one may have been past the limit
                    raise _diverged(run, step + 1, error.values, folder) from error
                if run.plan.guard_every and (step + 1) % run.plan.guard_every == 0:
                    _guard(run, folder)
                bar.advance(step + 1)
            run.done = step + 1
            event = _observed(run, folder, began)
            if folder:
                folder.append(event)
                save_checkpoint(folder.checkpoints, run.done, *run.checkpoint())
            bar.show(event)
            with forked(run.data.device):  # a callback's draws are not the run's
                for callback in callbacks:
                    callback(event)
    return run.result(take.mode)


def _observed(run: Run, folder: RunFolder | None, began: float) -> Event:
    _guard(run, folder)
    try:
        return run.observed(began)
    except NotFiniteError as error:
        raise _diverged(run, run.done, error.values, folder) from error


def _guard(run: Run, folder: RunFolder | None) -> None:
    """Stop a run whose totals hold a bad step."""
    if trouble := run.step.totals.trouble():
        before = run.history[-1].step if run.history else 0
        raise _diverged(run, before + trouble.step, trouble.values, folder)


def _diverged(run: Run, step: int, values: dict[str, float], folder: RunFolder | None) -> Exception:
    lam = run.plan.lam_at(step - 1, run.steps)
    error = divergence(values, step, lam, run.plan, run.step.surrogate)
    if folder and run.history:
        error.add_note(
            f"The last good checkpoint, of step {run.history[-1].step}, is kept in "
            f"{folder.checkpoints}."
        )
    return error


def _check(plan: TrainPlan, data: SemiData) -> None:
    if not isinstance(plan, TrainPlan):
        raise TypeError(f"plan must be a TrainPlan; got {type(plan).__name__}.")
    if not isinstance(data, SemiData):
        raise TypeError(f"data must be a SemiData; got {type(data).__name__}.")
    if plan.select != "last" and data.validation is None:
        raise ValueError(
            f"select={plan.select!r} needs a validation part, and data has none. Hold rows out "
            "with draw_labels(..., n_validation=...), or keep select='last'."
        )


def _built(model: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    if isinstance(model, nn.Module):
        return model
    built = model() if callable(model) else model
    if not isinstance(built, nn.Module):
        raise TypeError(
            f"model must be an nn.Module or a function that builds one; got {type(built).__name__}."
        )
    torch.manual_seed(seed)  # so that dropout draws alike however the model came
    return built


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed PyTorch's own generators for the run, and put them back after it.

    On CUDA, let cuDNN time its convolutions once: shapes never change.
    """
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark
    cudnn.benchmark = before or device.type == "cuda"
    try:
        with forked(device):
            torch.manual_seed(seed)
            yield
    finally:
        cudnn.benchmark = before
