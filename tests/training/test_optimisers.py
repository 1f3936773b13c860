"""Which weights decay, and an AdamW that does not import PyTorch's compiler."""

import copy
import subprocess
import sys

import torch
from torch import nn

from dessl.training.optimisers import AdamW, decays


def test_normalisation_does_not_decay_whatever_its_shape() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm((4, 3)), nn.BatchNorm1d(4))
    decayed, other = decays(model)
    assert [id(p) for p in decayed] == [id(model[0].weight)]
    assert len(other) == 5


def test_adamw_is_pytorchs_to_the_last_digit_and_resumes_from_its_state() -> None:
    torch.manual_seed(0)
    first = nn.Linear(3, 2)
    second = copy.deepcopy(first)
    ours = AdamW(first.parameters(), 0.1, weight_decay=0.3)
    theirs = torch.optim.AdamW(second.parameters(), 0.1, weight_decay=0.3)
    for step in range(6):
        x = torch.randn(4, 3)
        for model, optimiser in ((first, ours), (second, theirs)):
            optimiser.zero_grad()
            model(x).square().sum().backward()
            optimiser.step()
        if step == 2:  # as a run that is resumed
            ours = AdamW(first.parameters(), 0.1, weight_decay=0.3)
            ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    assert first.weight.requires_grad


def test_training_a_table_does_not_import_the_compiler() -> None:
    program = (
        "import sys, torch; from torch import nn; from dessl.data import SemiData;"
        "from dessl.training import TrainPlan, train;"
        "data = SemiData(torch.rand(8, 2), [0, 1, 0, 1, None, None, None, None]);"
        "plan = TrainPlan(steps=2, labelled_batch=2, unlabelled_batch=2, optimiser='adamw');"
        "train(lambda: nn.Linear(2, 2), 'entropy', data, plan, progress=False);"
        "print('torch._dynamo' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "False", ran.stderr
