"""Teachers: predictors that may use unlabelled rows, cross-fitted and pooled with the networks."""

from dessl.teachers.base import Teacher

__all__ = ["Teacher"]
