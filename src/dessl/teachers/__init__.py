"""Teachers: predictors that may use unlabelled rows, cross-fitted and pooled with the networks."""

from dessl.teachers.answers import Answers
from dessl.teachers.base import State, Teacher
from dessl.teachers.boosting import Boosting
from dessl.teachers.classifiers import FromClassifier
from dessl.teachers.crossfit import out_of_fold, selected_by_others
from dessl.teachers.debiased_student import DebiasedStudent, debiased_student
from dessl.teachers.families import DEFAULT, KINDS, default_teachers
from dessl.teachers.fold_networks import NetworkSetting
from dessl.teachers.gaussians import Gaussians
from dessl.teachers.graph import Graph
from dessl.teachers.kernel import Kernel
from dessl.teachers.linear import Linear
from dessl.teachers.patches import Patches
from dessl.teachers.pool import PoolWeights, fit_pool
from dessl.teachers.pooling import Pooled, pooled
from dessl.teachers.relative_slope import RelativeSlope, relative_slope
from dessl.teachers.report import Gain, Member, PoolReport
from dessl.teachers.sparse import Sparse
from dessl.teachers.student import learn_from_answers
from dessl.teachers.taught import Taught
from dessl.teachers.taught_report import TaughtReport
from dessl.teachers.trees import Trees

__all__ = [
    "DEFAULT",
    "KINDS",
    "Answers",
    "Boosting",
    "DebiasedStudent",
    "FromClassifier",
    "Gain",
    "Gaussians",
    "Graph",
    "Kernel",
    "Linear",
    "Member",
    "NetworkSetting",
    "Patches",
    "PoolReport",
    "PoolWeights",
    "Pooled",
    "RelativeSlope",
    "Sparse",
    "State",
    "Taught",
    "TaughtReport",
    "Teacher",
    "Trees",
    "debiased_student",
    "default_teachers",
    "fit_pool",
    "learn_from_answers",
    "out_of_fold",
    "pooled",
    "relative_slope",
    "selected_by_others",
]
