"""LoRA on tiny random transformers: micro-batches and ranks give the gradient of one batch."""

import runpy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import run_ranks
from torch import Tensor, distributed, nn

from dessl import Rows, SemiData, objective
from dessl.surrogates import Entropy
from dessl.training import TrainPlan, train

pytestmark = [
    pytest.mark.slow,  # imports of ten seconds; tests/training/test_whole_step.py is fast
    pytest.mark.skipif(not (find_spec("peft") and find_spec("transformers")), reason="no peft"),
]

needs_gloo = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "num_labels": 3,
}


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return _example()


def _example() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[1] / "examples" / "fine_tuning.py"))


class Vision(nn.Module):
    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, x: Tensor) -> Tensor:
        return self.backbone(pixel_values=x).logits


def lora(model: nn.Module, targets: tuple[str, str], *, checkpointing: bool) -> nn.Module:
    import peft

    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    config = peft.LoraConfig(
        r=4, target_modules=list(targets), modules_to_save=["classifier"], init_lora_weights=False
    )
    return peft.get_peft_model(model, config)


def bert(example: dict[str, Any], *, checkpointing: bool = True) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=40, max_position_embeddings=9, use_cache=False, **SMALL
    )
    model = transformers.BertForSequenceClassification(config)
    return example["Logits"](lora(model, ("query", "value"), checkpointing=checkpointing))


def vit(example: dict[str, Any], *, checkpointing: bool = True) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)
    model = transformers.ViTForImageClassification(config)
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    targets = ("query", "value") if "query" in names else ("q_proj", "v_proj")
    return Vision(lora(model, targets, checkpointing=checkpointing))


def data(kind: str) -> SemiData:
    generator = torch.Generator().manual_seed(1)
    y = torch.where(torch.arange(60) < 13, torch.arange(60) % 3, -1)
    if kind == "bert":
        return SemiData(torch.randint(2, 40, (60, 9), generator=generator), y)
    return SemiData(torch.rand(60, 3, 16, 16, generator=generator), y)


BUILD = {"bert": bert, "vit": vit}
LABELLED, UNLABELLED = torch.arange(13), torch.arange(13, 60)
SPLIT = [(LABELLED[:5], UNLABELLED[:20]), (LABELLED[5:6], UNLABELLED[20:23]),
         (LABELLED[6:], UNLABELLED[23:])]  # fmt: skip


def gradient(model: nn.Module) -> Tensor:
    found = {n: p.grad for n, p in model.named_parameters() if p.requires_grad}
    assert any("lora_" in name for name in found)
    assert all(value is not None for value in found.values())
    return torch.cat([value.flatten() for value in found.values()])


def of_one_batch(kind: str, example: dict[str, Any]) -> Tensor:
    """The gradient by plain autograd, without checkpointing, of all rows at once."""
    model, rows = BUILD[kind](example, checkpointing=False), data(kind)
    risk = objective(Entropy()(model, Rows(rows.x, rows.ids)), rows.y[:13], 0.7)
    risk.value.backward()
    return gradient(model)


@pytest.mark.parametrize("kind", BUILD)
def test_micro_batches_with_checkpointing_have_the_gradient_of_one_batch(
    kind: str, example: dict[str, Any]
) -> None:
    model = BUILD[kind](example)
    example["take_step"](model, Entropy(), data(kind), SPLIT, lam=0.7, bf16=False)
    expected = of_one_batch(kind, example)
    assert expected.abs().max() > 1e-2
    torch.testing.assert_close(gradient(model), expected, atol=1e-5, rtol=0)


def _step_on_a_rank(folder: Path, kind: str) -> None:
    number, example = distributed.get_rank(), _example()
    model = nn.parallel.DistributedDataParallel(BUILD[kind](example))
    mine = SPLIT[:2] if number == 0 else SPLIT[2:]
    example["take_step"](model, Entropy(), data(kind), mine, lam=0.7, bf16=False)
    torch.save(gradient(model), folder / f"{number}.pt")


@needs_gloo
@pytest.mark.parametrize("kind", BUILD)
def test_so_do_two_ranks(kind: str, example: dict[str, Any], tmp_path: Path) -> None:
    assert run_ranks(2, _step_on_a_rank, tmp_path, kind) == [0, 0]
    expected = of_one_batch(kind, example)
    for number in (0, 1):
        found = torch.load(tmp_path / f"{number}.pt", weights_only=True)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", BUILD)
def test_bf16_comes_near(kind: str, example: dict[str, Any]) -> None:
    model = BUILD[kind](example)
    example["take_step"](model, Entropy(), data(kind), SPLIT, lam=0.7, bf16=True)
    expected = of_one_batch(kind, example)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    difference = (gradient(model) - expected).norm() / expected.norm()
    assert 1e-5 < difference < 0.05


def test_a_training_without_a_loop_leaves_frozen_weights_alone(example: dict[str, Any]) -> None:
    rows, before = data("vit"), vit(example).state_dict()
    plan = TrainPlan(steps=2, labelled_batch=4, unlabelled_batch=8, precision="bf16", lam=0.5)
    found = train(vit(example), "entropy", rows, plan, progress=False).model
    moved = {name for name, value in found.state_dict().items() if not value.equal(before[name])}
    assert moved == {name for name, value in found.named_parameters() if value.requires_grad}


def test_the_example_learns(example: dict[str, Any]) -> None:
    assert example["main"]() > 0.85


def _example_on_a_rank(folder: Path) -> None:
    (folder / f"{distributed.get_rank()}").write_text(str(_example()["main"]()))


@needs_gloo
def test_the_example_learns_on_two_ranks(tmp_path: Path) -> None:
    assert run_ranks(2, _example_on_a_rank, tmp_path) == [0, 0]
    found = [float((tmp_path / name).read_text()) for name in "01"]
    assert found[0] == found[1] > 0.85
