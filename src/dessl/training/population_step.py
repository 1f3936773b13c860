"""One step of K runs: rows → scores → K risks → gradients → update, all on the device.

Each risk depends on its own run's parameters alone, so the gradient of the sum of the K risks is
the K gradients side by side, and an optimiser that works entry by entry moves all runs at once.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import vmap

from dessl import _checks
from dessl.data import SemiData
from dessl.data.batches import Batches, Stream
from dessl.objective import RiskKind, objective
from dessl.risk import RISKS, Risk
from dessl.schedules import schedule_from
from dessl.surrogates.base import Rows, Scores, Surrogate
from dessl.surrogates.state import check_fine_enough
from dessl.training.accelerate import WARM_UP, captured, on_side_stream
from dessl.training.guard import without_gradient
from dessl.training.optimisers import load_memory, stacked_optimiser
from dessl.training.plan import TrainPlan
from dessl.training.stacked_model import StackedModel, State
from dessl.training.totals import Totals

AHEAD = 2**24  # row numbers held at once: 128 MiB


class RowsAhead:
    """Row numbers (steps, K, n) of the next steps, labelled rows first.

    A stream is a sequence of permutations cut into batches, so drawing ``steps`` batches as one
    large batch gives the same rows as ``steps`` single draws, in a few operations.

    Args:
        streams: One :class:`~dessl.data.Batches` for each run, of the same batch sizes, at their
            start. They advance here and must not be used elsewhere.
        steps: Steps to draw at a time; fewer if they would take more than 128 MiB.
    """

    def __init__(self, streams: Sequence[Batches], *, steps: int) -> None:
        self._streams = list(streams)
        first = self._streams[0]
        self.labelled, self.unlabelled = first.labelled.size, first.unlabelled.size
        width = len(self._streams) * (self.labelled + self.unlabelled)
        self.steps = min(steps, max(1, AHEAD // width))
        self.rows = torch.empty(
            self.steps,
            len(self._streams),
            self.labelled + self.unlabelled,
            dtype=torch.int64,
            device=first.data.device,
        )
        self.used = 0
        self._draw()

    def advance(self) -> int:
        """Return the position of the next step in ``rows``; draw new rows if none are left."""
        if self.used == self.steps:
            self._draw()
            self.used = 0
        self.used += 1
        return self.used - 1

    def _draw(self) -> None:
        self._start = [batches.state_dict() for batches in self._streams]
        for k, batches in enumerate(self._streams):
            self.rows[:, k, : self.labelled] = _drawn(batches.labelled, self.labelled, self.steps)
            if self.unlabelled:
                drawn = _drawn(batches.unlabelled, self.unlabelled, self.steps)
                self.rows[:, k, self.labelled :] = drawn

    def state_dict(self) -> dict[str, Any]:
        """The streams' states when the current rows were drawn, and how many of them are used."""
        return {"streams": self._start, "used": self.used, "steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state: draw the same rows again and skip those used.

        A part of a larger population draws as few steps ahead as the whole did.
        """
        if state["steps"] > self.steps or len(state["streams"]) != len(self._streams):
            raise ValueError(
                f"the saved population drew {state['steps']} steps ahead for "
                f"{len(state['streams'])} runs; this one draws {self.steps} for "
                f"{len(self._streams)}. Resume with the runs it was started with."
            )
        self.steps = state["steps"]
        self.rows = self.rows[: self.steps]
        for batches, saved in zip(self._streams, state["streams"], strict=True):
            batches.load_state_dict(saved)
        self.used = _checks.whole_number("used", state["used"], high=self.steps)
        self._draw()


def _drawn(stream: Stream, size: int, steps: int) -> Tensor:
    """The next ``steps`` batches of a stream, (steps, size)."""
    stream.size = size * steps
    return stream.draw().view(steps, size)


class Setting(NamedTuple):
    """The settings that differ between runs of a population, one entry per run."""

    lams: Sequence[float]
    risks: Sequence[RiskKind]  # sorted, so that equal ones are adjacent
    weights: Mapping[str, Tensor | None]  # by risk, of its runs' unlabelled rows, (runs, n_u)


class PopulationStep:
    """A step's device work, with all that it changes; shapes are fixed and no value is read.

    Args:
        models: The K models, where the data is.
        surrogate: Without state or draws.
        data: With all labels; which of them a run may see is in its rows.
        plan: Of all runs, except for λ and the risk.
        setting: Settings of each run: λ and the risk.
        rows: Rows of each run.
        steps: Number of steps of the whole run.
        decayed: Names of the parameters that decay.

    Attributes:
        still_h: H of all rows of the last step if it had no gradient.
    """

    def __init__(
        self,
        models: StackedModel,
        surrogate: Surrogate,
        data: SemiData,
        plan: TrainPlan,
        setting: Setting,
        rows: RowsAhead,
        *,
        steps: int,
        decayed: Sequence[str],
    ) -> None:
        self.models, self.surrogate, self.data, self.plan = models, surrogate, data, plan
        self.rows, device = rows, data.device
        self._kinds = [(kind, len(list(runs))) for kind, runs in groupby(setting.risks)]
        self._lams = torch.tensor(setting.lams, device=device)
        self._weights = setting.weights
        # Tables on the device: a graph can look up a step's values without the host.
        ramp = schedule_from(plan.ramp)
        shares = [ramp(step, steps) for step in range(steps)]
        rates = [plan.learning_rate_at(step, steps) for step in range(steps)]
        self._shares = torch.tensor(shares, device=device)
        self._rates = torch.tensor(rates, device=device)
        self._done = torch.zeros(1, dtype=torch.int64, device=device)
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._rate = torch.tensor(rates[0], device=device)
        self.totals = Totals(device, plan.risk_limit, models.size)
        self.optimiser = stacked_optimiser(models.parameters, decayed, plan, self._rate)
        self.average = {name: p.detach().clone() for name, p in models.parameters.items()}
        self._run: Callable[[], None] = self._work
        self._graph = device.type == "cuda" and plan.graph != "off"
        self.is_graph = False
        self.still_h: Tensor | None = None
        self._taken = 0

    def __call__(self, step: int) -> None:
        """Take step number ``step``, the first being 0."""
        self._place.fill_(self.rows.advance())
        self._done.fill_(step)
        if self._graph and self._taken < WARM_UP:
            on_side_stream(self.data.device, self._work)
        else:
            self._run()
        self._taken += 1
        if self._graph and self._taken == WARM_UP:
            self._run = self._captured()

    def _work(self) -> None:
        rows = self.rows.rows.index_select(0, self._place)[0]
        scores, risk = self._scored(rows)
        self.still_h = without_gradient(scores)
        for parameter in self.models.parameters.values():
            parameter.grad = None
        risk.value.sum().backward()  # type: ignore[no-untyped-call]
        gradients = [p.grad for p in self.models.parameters.values() if p.grad is not None]
        squares = [torch.linalg.vector_norm(g.flatten(1), dim=1).square() for g in gradients]
        kept = (scores.h.detach().view(len(rows), -1) != 0).double()
        norm = torch.stack(squares).sum(0).sqrt()
        # One type, so that one kernel joins them.
        wide = Risk(*(part.detach().double() for part in risk))
        self.totals.add(wide, kept, self.rows.labelled, norm.double())
        self._rate.copy_(self._rates[self._done][0])
        self.optimiser.step()
        self._follow()

    def _scored(self, rows: Tensor) -> tuple[Scores, Risk]:
        plan, data = self.plan, self.data
        runs, n = rows.shape
        every = rows.flatten()
        batch = Rows(data.x[every], data.ids[every])
        with torch.autocast(
            data.device.type,
            torch.bfloat16,
            enabled=plan.precision == "bf16",
            cache_enabled=False,
        ):
            scores = self.surrogate(self.models.on_rows_of_each(n), batch)
        scores = Scores(scores.h.float(), scores.logits.float())
        h, logits = scores.h.view(runs, n), scores.logits.view(-1, runs, n, scores.logits.shape[-1])
        lam = self._lams * self._shares[self._done]
        return scores, self._risks(h, logits, rows[:, : self.rows.labelled], lam)

    def _risks(self, h: Tensor, logits: Tensor, labelled: Tensor, lam: Tensor) -> Risk:
        """The K risks and their parts, each (K,)."""
        y, propensity = self.data.y[labelled], self.data.propensity
        parts, first = [], 0
        for kind, runs in self._kinds:
            its, weights = slice(first, first + runs), self._weights[kind]
            known = None
            if RISKS[kind].needs_propensity and propensity is not None:
                known = propensity[labelled[its]]
            optional = [None if part is None else 0 for part in (weights, known)]
            risk_of = vmap(self._one_risk(kind), in_dims=(0, 1, 0, 0, *optional))
            parts.append(risk_of(h[its], logits[:, its], y[its], lam[its], weights, known))
            first += runs
        return Risk(*(torch.cat(part) for part in zip(*parts, strict=True)))

    def _one_risk(self, kind: RiskKind) -> Callable[..., tuple[Tensor, ...]]:
        plan = self.plan
        on, bound = (plan.on, plan.bound) if "on" in RISKS[kind].options else ("unlabelled", None)

        def risk(
            h: Tensor,
            logits: Tensor,
            y: Tensor,
            lam: Tensor,
            weights: Tensor | None,
            propensity: Tensor | None,
        ) -> tuple[Tensor, ...]:
            found = objective(
                Scores(h, logits),
                y,
                lam,
                risk=kind,
                on=on,
                bound=bound,
                weights_unlabelled=weights,
                propensity=propensity,
            )
            return tuple(found)

        return risk

    @torch.no_grad()
    def _follow(self) -> None:
        """Average the weights as :class:`~dessl.training.step.WeightAverage` does."""
        if not self.plan.ema:
            return
        share = (1 / (self._done[0] + 2)).clamp(min=1 - self.plan.ema)
        for name, parameter in self.models.parameters.items():
            if parameter.requires_grad:  # all others stay unchanged
                check_fine_enough(parameter)
                self.average[name].lerp_(parameter, share)

    def _captured(self) -> Callable[[], None]:
        """The step's device work as one CUDA graph, or unchanged if that fails.

        The steps before it were real ones: a trial that is undone, as for a single run, would need
        a copy of all K states.
        """
        try:
            graph = captured(self._work)
        except RuntimeError as error:
            if self.plan.graph == "on":
                raise
            warnings.warn(f"the population's step runs without a CUDA graph: {error}", stacklevel=2)
            return self._work
        self.is_graph = True
        return graph.replay

    def restore(self, optimiser: Mapping[str, Any]) -> None:
        """Resume an optimiser's saved memory, keeping the learning rate's place."""
        load_memory(self.optimiser, optimiser)
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate

    @property
    def evaluated(self) -> State:
        """The parameters that are evaluated and kept: averaged ones where the plan has them."""
        return self.average if self.plan.ema else self.models.parameters
