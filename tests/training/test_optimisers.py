"""Which weights decay."""

from torch import nn

from dessl.training.optimisers import decays


def test_normalisation_does_not_decay_whatever_its_shape() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm((4, 3)), nn.BatchNorm1d(4))
    decayed, other = decays(model)
    assert [id(p) for p in decayed] == [id(model[0].weight)]
    assert len(other) == 5
