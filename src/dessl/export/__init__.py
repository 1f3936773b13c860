"""Export: a trained model as one graph for other programs, in ONNX or PyTorch's own format."""

from dessl.export.files import Exported, export_model, serving_rows
from dessl.export.graphs import ExportError

__all__ = ["ExportError", "Exported", "export_model", "serving_rows"]
