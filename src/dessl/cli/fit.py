"""``dessl fit``: train with and without unlabelled data, and report whether it helped."""

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from dessl.cli.options import (
    HOLD_OUT,
    AsJson,
    Categorical,
    DataArgument,
    Device,
    Encoding,
    Ignore,
    Missing,
    OtherAnswers,
    Seed,
    Sheet,
    Size,
    SkipDamaged,
)

MOST_NETWORKS = 5  # dessl.recipes.defaults.NETWORKS
MARGIN = 0.01  # dessl.evaluation.verdict.MARGIN

Out = Annotated[Path, Option(metavar="RUN", help="Folder for the run.")]
Label = Annotated[
    str | None, Option(help="Column with the labels, in a table or a file of labels.")
]
MissingLabel = Annotated[
    list[str] | None,
    Option(
        metavar="MARK",
        help="Text that marks a missing label, in addition to an empty cell; repeatable.",
    ),
]
AllClasses = Annotated[
    bool,
    Option("--no-missing-label", help="Treat labels such as NA and ? as classes, without asking."),
]
Labels = Annotated[
    str | None,
    Option(
        metavar="N|FILE",
        help="A number: keep this many labels, drawn at random, and hide the rest. A file: the "
        "labels of .npy files, or a table with the file names of images and their labels.",
    ),
]
SurrogateName = Annotated[
    str | None,
    Option(
        help="Train on the debiased risk with this surrogate, without a pool: a name in "
        "dessl.SURROGATES, except combine, smooth and teacher, which need more than a name. "
        "If a surrogate is needed, the default is pseudo_label.",
        show_default=False,
    ),
]
Teacher = Annotated[
    list[str] | None,
    Option(
        metavar="COLUMN",
        help="Column with a teacher's answers to all rows, which may be wrong: classes, or the "
        "prefix of probability columns named COLUMN(class) or COLUMN_class; repeatable.",
    ),
]
AtPrediction = Annotated[
    bool,
    Option(
        "--teacher-at-prediction", help="The teachers will also answer new rows at prediction time."
    ),
]
Pool = Annotated[
    bool | None,
    Option(
        help="Combine the networks with other predictors (a graph over all rows, Gaussians, trees, "
        "a kernel, logistic regression), weighted on held-out labels. Default: on, but off with "
        "--surrogate, --lam or --risk.",
        show_default=False,
    ),
]
LamText = Annotated[
    str, Option(help="Weight λ of the unlabelled rows, or 'auto' to choose it on held-out labels.")
]
RiskName = Annotated[
    Literal["debiased", "ssl"],
    Option(help="Train on the debiased risk, or on the standard, biased one (ssl)."),
]
PropensityName = Annotated[
    str | None,
    Option(
        "--propensity",
        metavar="COLUMN|estimate-x|estimate-y",
        help="For labels that are not missing at random: the column with each row's probability of "
        "being labelled, or estimate it from the features (estimate-x) or the class (estimate-y).",
    ),
]
Group = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient's: they are held out "
        "together, and intervals allow for their correlation. It is not a feature. For a folder of "
        "images: a regular expression, whose match in the file name is the same for such images.",
    ),
]
TestFile = Annotated[
    str | None, Option(help="File of test rows. Default: hold out some rows of DATA.")
]
HoldOut = Annotated[
    float, Option(min=0.01, max=0.9, help="Share of the rows to hold out for evaluation.")
]
Steps = Annotated[int | None, Option(min=1, help="Training steps of each network.")]
Networks = Annotated[
    int | None,
    Option(
        min=1,
        max=MOST_NETWORKS,
        help="Networks to average. Default: 5, or 1 for colour images above 16 pixels a side and "
        "for images on a GPU.",
    ),
]
Margin = Annotated[
    float,
    Option(
        min=0,
        help="Treat differences in Brier score up to this size as no practical difference.",
    ),
]
Refit = Annotated[
    bool,
    Option(help="Retrain the winner on all labels, including the held-out ones."),
]
Safe = Annotated[
    bool,
    Option(help="Do not use a model that held-out labels show to be worse than the complete case."),
]
Stream = Annotated[
    bool | None,
    Option(
        help="Keep most unlabelled rows on disk: networks read them during training, and teachers "
        "learn from 50,000 of them. Default: on for a CSV or Parquet file above 128 MiB, a .npy "
        "file above 1 GiB, or a folder of more than 100,000 unlabelled images.",
        show_default=False,
    ),
]
Resume = Annotated[bool, Option(help="Resume an unfinished run in RUN.")]


def fit(
    data: DataArgument,
    out: Out,
    label: Label = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    missing_label: MissingLabel = None,
    all_classes: AllClasses = False,
    sheet: Sheet = None,
    encoding: Encoding = None,
    missing: Missing = None,
    size: Size = None,
    skip_damaged: SkipDamaged = False,
    labels: Labels = None,
    teacher: Teacher = None,
    teacher_at_prediction: AtPrediction = False,
    other_answers: OtherAnswers = None,
    pool: Pool = None,
    surrogate: SurrogateName = None,
    lam: LamText = "auto",
    risk: RiskName = "debiased",
    propensity: PropensityName = None,
    group: Group = None,
    test_file: TestFile = None,
    hold_out: HoldOut = HOLD_OUT,
    steps: Steps = None,
    networks: Networks = None,
    margin: Margin = MARGIN,
    safe: Safe = True,
    refit: Refit = True,
    stream: Stream = None,
    seed: Seed = 0,
    device: Device = "auto",
    resume: Resume = True,
    as_json: AsJson = False,
) -> None:
    """Train with and without the unlabelled rows, and report which is better.

    By default, networks trained on the labelled rows are pooled with other
    predictors, two of which (graph and gaussians) use all rows.

    Unlabelled rows have an empty cell in the label column, -1 in y of an npz
    file, or lie in the folder "unlabelled".

    Example: dessl fit people.csv --label outcome --out runs/people

    Example: dessl fit scans/ --surrogate fixmatch --lam 0.5 --out runs/scans

    Example: dessl fit answers.csv --label gold --teacher llm_label --out runs/answers

    Example: dessl fit mnist --labels 1000 --out runs/mnist-1000

    Example: dessl fit vectors.npy --labels labels.csv --out runs/vectors
    """
    options = dict(locals())
    from dessl.cli.fit_run import fit_data, run_identity

    if Path(data).is_dir() and out.resolve().is_relative_to(Path(data).resolve()):
        raise ValueError(
            f"--out {out} lies within {data}, where every folder is a class. Choose a folder "
            "elsewhere."
        )
    identity = run_identity(options)
    if teacher or teacher_at_prediction or other_answers:
        _fit_taught(options, identity)
    else:
        fit_data(options, identity)


def _fit_taught(options: dict[str, Any], identity: dict[str, Any]) -> None:
    from dessl.cli.teaching import check_alone, fit_taught
    from dessl.training.ranks import from_first

    if not options["teacher"]:
        given = "--teacher-at-prediction" if options["teacher_at_prediction"] else "--other-answers"
        raise ValueError(f"{given} needs --teacher. Pass --teacher COLUMN.")
    defaults = {name: one.default for name, one in inspect.signature(fit).parameters.items()}
    check_alone(options, defaults)
    from_first(lambda: fit_taught(options, identity))  # too short to be worth sharing
