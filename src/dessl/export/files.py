"""The files of an exported model: the graph, and a JSON description of its inputs and outputs."""

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._files import write_whole
from dessl._version import __version__
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table
from dessl.data.formats.folder import read_images
from dessl.data.formats.folder_files import every_image
from dessl.data.formats.frames import is_frame, read_frame
from dessl.data.formats.image_file import Colour
from dessl.export.graphs import ExportError, Probabilities, exported_members, probabilities_of
from dessl.recipes.predictor import AnyPredictor, Predictor, TaughtPredictor
from dessl.saved import SavedModel

Format = Literal["onnx", "pt2"]
VERSION = 1
ROWS = 64  # that the export is checked with
TOLERANCE = 1e-5  # of a probability
MOST_TIED = 0.01  # share of training rows, above which there is a warning
INPUT, OUTPUT = "rows", "probabilities"
OPSET = 18


class Exported(NamedTuple):
    """What was written.

    Attributes:
        path: The graph.
        description: JSON: the classes, the inputs, and how a table becomes rows.
        members: The members of the pool that are in the graph.
        difference: Largest difference from the model's own probabilities on the rows of the check.
        tied: Share of training rows with a tie for the last neighbour in a graph. Another program
            may choose the other neighbour and give a different prediction.
    """

    path: Path
    description: Path
    members: tuple[str, ...]
    difference: float
    tied: float


def export_model(
    path: str | Path,
    saved: SavedModel,
    *,
    format: Format | None = None,  # noqa: A002 (what it is called everywhere)
    networks_only: bool = False,
) -> Exported:
    """Write a model as one graph from rows to probabilities, checked against the model.

    The graph takes rows in the same form as in training: uint8 images (n, channels, height, width),
    or float32 numbers (n, features), which :func:`serving_rows` computes from a table.

    Args:
        path: The file, ending in ``.onnx`` or ``.pt2``; the description is written next to it, to
            the same name with ``.json`` appended.
        saved: The model.
        format: ``"onnx"`` (needs ``pip install 'dessl[onnx]'``) or ``"pt2"``
            (``torch.export``); taken from the file's name if not given.
        networks_only: Whether to export the networks of a pool without its teachers. Predictions
            then differ from the pool's.

    Raises:
        ExportError: A member of the pool cannot be exported, or predictions differ by more than
            1e-5.
    """
    place = Path(path)
    kind = format_of(place, format)
    graph = probabilities_of(saved.model, networks_only=networks_only)
    rows = check_rows(saved)
    content, answer = (_onnx if kind == "onnx" else _pt2)(graph, rows)
    reference = _reference(saved, networks_only=networks_only)
    compared = ~graph.tied(rows)
    difference = (answer.double() - reference.predict_proba(rows))[compared].abs()
    largest = float(difference.max()) if len(difference) else 0.0
    if not largest <= TOLERANCE:
        raise ExportError(
            f"the exported graph must match the model's predictions to {TOLERANCE:g}; got a "
            f"difference of {largest:.2g}. Nothing was written."
        )
    _warn_of_teachers(saved)
    members = exported_members(saved.model, networks_only=networks_only)
    details = place.with_name(f"{place.name}.json")
    found = Exported(place, details, members, largest, graph.tied_share())
    if kind == "onnx" and found.tied > MOST_TIED:
        warnings.warn(
            f"{100 * found.tied:.0f} % of the training rows have a tie for the last neighbour in "
            "the pool's graph, as is common in tables of categories. An ONNX runtime may choose "
            "the other neighbour and give a different prediction. Export to a .pt2 file, or "
            "without the graph.",
            UserWarning,
            stacklevel=2,
        )
    write_whole(place, content)
    write_whole(found.description, json.dumps(_description(saved, kind, found), indent=1) + "\n")
    return found


def _warn_of_teachers(saved: SavedModel) -> None:
    """Warn that a graph has no input for the answers that the model takes."""
    if isinstance(saved.model, TaughtPredictor):
        choice = saved.model.taught.report.with_answers
        if choice is not None and choice.kept:
            warnings.warn(
                "the graph is the student alone, without the teachers' answers that this model "
                "also takes. For predictions with answers, use dessl predict, or "
                "DeSSLClassifier.predict in Python.",
                UserWarning,
                stacklevel=3,
            )


def format_of(path: Path, given: Format | None) -> Format:
    """Return the given format, or that of the file's name.

    >>> format_of(Path("model.onnx"), None), format_of(Path("model"), "pt2")
    ('onnx', 'pt2')
    """
    known: dict[str, Format] = {".onnx": "onnx", ".pt2": "pt2"}
    kind = given or known.get(path.suffix.lower())
    if kind is None or kind not in known.values():
        raise ValueError(
            f"format must be 'onnx' or 'pt2'; got {kind or path.name!r}. Name the file model.onnx "
            "or model.pt2, or pass the format."
        )
    return kind


def serving_rows(description: str | Path, x: Any) -> NDArray[Any]:
    """Return rows in the form that an exported graph takes.

    Args:
        description: The JSON file next to the graph.
        x: A data frame with the columns of training, or the path of a table file; for a model of
            images, the path of an image or of a folder of images, which are read in the order of
            their paths.

    Returns:
        float32 (n, features), or for images uint8 (n, channels, height, width).

    Raises:
        ValueError: The file is not a description, or its model takes arrays.
    """
    place = Path(description)
    try:
        entries = json.loads(place.read_bytes())
        version, encoding = entries["version"], entries["encoding"]
        takes = entries["input"]
        is_image = version == VERSION and takes["type"] == "uint8"
        form = _ImageForm.of(takes) if is_image else None
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(
            f"{place}: expected the description that dessl export writes; got {str(error)[:60]!r}."
        ) from error
    is_file = isinstance(x, str | Path)
    if form is not None and is_file:
        return form.images(Path(x))
    if version != VERSION or encoding is None:
        what = "a model that takes arrays directly" if encoding is None else repr(version)
        raise ValueError(
            f"{place}: expected the description, of version {VERSION}, of a model trained on a "
            f"table; got {what}. For a model of images, pass the path of an image or a folder."
        )
    if not is_file and not is_frame(x):
        raise TypeError(
            f"x must be a data frame or the path of a table; got {type(x).__name__}. The columns "
            "are found by their names."
        )
    known = TableEncoding.from_dict(encoding, source=place)
    if is_file:
        return read_new_table(x, known, labels=False).x.numpy()
    return known.features(read_frame(x).table())


class _ImageForm(NamedTuple):
    """The form of images that a graph takes."""

    size: tuple[int, int]
    colour: Colour
    bits: int

    @classmethod
    def of(cls, takes: Any) -> Self:
        """As a description says it; LookupError, TypeError or ValueError if it does not."""
        channels, height, width = map(int, takes["shape"][1:])
        return cls((height, width), "grey" if channels == 1 else "rgb", int(takes["bits"]))

    def images(self, path: Path) -> NDArray[np.uint8]:
        """An image, or the images of a folder, in this form."""
        paths = every_image(path) if path.is_dir() else [path]
        return read_images(paths, size=self.size, colour=self.colour, bits=self.bits).x


def _preparation(saved: SavedModel) -> list[str]:
    """What to do with an image file, in order, to get a row of the graph."""
    channels, height, width = saved.shape
    turned = "grey (Pillow's mode L)" if channels == 1 else "RGB"
    return [
        "turn it upright by its EXIF orientation",
        f"if it has 16 bits per grey pixel, keep the upper 8 of its lower {saved.bits}: shift them "
        f"right by {saved.bits - 8}, and clip to 255",
        f"convert it to {turned}, dropping transparency",
        f"resize it to height {height}, width {width} with Pillow's bicubic filter",
        "put the channels first, and keep the values from 0 to 255",
    ]


def check_rows(saved: SavedModel) -> Tensor:
    """Return rows (64, ...) like those of training, for the comparison."""
    generator = torch.Generator().manual_seed(0)
    if saved.image:
        shape = (ROWS, *saved.shape)
        return torch.randint(256, shape, generator=generator, dtype=torch.uint8)
    drawn = torch.randn(ROWS, *saved.shape, generator=generator)
    model = saved.model
    if isinstance(model, TaughtPredictor):
        mean, scale = model.taught.space.mean, model.taught.space.scale
    else:
        networks = model if isinstance(model, Predictor) else model.networks
        mean, scale = networks.mean, networks.std
    return (mean.cpu() + scale.cpu() * drawn).float()


def _reference(saved: SavedModel, *, networks_only: bool) -> SavedModel:
    """The model whose predictions the graph must match."""
    if not networks_only or isinstance(saved.model, Predictor):
        return saved
    if isinstance(saved.model, TaughtPredictor):
        networks: AnyPredictor = TaughtPredictor(saved.model.taught.networks_alone())
    else:
        networks = saved.model.networks
    return SavedModel(networks, saved.class_names, saved.shape, image=saved.image)


def _description(saved: SavedModel, kind: Format, found: Exported) -> dict[str, Any]:
    encoding = saved.encoding
    return {
        "version": VERSION,
        "dessl": __version__,
        "format": kind,
        "input": {
            "name": INPUT,
            "type": "uint8" if saved.image else "float32",
            "shape": ["n", *saved.shape],
            "columns": None if encoding is None else list(encoding.feature_names),
            "bits": saved.bits,
            "resize": "Pillow, bicubic" if saved.image else None,
            "preparation": _preparation(saved) if saved.image else None,
        },
        "output": {"name": OUTPUT, "type": "float32", "shape": ["n", len(saved.class_names)]},
        "classes": list(saved.class_names),
        "members": list(found.members),
        "checked": {"rows": ROWS, "difference": found.difference, "tied": found.tied},
        "encoding": encoding and encoding.as_dict(),
    }


def _traced(graph: Probabilities, rows: Tensor) -> torch.export.ExportedProgram:
    n = torch.export.Dim("n", min=1)
    return torch.export.export(graph, (rows,), dynamic_shapes={INPUT: {0: n}}, strict=False)


def _pt2(graph: Probabilities, rows: Tensor) -> tuple[bytes, Tensor]:
    with _exporting(), torch.no_grad():
        program = _traced(graph, rows)
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        answer: Tensor = program.module()(rows)
    return buffer.getvalue(), answer


def _onnx(graph: Probabilities, rows: Tensor) -> tuple[bytes, Tensor]:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 (torch.onnx needs it)
    except ImportError as error:
        raise ImportError(
            "ONNX needs onnx, onnxscript and onnxruntime. Install them with pip install "
            "'dessl[onnx]', or export to a .pt2 file."
        ) from error
    with _exporting(), torch.no_grad():
        program = torch.onnx.export(
            _traced(graph, rows),
            input_names=[INPUT],
            output_names=[OUTPUT],
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
        if program is None:
            raise RuntimeError("no graph was made")
        content = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    (answer,) = session.run([OUTPUT], {INPUT: rows.numpy()})
    return content, torch.from_numpy(np.asarray(answer))


@contextmanager
def _exporting() -> Iterator[None]:
    """Silence the exporters, and convert their failures to a one-sentence error."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:200]
        raise ExportError(
            f"this model cannot be exported: {type(error).__name__}, {first}. torch.export must "
            "be able to trace your network."
        ) from error
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)
