"""What a report says of a data set."""

from dessl.data import SemiData
from dessl.report.facts import DataFacts


def data_facts(data: SemiData, *, test: int, test_unlabelled: int = 0) -> DataFacts:
    """Return the facts of a data set whose labels were drawn.

    Args:
        data: As it was trained on.
        test: Labelled rows that were looked at once, at the end.
        test_unlabelled: Rows without a label beside them.

    >>> import torch
    >>> facts = data_facts(SemiData(torch.rand(5, 2), [0, 1, -1, -1, -1], name="few"), test=3)
    >>> facts.labelled, facts.unlabelled, facts.class_names, facts.shape
    (2, 3, ('0', '1'), (2,))
    """
    encoding = data.encoding
    return DataFacts(
        name=data.name,
        rows=len(data),
        labelled=data.n_labelled,
        unlabelled=data.n_unlabelled,
        validation=0 if data.validation is None else len(data.validation.y),
        test=test,
        test_unlabelled=test_unlabelled,
        class_names=tuple(data.class_names),
        shape=tuple(data.x.shape[1:]),
        feature_names=encoding.feature_names if encoding else (),
        left_out=dict(encoding.left_out) if encoding else {},
    )
