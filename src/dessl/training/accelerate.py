"""How a step is run: eager, compiled, captured in a CUDA graph, or both; the fastest that works."""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from dessl.surrogates.base import Rows, Surrogate
from dessl.training.ranks import ranks
from dessl.training.step import Step

WARM_UP = 3  # steps before a capture: they create lazy state and choose kernels

logger = logging.getLogger("dessl.training")


class Accelerated:
    """A step, run in the fastest way that works: on CUDA, one replay of a compiled step's graph.

    Ways that do not work are skipped, with the reason in the log (logger ``dessl.training``),
    unless the plan says ``"on"``: then it is an error. This takes trial steps, after which
    everything is restored.

    Args:
        step: The device work. Its generators are registered with the graph.

    Attributes:
        mode: ``"eager"``, ``"compiled"``, ``"graph"`` or ``"compiled graph"``; set from the
            first step on.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.mode = "eager"
        self._run: Callable[[], None] | None = None
        plan, self._device = step.plan, step.data.device
        on_cuda = self._device.type == "cuda"
        if plan.graph == "on" and not on_cuda:
            raise ValueError(f"graph='on' needs CUDA; the data is on {self._device}.")
        if ranks() > 1 and "on" in (plan.compile, plan.graph):
            raise ValueError(
                "compile='on' and graph='on' are for one process: with several ranks, a step waits "
                "for the others. Pass 'auto'."
            )
        alone = ranks() == 1
        self._compile = plan.compile == "on" or (plan.compile == "auto" and on_cuda and alone)
        self._graph = plan.graph != "off" and on_cuda and alone
        self._plain = not self._compile and not self._graph

    def __call__(self, rows: Tensor, rate: float, lam: float, stored: Rows | None = None) -> None:
        """Take one step.

        Args:
            rows: Positions of the labelled rows, then of the unlabelled, (n,).
            rate: The learning rate.
            lam: λ.
            stored: Unlabelled rows that are not in the data's memory.
        """
        self.step.optimiser.set_rate(rate)
        if self._plain:
            self.step(rows, lam, stored)
            return
        if self._run is None:
            self._rows, self._lam = rows.clone(), torch.zeros((), device=self._device)
            self._stored = stored and Rows(*(part.clone() for part in stored))
            self._run = self._fastest()
        self._rows.copy_(rows)
        for kept, part in zip(self._stored or (), stored or (), strict=True):
            kept.copy_(part)
        self._lam.fill_(lam)
        self._run()

    def _fastest(self) -> Callable[[], None]:
        plan, run = self.step.plan, self._eager
        if self._compile:
            if self._works(self._compiled, "compiled", plan.compile):
                self.mode = "compiled"
            else:
                self.step.compiled(on=False)
        if self._graph and self._works(self._capture, "captured in a CUDA graph", plan.graph):
            self.mode = "compiled graph" if self.mode == "compiled" else "graph"
            run = self._captured.replay
        return run

    def _eager(self) -> None:
        self.step(self._rows, self._lam, self._stored)

    def _compiled(self) -> None:
        with warnings.catch_warnings():  # PyTorch's compiler warns about itself
            warnings.simplefilter("ignore")
            self.step.compiled(on=True)
            self._eager()

    def _works(self, trial: Callable[[], None], what: str, switch: str) -> bool:
        try:
            with unmoved(self.step):
                trial()
        except Exception as error:
            if switch == "on":
                raise
            reason = str(error).strip().splitlines() or [type(error).__name__]
            logger.warning("the step is not %s: %s", what, reason[0])
            return False
        return True

    def _capture(self) -> None:
        for _ in range(WARM_UP):
            on_side_stream(self._device, self._eager)
        self._captured = captured(self._eager, _generators(self.step.surrogate, self._device))


def on_side_stream(device: torch.device, work: Callable[[], None]) -> None:
    """Do CUDA work on a stream other than the default one, as needed before a capture."""
    side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream(device).wait_stream(side)


def captured(
    work: Callable[[], None], generators: Sequence[torch.Generator] = ()
) -> torch.cuda.CUDAGraph:
    """Capture CUDA work as a graph, without running it.

    Args:
        work: Work with fixed shapes, already warmed up.
        generators: Generators that it draws from, in addition to PyTorch's own.
    """
    graph = torch.cuda.CUDAGraph()
    for generator in generators:
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        work()
    return graph


@contextmanager
def unmoved(step: Step) -> Iterator[None]:
    """After the block, restore everything that a step changes, in place."""
    device = step.data.device
    models = [step.model, step.surrogate, *([step.average.model] if step.average else [])]
    tensors = [t for m in models for t in (*m.parameters(), *m.buffers())]
    tensors += [*step.totals.tensors, *step.optimiser.state_tensors()]
    tensors += [step.average.steps] if step.average else []
    before = [tensor.detach().clone() for tensor in tensors]
    generators = _generators(step.surrogate, device)
    states = [generator.get_state() for generator in generators]
    on_cuda = device.type == "cuda"
    random = torch.cuda.get_rng_state(device) if on_cuda else torch.get_rng_state()
    try:
        yield
    finally:
        known = {id(tensor) for tensor in tensors}
        with torch.no_grad():
            for tensor, value in zip(tensors, before, strict=True):
                tensor.copy_(value)
            for tensor in step.optimiser.state_tensors():
                if id(tensor) not in known:  # made by the trial: an optimiser's memory starts at 0
                    tensor.zero_()
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        if on_cuda:
            torch.cuda.set_rng_state(random, device)
        else:
            torch.set_rng_state(random)
        step.optimiser.zero_grad()


def _generators(surrogate: Surrogate, device: torch.device) -> list[torch.Generator]:
    return [part.generator(device) for part in surrogate.parts()]
