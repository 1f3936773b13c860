"""What cannot be used with a teacher's answers, why, and what to do instead."""


def refused_groups(
    groups: str = "groups",
    teachers: str = "teachers' answers",
    evaluate: str = "estimate_metric(..., groups=)",
) -> str:
    """Why rows that belong together cannot be used with answers, and what to do instead.

    One gold row in each group would not be enough: students learn from the answers to the group's
    other rows too.

    Args:
        groups: What the user calls the groups.
        teachers: What the user calls the answers.
        evaluate: How to evaluate with groups.
    """
    return (
        f"{groups} cannot be used with {teachers}: folds are of rows, and students learn from the "
        "answers to all unlabelled rows, so rows of one group would be used for training and for "
        "evaluation. The accuracy and the gain from the answers would be too high for new groups, "
        f"also if you omit {groups}. Keep only one row of each group; or fit without {teachers}; "
        f"or omit {groups}, and rely only on {evaluate} with labelled rows of new groups."
    )


def refused_propensity(
    propensity: str = "propensity",
    teachers: str = "teachers' answers",
    evaluate: str = "estimate_metric(..., propensity=)",
) -> str:
    """Why labelling probabilities cannot be used with answers, and what to do instead.

    Args:
        propensity: What the user calls the probabilities.
        teachers: What the user calls the answers.
        evaluate: How to evaluate with them.
    """
    return (
        f"{propensity} cannot be used with {teachers}: the student and its evaluation need gold "
        "labels drawn at random from all rows. Without that, the results are biased, also if you "
        f"omit {propensity}. Draw gold labels at random; or fit without {teachers}; or, for an "
        f"unbiased evaluation of this student, use {evaluate} on rows that it was not trained on."
    )
