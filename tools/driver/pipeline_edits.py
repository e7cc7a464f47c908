"""
Edits of a pipeline: passes put in, replaced and left out, and options of passes set.

An edit is plain text, parsed once, so that it can be a part of keys and of files. The
commands have a flag for each verb, and everything else the same words without dashes:

    --insert-after op-fuse-rows=my-pass{limit=3}
    insert-after op-fuse-rows=my-pass{limit=3}

Nothing here imports xDSL: a start from the cache reads edits, too. They are applied by
`edited_pipeline.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from penstock.tools.driver.errors import UsageError

VERBS: Mapping[str, tuple[str, str]] = {
    "insert-after": ("PASS=PASSES", "run passes after a pass of the pipeline"),
    "insert-before": ("PASS=PASSES", "run passes before a pass of the pipeline"),
    "replace": ("PASS=PASSES", "run passes in place of a pass of the pipeline"),
    "skip": ("PASS", "leave a pass of the pipeline out"),
    "set": ("PASS.OPTION=VALUE", "give an option of a pass of the pipeline a value"),
}
"""Each verb, with the form of its object and the sentence that help has for it."""


@dataclass(frozen=True)
class Edit:
    """An edit of a pipeline, by one of `VERBS`."""

    verb: str
    target: str
    """A pass of the pipeline, all of its occurrences or, as `job-clean#2`, one."""
    option: str = ""
    """The option of the pass, for `set`."""
    text: str = ""
    """The passes, or the value of the option, as text."""

    @property
    def object(self) -> str:
        """All but the verb, as the flag of a command takes it."""
        option = f".{self.option}" if self.option else ""
        return f"{self.target}{option}" + (f"={self.text}" if self.text else "")

    def __str__(self) -> str:
        return f"{self.verb} {self.object}"

    @property
    def flag(self) -> str:
        """The flag of a command, as a shell reads it."""
        return f"--{self.verb} {shlex.quote(self.object)}"


def edit_of(verb: str, text: str) -> Edit:
    """
    The edit of a verb and the text of its object. Raises UsageError for an unknown verb
    and for a text that is not of its form.
    """
    if verb not in VERBS:
        from difflib import get_close_matches

        close = get_close_matches(verb, VERBS, n=1)
        hint = f", did you mean '{close[0]}'?" if close else ""
        raise UsageError(f"unknown edit '{verb}'{hint} (known: {', '.join(VERBS)})")
    target, equals, rest = (part.strip() for part in text.strip().partition("="))
    option = ""
    if verb == "set":
        target, _, option = target.rpartition(".")
    is_whole = bool(target and (option or verb != "set"))
    if not is_whole or bool(equals and rest) is (verb == "skip"):
        raise UsageError(f"{verb} wants {VERBS[verb][0]}, got '{text}'")
    if verb == "skip" and equals:
        raise UsageError(f"{verb} wants {VERBS[verb][0]}, got '{text}'")
    return Edit(verb, target, option.replace("_", "-"), rest)


def parse_edit(text: str) -> Edit:
    """
    The edit in a text such as `skip op-fuse-rows`. Raises UsageError if there is none.
    """
    verb, _, rest = text.strip().partition(" ")
    return edit_of(verb.removeprefix("--"), rest)


def edits_of(given: Sequence[Edit | str]) -> tuple[Edit, ...]:
    """Edits, of which some are texts. Raises UsageError for a text that is none."""
    if isinstance(given, str):
        raise UsageError(f"edits are a list of texts, got '{given}'")
    for each in cast("Sequence[object]", given):
        if not isinstance(each, Edit | str):
            raise UsageError(f"edits are a list of texts, got {each!r}")
    return tuple(x if isinstance(x, Edit) else parse_edit(x) for x in given)
