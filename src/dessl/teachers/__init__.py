"""Teachers: predictors that may use unlabelled rows, cross-fitted and pooled with the networks."""

from dessl.teachers.base import State, Teacher
from dessl.teachers.boosting import Boosting
from dessl.teachers.classifiers import FromClassifier
from dessl.teachers.crossfit import out_of_fold
from dessl.teachers.families import DEFAULT, KINDS
from dessl.teachers.graph import Graph
from dessl.teachers.kernel import Kernel
from dessl.teachers.linear import Linear
from dessl.teachers.pool import PoolWeights, fit_pool
from dessl.teachers.pooling import Pooled, pooled
from dessl.teachers.report import Gain, Member, PoolReport
from dessl.teachers.selection import selected_by_others
from dessl.teachers.trees import Trees

__all__ = [
    "DEFAULT",
    "KINDS",
    "Boosting",
    "FromClassifier",
    "Gain",
    "Graph",
    "Kernel",
    "Linear",
    "Member",
    "PoolReport",
    "PoolWeights",
    "Pooled",
    "State",
    "Teacher",
    "Trees",
    "fit_pool",
    "out_of_fold",
    "pooled",
    "selected_by_others",
]
