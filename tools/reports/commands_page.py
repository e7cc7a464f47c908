"""
The page of all commands, `docs/commands.md`: their flags, made from their parsers.
"""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action

from penstock.tools.cli.command_parser import CommandParser
from penstock.tools.cli.parsers import parsers
from penstock.tools.reports.markdown import HEADING, Lines, table

_INTRODUCTION = """\
All commands take `-` for the standard input. They print what was asked for (IR, tables,
reports, JSON) on stdout, and diagnostics, progress, times, statistics and logs on
stderr. With `--json` every report and table is JSON.

| exit code | what it means |
|---|---|
| 0 | all went well, and every check has passed |
| 1 | a file does not hold what it should, or a run, a check or a search has failed |
| 2 | a bad command line, which may name a file that cannot be opened or written |
| 70 | a defect of Penstock; `--debug` shows the traceback |
| 130 | Ctrl-C |

An unknown flag, value, pass, pipeline or option is one line, with the nearest name that
is known and the command that lists all. Flags of `mlir-opt` have its spelling, and one
without `mlir-`. Shells complete flags and values:

```console no-run
$ eval "$(penstock-opt --completion bash)"
$ penstock-opt --completion zsh > "${fpath[1]}/_penstock-opt"
$ penstock-opt --completion fish > ~/.config/fish/completions/penstock-opt.fish
```

[Find the stage that is wrong](debugging.md) shows what flags about passes are for."""


def commands_page() -> str:
    """The page of all commands."""
    lines = [HEADING, "", "# Commands", "", _INTRODUCTION, ""]
    for name, parser in parsers().items():
        lines += [f"## {name}", "", *_section(parser)]
    return "\n".join(lines).rstrip() + "\n"


def _section(parser: CommandParser) -> Lines:
    if parser.description:
        yield from (parser.description, "")
    (_, first), (_, second), *others = parser.groups()
    for title, actions in (("", [*first, *second]), *others):
        rows = [_row(parser, action) for action in actions if action.help != SUPPRESS]
        if title and rows:
            yield from (f"### {parser.prog}: {title}", "")
        yield from table(("argument", "what it does"), rows)


def _row(parser: CommandParser, action: Action) -> tuple[str, str]:
    # xDSL lists all names, of plug-ins too, where there are commands for that.
    text = (action.help or "").partition(". Available")[0]
    values = vars(action) | {"prog": parser.prog}
    shown = re.sub(r"(?<!%)%(?!\()", "%%", text) % values
    return f"`{_spelling(action)}`", " ".join(shown.split())


def _spelling(action: Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + (f" {value}" if value else "")


def _value(action: Action) -> str:
    if action.nargs == 0:
        return ""
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()
