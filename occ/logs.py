"""What a line of the log may hold of a key: clients can choose keys, and must not write lines of their own."""

from __future__ import annotations


def one_line(value: object) -> str:
    """Return ``value`` as text, with line ends, terminal codes and all else that does not print escaped."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
