"""The training loop: steps, evaluation, a line of history, a checkpoint; for one run or many."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from dessl import _checks
from dessl.surrogates.base import forked, seed_generators
from dessl.training.checkpoint import Checkpoint, save_checkpoint, save_sharded
from dessl.training.folder import RunFolder, flat_identity
from dessl.training.guard import DivergenceError
from dessl.training.member import Callback, Event, Member
from dessl.training.progress import progress_bar
from dessl.training.ranks import check_same_on_ranks, from_each, from_first, lost_ranks, rank, ranks


class Trainable(ABC):
    """What the loop trains: one run, or many as one.

    Args:
        members: The runs, of one length and one evaluation interval.
        device: Where they are trained.
    """

    save_seconds: float = 0.0  # least time between two checkpoints
    keeps_history: ClassVar[bool] = False  # whether events go to history.jsonl
    is_sharded = False  # whether the weights are divided among the ranks, which save them together

    def __init__(self, members: Sequence[Member], device: torch.device) -> None:
        plan, n_labelled = members[0].plan, members[0].n_labelled
        self.members, self.device = list(members), device
        self.steps = plan.total_steps(n_labelled)
        self.interval = plan.evaluation_interval(n_labelled)
        self.done = 0
        self.random_of_ranks: list[Tensor] = []  # PyTorch's generator on each rank
        self._zero = time.perf_counter()

    @abstractmethod
    def take(self, step: int) -> None:
        """Take step number ``step``, the first being 0, without waiting for the device."""

    @abstractmethod
    def observe(self, began: float) -> list[Event]:
        """Evaluate after ``done`` steps, select, and return an event for each run that continues.

        Args:
            began: Start time of the steps since the last evaluation, from ``time.perf_counter``.
        """

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return the fields that must match to resume."""

    @abstractmethod
    def own_state(self) -> Checkpoint:
        """Return the weights and other state that the next step depends on."""

    @abstractmethod
    def restore_from(self, saved: Checkpoint) -> None:
        """Resume from what :meth:`own_state` returned."""

    @property
    def finished(self) -> bool:
        """Whether all steps are done or every run has ended."""
        return self.done >= self.steps or all(member.ended for member in self.members)

    @property
    def seconds(self) -> float:
        """Seconds so far, over all sessions."""
        return time.perf_counter() - self._zero

    def next_stop(self) -> int:
        """Return the step of the next evaluation."""
        return min(self.steps, (self.done // self.interval + 1) * self.interval)

    def pace(self, began: float) -> float:
        """Return steps a second since the last evaluation."""
        taken = self.done - (self.done - 1) // self.interval * self.interval
        return taken / max(1e-9, time.perf_counter() - began)  # a coarse clock may stand still

    def checkpoint(self) -> Checkpoint:
        """Return everything that the next step depends on."""
        weights, own = self.own_state()
        state = {
            **own,
            "done": self.done,
            "seconds": self.seconds,
            "members": [member.state_dict() for member in self.members],
            "random": torch.get_rng_state(),
        }
        if len(self.random_of_ranks) > 1:
            state["random_of_ranks"] = torch.stack(self.random_of_ranks)
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.device)
        return Checkpoint(weights, state)

    def restore(self, saved: Checkpoint) -> None:
        """Resume from a checkpoint, bit for bit.

        If something is missing from it, another checkpoint can be restored afterwards.
        """
        state = saved.state
        done = _checks.whole_number("done", state["done"], low=1, high=self.steps)
        seconds, random = float(state["seconds"]), state["random"]
        self.restore_from(saved)
        for member, its in zip(self.members, state["members"], strict=True):
            member.load_state_dict(its)
        # Copies: PyTorch crashes on a state that is a view into another tensor.
        self.random_of_ranks = [own.clone() for own in state.get("random_of_ranks", ())]
        if len(self.random_of_ranks) == ranks() > 1:
            torch.set_rng_state(self.random_of_ranks[rank()])
        elif rank() == 0:
            torch.set_rng_state(random)
        else:  # the number of ranks changed: use draws that no rank has made
            own = hash((self.members[0].plan.seed, rank(), done)) % 2**63
            seed_generators(own, self.device)
        self.done = done
        self._zero -= seconds
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"], self.device)


def drive(
    trained: Trainable,
    folder: RunFolder | None,
    *,
    shared: RunFolder | None = None,
    resume: bool,
    callbacks: Sequence[Callback] = (),
    progress: bool,
) -> None:
    """Train to the end, from the newest checkpoint in the folder where there is one.

    Args:
        trained: What to train, before its first step.
        folder: Folder locked by this process; None to keep nothing, or on ranks other than 0.
        shared: The same folder on every rank, for weights that are divided among them.
        resume: Whether to resume an existing run in the folder.
        callbacks: Functions called with every event.
        progress: Whether to show a progress bar on a terminal.
    """
    _resume(trained, folder, resume=resume)
    saved_step, last_saved = trained.done, time.perf_counter()
    with progress_bar(trained.steps, trained.done, shown=progress) as bar:
        while not trained.finished:
            try:
                with lost_ranks():
                    began, stop = time.perf_counter(), trained.next_stop()
                    for step in range(trained.done, stop):
                        trained.take(step)
                        bar.advance(step + 1)
                    trained.done = stop
                    events = trained.observe(began)
                    trained.random_of_ranks = from_each(torch.get_rng_state())
            except DivergenceError as error:
                if folder and saved_step:
                    last = f"The last good checkpoint, of step {saved_step},"
                    error.add_note(f"{last} is in {folder.checkpoints}.")
                raise
            if folder and trained.keeps_history:
                folder.append(events)
            due = time.perf_counter() - last_saved >= trained.save_seconds
            if trained.is_sharded and shared:
                with lost_ranks():
                    save_sharded(shared.checkpoints, trained.done, *trained.checkpoint())
                saved_step = trained.done
            elif folder and (due or trained.finished):
                save_checkpoint(folder.checkpoints, trained.done, *trained.checkpoint())
                saved_step, last_saved = trained.done, time.perf_counter()
            if events:
                bar.show(events[-1])
            with forked(trained.device):  # a callback's draws do not affect the run
                for event in events:
                    for callback in callbacks:
                        callback(event)


def _resume(trained: Trainable, folder: RunFolder | None, *, resume: bool) -> None:
    """Start every rank where rank 0 resumes, which alone has the folder."""
    found: list[Checkpoint] = []
    restore = found.append if trained.is_sharded else trained.restore
    identity = trained.identity() if folder or ranks() > 1 else {}
    if ranks() > 1:
        check_same_on_ranks(flat_identity(identity), "the plan, data, surrogate and model")

    def begin() -> Checkpoint | None:
        if folder:
            folder.begin(identity, restore, resume=resume)
        if trained.is_sharded:
            return found[0] if found else None
        return trained.checkpoint() if trained.done else None

    saved = from_first(begin)
    if saved is not None and (rank() or trained.is_sharded):
        with lost_ranks():
            trained.restore(saved)
    if folder and trained.keeps_history:
        folder.rewrite_history(trained.members[0].history)
