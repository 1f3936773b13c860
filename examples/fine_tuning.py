"""LoRA on a Hugging Face backbone with a debiased risk, in your own loop.

    python examples/fine_tuning.py
    torchrun --nproc-per-node 2 examples/fine_tuning.py

bf16, gradient checkpointing, and steps of several micro-batches whose numbers of rows differ. The
backbone here is tiny and its weights are random, so that nothing is downloaded; replace it with
``AutoModelForSequenceClassification.from_pretrained(...)``. Needs ``pip install
'dessl[fine-tuning]'``.
"""

from collections.abc import Iterator
from contextlib import nullcontext

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

from dessl import Batches, Rows, Scores, SemiData, Surrogate
from dessl.surrogates import FixMatch
from dessl.surrogates.base import as_is
from dessl.training import WholeStep, process_group
from dessl.training.ranks import rank, ranks

PAD, MASK, WORDS, LENGTH = 0, 1, 20, 12


class Logits(nn.Module):
    """A backbone as dessl needs it: a map from rows, here tokens, to logits."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (n, classes) of tokens (n, length), which SemiData holds as floats."""
        tokens = tokens.long()
        return self.backbone(input_ids=tokens, attention_mask=(tokens != PAD).long()).logits


def backbone() -> nn.Module:
    """Return a tiny BERT with LoRA on queries and values; its whole head is trained."""
    config = BertConfig(
        vocab_size=2 + WORDS,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=LENGTH,
        num_labels=2,
        use_cache=False,
    )
    model = BertForSequenceClassification(config)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    lora = LoraConfig(r=8, target_modules=["query", "value"], modules_to_save=["classifier"])
    return Logits(get_peft_model(model, lora))


def some_words_masked(tokens: Tensor, generator: torch.Generator) -> Tensor:
    """The strong view: each word is hidden with a probability of 0.2."""
    hidden = torch.rand(tokens.shape, generator=generator, device=tokens.device) < 0.2
    return torch.where(hidden & (tokens != PAD), MASK, tokens)


def sentences(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return tokens (n, length) and their class: which half of the words is more common."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (n,), generator=generator)
    common = torch.rand(n, LENGTH, generator=generator) < 0.8
    half = torch.where(common, y[:, None], 1 - y[:, None])
    words = torch.randint(2, 2 + WORDS // 2, (n, LENGTH), generator=generator)
    return words + half * (WORDS // 2), y


def micro_batches(batches: Batches, pieces: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield this rank's micro-batches of the next step: labelled and unlabelled row numbers.

    Every rank draws the same step and takes every N-th micro-batch of it.
    """
    drawn = batches.draw()
    both = zip(*(rows.tensor_split(pieces) for rows in drawn), strict=True)
    yield from list(both)[rank() :: ranks()]


def take_step(
    model: nn.Module,
    surrogate: Surrogate,
    data: SemiData,
    micro: list[tuple[Tensor, Tensor]],
    *,
    lam: float,
    bf16: bool,
) -> None:
    """Add the gradient of one step's risk, micro-batch by micro-batch."""
    whole = WholeStep(sum(len(y) for y, _ in micro), sum(len(others) for _, others in micro))
    for number, (labelled, unlabelled) in enumerate(micro):
        last = number == len(micro) - 1
        drawn = torch.cat([labelled, unlabelled])
        rows = Rows(data.x[drawn], data.ids[drawn])
        with model.no_sync() if ranks() > 1 and not last else nullcontext():
            with torch.autocast(
                data.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False
            ):
                h, logits = surrogate.step_scores(model, rows, len(labelled))
            risk = whole.objective(Scores(h.float(), logits.float()), data.y[labelled], lam)
            risk.value.backward()


def fine_tune(model: nn.Module, data: SemiData, *, steps: int, bf16: bool = True) -> None:
    """Train in place: 16 labelled and 44 unlabelled rows per step, in four micro-batches."""
    surrogate = FixMatch(0.8, weak=as_is, strong=some_words_masked, seed=rank())
    batches = Batches(data, 16, 44, seed=0)
    seen = DistributedDataParallel(model) if ranks() > 1 else model
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=2e-2)
    for _ in range(steps):
        take_step(seen, surrogate, data, list(micro_batches(batches, 4)), lam=0.5, bf16=bf16)
        optimiser.step()
        optimiser.zero_grad()


def main(steps: int = 40) -> float:
    """Fine-tune on 32 labelled and 400 unlabelled sentences; return the accuracy on new ones."""
    with process_group() as device:
        torch.manual_seed(0)
        model = backbone().to(device or "cpu")
        x, y = sentences(432, seed=1)
        data = SemiData(x, torch.where(torch.arange(432) < 32, y, -1)).to(device or "cpu")
        fine_tune(model, data, steps=steps)
        x, y = (part.to(device or "cpu") for part in sentences(400, seed=2))
        with torch.no_grad():
            accuracy = (model.eval()(x).argmax(1) == y).float().mean().item()
        if rank() == 0:
            print(f"accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
