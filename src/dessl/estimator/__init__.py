"""The scikit-learn estimator; importing this imports scikit-learn."""

from dessl.estimator.classifier import DeSSLClassifier

__all__ = ["DeSSLClassifier"]
