"""Docstrings as Markdown: doctests become code blocks, and Sphinx's roles become links."""

import re

from griffe import Extension, Object

ROLE = re.compile(r":(?:class|func|mod|meth|data|attr):`~?([\w.]+)`")
DOCTEST = re.compile(r"(?:^|(?<=\n))([ \t]*)>>> .*(?:\n[ \t]*\S.*)*")


def as_markdown(text: str) -> str:
    r"""A docstring's text with its doctests fenced and its roles as code.

    >>> print(as_markdown("As :func:`~dessl.entropy`.\n\n>>> 1 + 1\n2"))
    As `dessl.entropy`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = ROLE.sub(r"`\1`", text)
    return DOCTEST.sub(lambda match: _fenced(match[0], match[1]), text)


def _fenced(block: str, indent: str) -> str:
    return f"{indent}```pycon\n{block}\n{indent}```"


class Docstrings(Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: object) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
