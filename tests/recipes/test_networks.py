"""Networks of a recipe: a killed run resumes with the logits of every step, or finds them again."""

from pathlib import Path

import pytest
import torch
from sklearn.datasets import make_moons
from torch import Tensor

from dessl import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.networks import FILE
from dessl.recipes.predictor import predicted_log_proba
from dessl.training import Event


def moons() -> tuple[SemiData, Tensor]:
    """Two moons, 30 of 400 rows with a label, and 500 new rows."""
    x, y = (torch.from_numpy(part) for part in make_moons(900, noise=0.1, random_state=0))
    few = torch.where(torch.arange(400) < 30, y[:400], -1)
    return SemiData(x[:400].float(), few), x[400:].float()


class TestResume:
    def recipe(self, data: SemiData) -> object:
        return recipe_for(data, steps=20, networks=2)

    def test_a_killed_run_ends_bit_for_bit_as_an_unbroken_one(self, tmp_path: Path) -> None:
        data, x = moons()
        whole = fit(data, self.recipe(data), out=tmp_path / "whole", progress=False)
        count = 0

        def kill(_: Event) -> None:
            nonlocal count
            count += 1
            if count == 27:  # in the second network
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(data, self.recipe(data), out=tmp_path / "cut", callbacks=[kill], progress=False)
        again = fit(data, self.recipe(data), out=tmp_path / "cut", progress=False)
        assert torch.equal(predicted_log_proba(again.model, x), predicted_log_proba(whole.model, x))
        assert again.pool == whole.pool

    @pytest.mark.parametrize("damage", [None, b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
    def test_lost_logits_are_computed_again(self, tmp_path: Path, damage: bytes | None) -> None:
        data, x = moons()
        first = fit(data, self.recipe(data), out=tmp_path, progress=False)
        place = tmp_path / "complete_case-1" / FILE
        place.unlink() if damage is None else place.write_bytes(damage)
        again = fit(data, self.recipe(data), out=tmp_path, progress=False)
        assert torch.equal(predicted_log_proba(again.model, x), predicted_log_proba(first.model, x))
        assert again.pool == first.pool
