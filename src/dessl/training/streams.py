"""A run's two streams of rows, drawn as its plan says."""

from dessl.data import Batches, SemiData
from dessl.training.plan import TrainPlan


def streams(data: SemiData, plan: TrainPlan) -> Batches:
    """Return the batches of a run from its first step on."""
    return Batches(
        data,
        plan.labelled_batch,
        plan.drawn_unlabelled,
        seed=plan.seed,
        include_labelled=plan.include_labelled,
    )
