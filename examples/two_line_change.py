"""An ordinary PyTorch loop, and the same loop debiased: two lines change.

The paper's toy distribution, where the classes overlap and p(1|x) is 0.25 on [1, 3]: usual
semi-supervised learning lowers it, because it rewards confidence; debiased, it does not. Run it
with ``python examples/two_line_change.py``; it takes a few seconds.
"""

import torch
from torch import nn
from torch.nn import functional as F

import dessl
from dessl.data.toy import two_uniforms

BATCH = 256


def network() -> nn.Module:
    """Your own network; any map from x to logits."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(1, 50), nn.ReLU(), nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 2)
    )


def train(kind: str, *, steps: int = 2000) -> float:
    """Train one network; return its mean p(1|x) on [1.2, 2.8], where the truth is 0.25."""
    data = two_uniforms(n_labelled=2_000, n_unlabelled=20_000)
    x_l, y_l = data.x[data.labelled_rows], data.y[data.labelled_rows]
    x_u = data.x[data.unlabelled_rows]
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.01, total_iters=steps)
    draws = torch.Generator().manual_seed(1)
    for _ in range(steps):
        i = torch.randint(len(x_l), (BATCH,), generator=draws)
        j = torch.randint(len(x_u), (BATCH,), generator=draws)
        optimiser.zero_grad()
        if kind == "complete case":
            # Your existing loop: labelled rows only.
            loss = F.cross_entropy(model(x_l[i]), y_l[i])
            loss.backward()
        else:
            # One joint pass: in separate ones, BatchNorm would treat the two kinds differently.
            labelled, unlabelled = model(torch.cat([x_l[i], x_u[j]])).split([BATCH, BATCH])
            # Two lines: one loss per sample, and a risk that includes unlabelled rows.
            loss = F.cross_entropy(labelled, y_l[i], reduction="none")
            h_l, h_u = dessl.entropy(labelled), dessl.entropy(unlabelled)
            if kind == "debiased":
                risk = dessl.debiased_risk(loss, h_l, h_u, lam=1.0)
            else:  # what semi-supervised learning usually minimises, for comparison
                risk = dessl.ssl_risk(loss, h_u, lam=1.0)
            risk.value.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        points = torch.linspace(1.2, 2.8, 161).unsqueeze(1)
        return float(model(points).softmax(-1)[:, 1].mean())


if __name__ == "__main__":
    print("mean p(1|x) on [1.2, 2.8]; the truth is 0.250")
    for kind in ("complete case", "usual SSL", "debiased"):
        print(f"  {kind:<14} {train(kind):.3f}")
