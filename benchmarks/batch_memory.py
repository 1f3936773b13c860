"""What BatchNorm's memory does to pseudo-labels that are computed in evaluation mode.

A WRN-28-2 is trained on 250 labels of CIFAR-10 (the complete case of image_labels.py: Muon, weak
and strong views, float32). At some steps, its pseudo-labels of 2,000 unlabelled rows are computed
from weak views in evaluation mode, with running statistics of three momenta that were kept during
the same training, and with the statistics of the batch itself. Shown for each: the share of rows
above the threshold of 0.95, how many of those are right, the accuracy on all rows, and the share of
rows in the most frequent class.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/batch_memory.py --device cuda --out FILE
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dessl._files import write_whole
from dessl.data import draw_labels
from dessl.evaluation import mean_interval
from dessl.surrogates import View
from dessl.surrogates.passes import evaluated, side_pass
from dessl.training import TrainPlan
from dessl.training.optimisers import Optimisers
from dessl_paper.training import network
from image_labels import FORMS, NETWORKS, TAU, setting
from machine import machine

MOMENTA = (0.001, 0.01, 0.1)
BATCH = "the batch's own"
STEPS = (25, 50, 100, 200, 400, 800)
LABELS, ROWS = 250, 2_000

Statistics = dict[str, tuple[Tensor, Tensor]]


class Memories:
    """Running means and variances of every BatchNorm, for several momenta at once."""

    def __init__(self, model: nn.Module, momenta: Sequence[float]) -> None:
        norms = ((n, m) for n, m in model.named_modules() if isinstance(m, nn.BatchNorm2d))
        self.norms = dict(norms)
        self.running: dict[float, Statistics] = {
            momentum: {name: self._of(norm) for name, norm in self.norms.items()}
            for momentum in momenta
        }
        self.recording = False
        for name, norm in self.norms.items():
            norm.register_forward_pre_hook(self._recorder(name))

    @staticmethod
    def _of(norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
        assert norm.running_mean is not None
        assert norm.running_var is not None
        return norm.running_mean.clone(), norm.running_var.clone()

    def _recorder(self, name: str) -> Callable[..., None]:
        @torch.no_grad()
        def record(_: nn.Module, inputs: tuple[Tensor]) -> None:
            if self.recording:
                variance, mean = torch.var_mean(inputs[0], (0, 2, 3))
                for momentum, its in self.running.items():
                    old_mean, old_variance = its[name]
                    its[name] = (
                        old_mean.lerp(mean, momentum),
                        old_variance.lerp(variance, momentum),
                    )

        return record

    @contextmanager
    def used(self, momentum: float) -> Iterator[None]:
        """The model with the statistics of one momentum."""
        own = {name: self._of(norm) for name, norm in self.norms.items()}
        self._set(self.running[momentum])
        yield
        self._set(own)

    def _set(self, statistics: Statistics) -> None:
        for name, norm in self.norms.items():
            norm.running_mean, norm.running_var = (part.clone() for part in statistics[name])


def described(logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """The pseudo-labels of some rows."""
    confidence, label = logits.softmax(1).max(1)
    right, sure = (label == y).float(), confidence > TAU
    return {
        "share above the threshold": sure.float().mean().item(),
        "right above the threshold": right[sure].mean().item() if sure.any() else None,
        "right": right.mean().item(),
        "share of the most frequent class": label.bincount().max().item() / len(y),
    }


def trained(seed: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Train once, and describe the pseudo-labels at some steps."""
    experiment, rows = setting(smoke=False)
    data, generator = rows.to(options.device), torch.Generator(options.device).manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    labelled = rows.with_labels(draw_labels(rows.y, LABELS, how="balanced", generator=draw))
    picked = labelled.labelled_rows.to(options.device)
    weak, strong = views(experiment.views)
    torch.manual_seed(seed)
    model = network(NETWORKS["wrn_28_2"], data)().to(options.device)
    model.to(memory_format=torch.channels_last)
    plan = TrainPlan.from_dict({**experiment.plan, "risk": "complete_case", "precision": "float32"})
    optimiser, memories = Optimisers(model, plan, data.device), Memories(model, MOMENTA)
    probe = torch.randperm(len(data), generator=draw)[: options.rows].to(options.device)
    found = []
    for step in range(1, max(options.steps) + 1):
        optimiser.set_rate(plan.learning_rate * min(1.0, step / 500))  # the plan's warm-up
        batch = picked[torch.randint(len(picked), (plan.labelled_batch,)).to(options.device)]
        x = torch.cat([weak(data.x[batch], generator), strong(data.x[batch], generator)])
        memories.recording = True
        logits = model(x)
        memories.recording = False
        loss = F.cross_entropy(logits, data.y[batch].repeat(2))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step in options.steps:
            x = weak(data.x[probe], torch.Generator(options.device).manual_seed(seed))
            with torch.no_grad():
                seen = {BATCH: side_pass(model)(x)}
                for momentum in MOMENTA:
                    with memories.used(momentum):
                        seen[f"{momentum:g}"] = evaluated(model)(x)
            for statistics, its in seen.items():
                own = {"seed": seed, "step": step, "statistics": statistics}
                found.append(own | described(its, data.y[probe]))
    return found


def views(settings: dict[str, Any]) -> tuple[View, View]:
    """The weak and the strong view of image_labels.py."""
    term: Any = FORMS["de_fixmatch"].term(settings, seed=0)
    return term.weak, term.strong


def table(records: Sequence[dict[str, Any]]) -> str:
    """Means over the seeds, a line for each step and kind of statistics."""
    names = [key for key in records[0] if key not in ("seed", "step", "statistics")]
    lines = [f"| step | momentum | {', % | '.join(names)}, % |", "|---:|---|" + "---:|" * 4]
    for step in dict.fromkeys(record["step"] for record in records):
        for kind in dict.fromkeys(record["statistics"] for record in records):
            its = [one for one in records if (one["step"], one["statistics"]) == (step, kind)]
            cells = [f"{step:,}", kind]
            for name in names:
                values = [100 * one[name] for one in its if one[name] is not None]
                half = f" ± {mean_interval(values).half_width:.1f}" if len(values) > 1 else ""
                cells.append(f"{sum(values) / len(values):.1f}{half}" if values else "–")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Train with every seed, and write the records and their table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, nargs="+", default=list(STEPS))
    parser.add_argument("--rows", type=int, default=ROWS, help="unlabelled rows to look at")
    parser.add_argument("--out", type=Path, help="JSON file; its table beside it")
    options = parser.parse_args(argv)
    records = [one for seed in range(options.seeds) for one in trained(seed, options)]
    text = table(records)
    print(text)
    if options.out:
        found = {"machine": machine(), "seeds": options.seeds, "records": records}
        write_whole(options.out, json.dumps(found, indent=1) + "\n")
        head = f"# Pseudo-labels and BatchNorm's memory\n\n{options.seeds} seeds.\n\n"
        write_whole(options.out.with_suffix(".md"), head + text)


if __name__ == "__main__":
    main()
