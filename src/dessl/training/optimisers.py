"""The plan's optimiser: which weights decay, which use Muon, and one learning rate for all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dessl.training.muon import Muon
from dessl.training.plan import TrainPlan
from dessl.training.sharded import like, whole

NORMS = (
    nn.modules.batchnorm._NormBase,
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
)


def decays(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Return the parameters that decay and those that do not: biases and normalisation layers.

    >>> decayed, other = decays(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    >>> [tuple(p.shape) for p in decayed], len(other)
    ([(3, 2)], 3)
    """
    norms = {id(p) for m in model.modules() if isinstance(m, NORMS) for p in m.parameters()}
    decayed: list[nn.Parameter] = []
    other: list[nn.Parameter] = []
    for parameter in model.parameters():
        if parameter.requires_grad:
            plain = parameter.ndim < 2 or id(parameter) in norms
            (other if plain else decayed).append(parameter)
    return decayed, other


def _undecorated(method: Callable[..., Any]) -> Any:
    """A method of PyTorch's optimisers without the decorator that imports the compiler."""
    return getattr(method, "__wrapped__", method)


class AdamW(torch.optim.AdamW):
    """PyTorch's AdamW, step for step, for steps that are never compiled.

    PyTorch's version imports its compiler at the first step, which takes longer than all training
    steps on a small table: one and a half seconds of CPU time.

    >>> layer = nn.Linear(2, 1)
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> AdamW(layer.parameters(), 0.1).step()
    """

    add_param_group = _undecorated(torch.optim.AdamW.add_param_group)
    state_dict = _undecorated(torch.optim.AdamW.state_dict)
    load_state_dict = _undecorated(torch.optim.AdamW.load_state_dict)
    _step = _undecorated(torch.optim.AdamW.step)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Move all parameters by their gradients."""
        self._step(closure)

    step.hooked = True  # type: ignore[attr-defined]  # PyTorch would wrap it for its profiler


MEMORY: dict[type, set[str]] = {  # state kept per parameter
    AdamW: {"step", "exp_avg", "exp_avg_sq"},
    torch.optim.SGD: {"momentum_buffer"},
    Muon: {"momentum_buffer"},
}


class Optimisers:
    """One or two PyTorch optimisers that act as one.

    ``"muon"`` moves every weight of two or more dimensions by :class:`Muon` and the rest by AdamW.
    On CUDA the learning rate is a tensor on the device and SGD and AdamW are the fused ones, so
    that a step can be captured in a graph.

    Args:
        model: Model to train.
        plan: Training plan.
        device: Device of the model.
    """

    def __init__(self, model: nn.Module, plan: TrainPlan, device: torch.device) -> None:
        decayed, other = decays(model)
        if not decayed and not other:
            raise ValueError("the model has no parameters to train: none requires a gradient.")
        self.parameters: list[Tensor] = [*decayed, *other]
        on_cuda = device.type == "cuda"
        start = plan.learning_rate
        self.rate: float | Tensor = torch.tensor(start, device=device) if on_cuda else start
        fused = on_cuda or None
        momentum: dict[str, Any] = {"momentum": plan.momentum, "nesterov": plan.nesterov}
        self.optimisers: list[torch.optim.Optimizer] = []
        weighted = [(decayed, plan.weight_decay), (other, 0.0)]
        if plan.optimiser == "muon":
            if decayed:
                muon = Muon(decayed, self.rate, weight_decay=plan.weight_decay, **momentum)
                self.optimisers.append(muon)
            weighted = [(other, 0.0)]
        groups = [{"params": part, "weight_decay": decay} for part, decay in weighted if part]
        if plan.optimiser == "sgd":
            self.optimisers.append(torch.optim.SGD(groups, self.rate, fused=fused, **momentum))
        elif groups:
            adamw = AdamW(groups, self.rate, fused=fused, capturable=on_cuda)
            # It would warn that capturable is slow, which is not true of the fused version.
            adamw._warned_capturable_if_run_uncaptured = True
            self.optimisers.append(adamw)

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def gradient_norm(self) -> Tensor:
        """Return the norm of the whole gradient, shape ()."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        # All are on one device and of one type: no need for get_total_norm's grouping.
        norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        return whole(norm)

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the next step, without waiting for the device."""
        if isinstance(self.rate, Tensor):
            self.rate.fill_(rate)
            return
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate

    def step(self) -> None:
        """Move all parameters."""
        for optimiser in self.optimisers:
            optimiser.step()

    def state_tensors(self) -> list[Tensor]:
        """Return every tensor of the optimisers' memory."""
        states = [state for o in self.optimisers for state in o.state.values()]
        return [value for state in states for value in state.values() if isinstance(value, Tensor)]

    def state_dict(self) -> dict[str, Any]:
        """Return what the optimisers remember."""
        return {str(number): o.state_dict() for number, o in enumerate(self.optimisers)}

    def named_memory(self, names: Iterable[str]) -> dict[str, Tensor]:
        """Return zeros in the shape of saved memory, divided among ranks as the parameters are.

        Args:
            names: Names as in ``state_dict``, with dots: ``"0.state.3.momentum_buffer"``.
        """
        found = {}
        for name in names:
            number, _, place, _ = name.split(".", 3)
            groups = self.optimisers[int(number)].param_groups
            parameters = [parameter for group in groups for parameter in group["params"]]
            found[name] = torch.zeros_like(parameters[int(place)].detach())
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved memory, keeping the learning rate's tensor."""
        for number, optimiser in enumerate(self.optimisers):
            load_memory(optimiser, state[str(number)])
            for parameter, memory in optimiser.state.items():
                memory |= {
                    name: like(parameter, value)
                    for name, value in memory.items()
                    if isinstance(value, Tensor) and value.shape == parameter.shape
                }
            for group in optimiser.param_groups:
                group["lr"] = self.rate


def load_memory(optimiser: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Resume an optimiser's saved memory; its settings stay those of the plan.

    Raises:
        ValueError: It is not the memory of such an optimiser, which PyTorch would only notice at
            the next step.
    """
    before = optimiser.state_dict()
    settings = [
        {name: value for name, value in group.items() if name not in ("lr", "params")}
        for group in optimiser.param_groups
    ]
    optimiser.load_state_dict(dict(state))
    for group, own in zip(optimiser.param_groups, settings, strict=True):
        group |= own
        for parameter in group["params"]:
            memory = optimiser.state.get(parameter, {})
            if not group.get("momentum", 1):  # SGD stores None then
                memory = {name: value for name, value in memory.items() if value is not None}
            if not _is_memory(memory, parameter, MEMORY[type(optimiser)]):
                optimiser.load_state_dict(before)  # another checkpoint may be tried next
                raise ValueError("the optimiser's state does not belong to these parameters")


def _is_memory(memory: Mapping[str, Any], parameter: Tensor, wanted: set[str]) -> bool:
    """Whether this is an optimiser's state of a parameter; empty if it was never updated."""
    return memory.keys() in (wanted, set()) and all(
        isinstance(value, Tensor)
        and value.is_floating_point()
        and (float(value) >= 0 if name == "step" else value.shape == parameter.shape)
        for name, value in memory.items()
    )


def stacked_optimiser(
    parameters: Mapping[str, Tensor], decayed: Sequence[str], plan: TrainPlan, rate: Tensor
) -> torch.optim.Optimizer:
    """PyTorch's own optimiser on stacked parameters: correct because it works entry by entry.

    Args:
        parameters: Parameters by name, each (K, ...).
        decayed: Names of the parameters that decay.
        plan: Training plan; not with Muon, which works on whole matrices.
        rate: The learning rate, a tensor that may be written into.
    """
    weighted = {True: plan.weight_decay, False: 0.0}
    groups = [
        {
            "params": [p for name, p in parameters.items() if (name in decayed) == decays_],
            "weight_decay": decay,
        }
        for decays_, decay in weighted.items()
    ]
    groups = [group for group in groups if group["params"]]
    if plan.optimiser == "adamw":
        return AdamW(groups, rate, fused=True, capturable=rate.is_cuda)
    return torch.optim.SGD(groups, rate, momentum=plan.momentum, nesterov=plan.nesterov, fused=True)


def decayed_names(model: nn.Module) -> list[str]:
    """Names of the parameters that weight decay acts on.

    >>> decayed_names(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    ['0.weight']
    """
    decayed = {id(parameter) for parameter in decays(model)[0]}
    return [name for name, parameter in model.named_parameters() if id(parameter) in decayed]
