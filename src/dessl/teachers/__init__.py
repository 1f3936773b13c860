"""Teachers: predictors that may use unlabelled rows, cross-fitted and pooled with the networks."""

from dessl.teachers.answers import Answers
from dessl.teachers.base import Teacher
from dessl.teachers.debiased_student import debiased_student
from dessl.teachers.student import learn_from_answers
from dessl.teachers.taught import Taught

__all__ = ["Answers", "Taught", "Teacher", "debiased_student", "learn_from_answers"]
