"""The teachers' answers to new rows, for a model that was trained to use them."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from dessl._checks import quoted
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.output import say
from dessl.cli.sources import kind_of
from dessl.data.errors import DataError, few
from dessl.data.formats.answers import in_rows_of, probability_columns, read_answers
from dessl.data.formats.tables import Table, open_table
from dessl.recipes.predictor import TaughtPredictor
from dessl.saved import SavedModel
from dessl.teachers import Answers
from dessl.teachers.answers import answered_by_any


def probabilities(
    model: SavedModel,
    source: str,
    x: Tensor,
    *,
    file: str | None = None,
    reading: Reading = AS_IT_IS,
    other_answers: str | None = None,
) -> Tensor:
    """Return probabilities (n, classes) of DATA, using the teachers' answers if the model does.

    Args:
        model: The model.
        source: DATA.
        x: Its rows.
        file: Table with the answers, for embeddings.
        reading: How the table is read; what it does not say is as in training.
        other_answers: As in :func:`answers_to`.
    """
    place = file if kind_of(source) == "npy" else source
    return model.predict_proba(
        x, answers_to(model, place, len(x), reading=reading, other_answers=other_answers)
    )


def check_listens(model: SavedModel) -> None:
    """Refuse answers to new rows for a model that was not trained to use them."""
    taught = model.model.taught if isinstance(model.model, TaughtPredictor) else None
    if taught is None or taught.listening is None:
        raise ValueError(
            "--answers is for a model that was fitted with --teacher-at-prediction, but this one "
            "was not. Fit again with it, or omit --answers."
        )


def answers_to(
    model: SavedModel,
    source: str | None,
    n_rows: int,
    *,
    reading: Reading = AS_IT_IS,
    other_answers: str | None = None,
) -> list[Answers] | None:
    """Read the teachers' answers to new rows, for a model that uses them; None for the student.

    Args:
        model: The model.
        source: A table of new rows, or of answers to new embeddings; None without a table.
        n_rows: Number of new rows.
        reading: How the table is read; what it does not say is as in training.
        other_answers: ``"missing"`` to treat answers that are not a class as no answer; by default
            as in training.
    """
    taught = model.model.taught if isinstance(model.model, TaughtPredictor) else None
    if taught is None or taught.listening is None:
        return None
    if taught.heard is None:
        predicts = "student" if taught.report.student.kept else "model without answers"
        say(
            "Note: this run does not use the answers to new rows (they gave no clear gain on gold "
            f"rows): the {predicts} predicts all rows."
        )
        return None
    if source is None:
        where = "--answers of dessl predict, --labels of dessl evaluate"
        say(f"Note: no table has answers to these rows ({where}): the student predicts alone.")
        return None
    table = open_table(source, **reading.like(model.encoding, source).options)
    columns = model.details["teachers"]
    absent = _absent(table, columns)
    for name in absent:
        _check_form(table, model, name)
    if len(absent) == len(columns):
        say(f"Note: {source} has no column {absent[0]!r}: the student predicts alone.")
        return None
    columns = {name: own for name, own in columns.items() if name not in absent}
    missing = model.details.get("missing_labels", ())
    if model.encoding is not None:
        missing = model.encoding.missing_labels
    other = other_answers or model.details.get("other_answers")
    cells = read_answers(table, columns, model.class_names, missing, other_answers=other)
    if model.encoding is None:
        cells = in_rows_of(table, cells, n_rows)
    if absent:
        named = few([quoted(name) for name in absent])
        say(f"Note: {source} has no answers of {named}: only those of the other teachers are used.")
    read = [Answers.of(one, model.class_names, name=name) for name, one in cells.items()]
    answered = answered_by_any(read)
    if bool(answered.all()):
        return read
    silent = f"{int((~answered).sum()):,} of {len(answered):,}"
    say(f"Note: {silent} rows have no answer: the student predicts them alone.")
    return read if bool(answered.any()) else None


def _absent(table: Table, columns: Mapping[str, Sequence[str]]) -> list[str]:
    """The teachers that have none of their columns in the table; some of them are an error."""
    absent = []
    for name, own in columns.items():
        lacking = [one for one in own if one not in table.columns]
        if lacking and len(lacking) < len(own):
            raise DataError.of(
                table.source,
                expected=f"all columns of the probabilities of {quoted(name)}, or none",
                got=f"no column {few([quoted(one) for one in lacking])}",
                do="Add it, or omit the others to predict without this teacher.",
            )
        if lacking:
            absent.append(name)
    return absent


def _check_form(table: Table, model: SavedModel, name: str) -> None:
    """Refuse a table with probabilities of a teacher that gave classes in training, or reversed."""
    own = model.details["teachers"][name]
    classes = list(own) == [name]
    other = [name]
    if classes:
        other = [
            next((one for one in probability_columns(name, c) if one in table.columns), "")
            for c in model.class_names
        ]
    features = set() if model.encoding is None else {one.name for one in model.encoding.columns}
    if any(one not in table.columns or one in features for one in other):
        return
    forms = ["classes", "probabilities"] if classes else ["probabilities", "classes"]
    raise DataError.of(
        table.source,
        expected=f"{forms[0]} of teacher {quoted(name)}, as in training, in "
        f"{few([quoted(one) for one in own])}",
        got=f"{forms[1]} in {few([quoted(one) for one in other])}",
        do=f"Pass {forms[0]}; or remove {few([quoted(one) for one in other])} to predict without "
        "this teacher.",
    )
