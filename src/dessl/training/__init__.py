"""The training engine: from a model, a surrogate, data and a plan to a trained model."""

from dessl.training.checkpoint import CheckpointError
from dessl.training.guard import DivergenceError
from dessl.training.member import Event, TrainResult
from dessl.training.plan import TrainPlan
from dessl.training.population import train_population
from dessl.training.progress import TensorBoard
from dessl.training.ranks import FailedRankError, LostRankError, process_group
from dessl.training.single import train
from dessl.training.stacked_runs import PopulationRun
from dessl.training.whole_step import WholeStep

__all__ = [
    "CheckpointError",
    "DivergenceError",
    "Event",
    "FailedRankError",
    "LostRankError",
    "PopulationRun",
    "TensorBoard",
    "TrainPlan",
    "TrainResult",
    "WholeStep",
    "process_group",
    "train",
    "train_population",
]
