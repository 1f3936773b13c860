"""scikit-learn's way in; importing this imports scikit-learn."""

from dessl.estimator.classifier import DeSSLClassifier

__all__ = ["DeSSLClassifier"]
