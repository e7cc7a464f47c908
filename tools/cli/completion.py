"""
Scripts that complete the arguments of a command in bash, zsh and fish, made from its
parser.
"""

from __future__ import annotations

import re
from argparse import Action
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.tools.cli.command_parser import CommandParser

_NOT_FILES = re.compile(r"^(NAME|N|SEED|SECONDS|ERROR|P|PASS|TEXT|PIPELINE)\b")


@dataclass(frozen=True)
class Flag:
    """An option of a command, as shells have to know it."""

    names: tuple[str, ...]
    text: str
    takes: str
    """One of: `nothing`, `word`, `list`, `file`, `text`."""
    words: tuple[str, ...] = ()


def flags_of(parser: CommandParser) -> list[Flag]:
    """The options of a command."""
    return [
        _flag_of(action, parser.names)
        for action in parser.actions()
        if action.option_strings
    ]


def _flag_of(action: Action, listed_by: Mapping[str, tuple[str, ...]]) -> Flag:
    names = tuple(action.option_strings)
    text = (action.help or "").partition(";")[0].replace("%(default)s", "")
    words = tuple(map(str, action.choices or ()))
    listed = next((listed_by[name] for name in names if name in listed_by), ())
    if action.nargs == 0:
        return Flag(names, text, "nothing")
    if words:
        return Flag(names, text, "word", words)
    if listed:
        return Flag(names, text, "list", listed)
    metavar = str(action.metavar or action.dest.upper())
    is_file = action.type is Path or not _NOT_FILES.match(metavar)
    return Flag(names, text, "file" if is_file else "text")


def script_for(shell: str, parser: CommandParser) -> str:
    """The script for `bash`, `zsh` or `fish`."""
    makers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    return "".join(f"{x}\n" for x in makers[shell](parser.prog, flags_of(parser)))


def _bash(program: str, flags: list[Flag]) -> Iterator[str]:
    function = "_" + program.replace("-", "_")
    every = " ".join(name for flag in flags for name in flag.names)
    yield f'# eval "$({program} --completion bash)"'
    yield f"{function}() {{"
    yield '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"'
    # Bash takes `=` for a word of its own.
    yield '  if [ "$cur" = "=" ]; then cur=""; '
    yield '  elif [ "$prev" = "=" ]; then prev="${COMP_WORDS[COMP_CWORD-2]}"; fi'
    yield '  local done=""; case "$cur" in *,*) done="${cur%,*},";; esac'
    yield '  case "$prev" in'
    for flag in flags:
        if flag.takes == "nothing":
            continue
        yield f"    {'|'.join(flag.names)})"
        yield f"      {_bash_words(flag)}; return;;"
    yield "  esac"
    yield '  case "$cur" in'
    yield f'    -*) COMPREPLY=($(compgen -W "{every}" -- "$cur")); return;;'
    yield "  esac"
    yield '  COMPREPLY=($(compgen -f -- "$cur"))'
    yield "}"
    yield f"complete -o filenames -F {function} {program}"


def _bash_words(flag: Flag) -> str:
    words = " ".join(flag.words)
    match flag.takes:
        case "word":
            return f'COMPREPLY=($(compgen -W "{words}" -- "$cur"))'
        case "list":
            compgen = f'compgen -P "$done" -W "{words}" -- "${{cur##*,}}"'
            return f"COMPREPLY=($({compgen})); compopt -o nospace"
        case "file":
            return 'COMPREPLY=($(compgen -f -- "$cur"))'
        case _:
            return "COMPREPLY=()"


def _zsh(program: str, flags: list[Flag]) -> Iterator[str]:
    yield f"#compdef {program}"
    yield "_arguments -s \\"
    for flag in flags:
        text = _quoted(re.sub(r"([\[\]:\\])", r"\\\1", flag.text))
        for name in flag.names:
            sign = "=" if name.startswith("--") and flag.takes != "nothing" else ""
            # Shells join what is quoted apart.
            yield f"  {name}{sign}'['{text}']{_zsh_value(flag)}' \\"
    yield "  '*:file:_files'"


def _zsh_value(flag: Flag) -> str:
    words = " ".join(flag.words)
    match flag.takes:
        case "nothing":
            return ""
        case "word":
            return f":value:({words})"
        case "list":
            return f":names:_values -s , name {words}"
        case "file":
            return ":file:_files"
        case _:
            return ":text: "


def _fish(program: str, flags: list[Flag]) -> Iterator[str]:
    for flag in flags:
        names = " ".join(
            f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
            for name in flag.names
        )
        text = f"{_fish_value(flag)} -d {_quoted(flag.text)}"
        yield f"complete -c {program} {names}{text}"


def _fish_value(flag: Flag) -> str:
    words = " ".join(flag.words)
    match flag.takes:
        case "nothing":
            return ""
        case "word":
            return f" -x -a '{words}'"
        case "list":
            return f" -x -a '(__fish_complete_list , \"printf %s\\\\n {words}\")'"
        case "file":
            return " -r -F"
        case _:
            return " -x"


def _quoted(text: str) -> str:
    """A text in single quotes, on one line."""
    return "'" + " ".join(text.split()).replace("'", "'\\''") + "'"
