"""The documentation: generated pages are current, and what it shows is so."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, NamedTuple

import pytest
from forked_tool import ForkedCommands, can_fork, scripts_of_project
from xdsl.traits import HasParent
from xdsl.utils.exceptions import ParseError, VerifyException

from penstock.dialects import get_all_dialects
from penstock.dialects.kernel.body_ops import InStructuredOp
from penstock.dialects.op.body import InBody
from penstock.plugins import KINDS
from penstock.tools.reports import docs

ROOT = Path(__file__).parents[4]
INSTALL = ROOT / "test" / "plugin" / "install.py"

GENERATED_PAGES = ("passes.md", "api.md", "commands.md", "benchmarks.md")

# Generated pages


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    docs.main([str(folder)])
    return folder


@pytest.mark.parametrize(
    "name",
    [*(f"dialects/{name}.md" for name in get_all_dialects()), *GENERATED_PAGES],
)
def test_a_generated_page_is_current(name: str, made: Path) -> None:
    current = (ROOT / "docs" / name).read_bytes()
    assert (made / name).read_bytes() == current, "run make docs"


def test_no_generated_page_is_left_over(made: Path) -> None:
    names = {path.name for path in (made / "dialects").iterdir()}
    assert {path.name for path in (ROOT / "docs" / "dialects").iterdir()} == names


@pytest.mark.slow
def test_pages_do_not_depend_on_hashes(made: Path, tmp_path: Path) -> None:
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    subprocess.run(
        [sys.executable, "-m", "penstock.tools.reports.docs", str(tmp_path)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        check=True,
        timeout=300,
    )
    for path in made.rglob("*.md"):
        other = tmp_path / path.relative_to(made)
        assert other.read_bytes() == path.read_bytes()


def test_links_within_a_page_lead_to_its_headings(made: Path) -> None:
    for page in made.rglob("*.md"):
        text = page.read_text()
        anchors = [
            re.sub(r"[^a-z0-9_-]", "", heading.lower().replace(" ", "-"))
            for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        ]
        for link, number in re.findall(r"\(#([a-z0-9_]+)(?:-(\d+))?\)", text):
            assert anchors.count(link) > int(number or 0), (page.name, link)


@pytest.mark.parametrize("dialect", get_all_dialects())
def test_each_op_has_examples_that_are_valid(dialect: str) -> None:
    for operation in get_all_dialects()[dialect]().operations:
        examples = docs.examples_of(operation)
        assert examples, f"{operation.name} has no example"
        for text in examples:
            module = docs.read_example(text)
            inside = any(isinstance(op, operation) for op in module.walk())
            assert inside, f"the example of {operation.name} is of another op"
            # What has a parent is verified in the example of that one.
            parents = HasParent, InBody, InStructuredOp
            if not any(isinstance(trait, parents) for trait in operation.traits):
                module.verify()


def test_an_example_that_is_no_ir_is_found() -> None:
    with pytest.raises(ParseError):
        docs.read_example("%y = op.relu %x tensor<4xf32>")


def test_an_example_that_does_not_verify_is_found() -> None:
    module = docs.read_example("%y = op.relu %x : tensor<4xf32> -> tensor<5xf32>")
    with pytest.raises(VerifyException, match="result's type should be tensor<4xf32>"):
        module.verify()


# What documents show


class Block(NamedTuple):
    """A fenced block: what its first line says after the backticks, its text."""

    kind: str
    words: tuple[str, ...]
    text: str
    line: int


_FENCE = re.compile(r"^```(\S*)(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    for found in _FENCE.finditer(text):
        kind, words, content = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        yield Block(kind, tuple(words.split()), content, line)


class Shell:
    """Runs the commands of a document in a folder, with a `pip` that needs no net."""

    def __init__(self, folder: Path, tools: Path, forked: ForkedCommands):
        self.folder = folder
        self._forked = forked
        self._site = site = tools / "site"
        site.mkdir(parents=True)
        pip = tools / "pip"
        pip.write_text(
            f'#!/bin/sh\nexec "{sys.executable}" "{INSTALL}" "{site}" "$@"\n'
        )
        pip.chmod(pip.stat().st_mode | stat.S_IXUSR)
        for name, target in scripts_of_project().items():
            # An environment may be older than a command.
            if not (Path(sys.executable).parent / name).exists():
                write_launcher(tools / name, *target.split(":"))
        paths = str(tools), str(Path(sys.executable).parent), os.environ["PATH"]
        modules = str(site), *filter(None, [os.environ.get("PYTHONPATH")])
        self._environment = {
            **os.environ,
            "PATH": os.pathsep.join(paths),
            "PYTHONPATH": os.pathsep.join(modules),
            "COLUMNS": "80",
        }

    def run(self, command: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints on either stream."""
        head, pipe, rest = command.replace("\\\n", " ").partition(" | ")
        words = plain_words(head)
        if not can_fork(words) or any(self._site.iterdir()):
            return self._run(command, subprocess.DEVNULL)
        output = self._site.with_name("output")
        code = self._forked.run(words, self.folder, self._environment, output)
        if not pipe:
            return code, output.read_text(encoding="utf-8")
        with output.open(encoding="utf-8") as source:
            return self._run(rest, source)

    def _run(self, command: str, source: IO[str] | int) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
        return done.returncode, done.stdout


def write_launcher(path: Path, module: str, function: str) -> None:
    """Write a program that calls a function."""
    text = f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n"
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def plain_words(command: str) -> list[str]:
    """The words of a command without anything that only a shell does; else none."""
    tokens = shlex.shlex(command, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    words = list(tokens)
    is_plain = not any(set(word) & set("|&;<>()$`*?~") for word in words)
    return words if is_plain else []


def follow(document: str, shell: Shell, *, renew: bool = False) -> str:
    """
    Do what a document shows, from top to bottom, and return it; to `renew` it, other
    output takes the place of what is shown instead of being an error.

    A block with a file name is written to that file, `console` blocks are run: each
    command must print what follows it and succeed, or fail in a block marked `fails`.
    Blocks that are marked `no-run` are left out.
    """
    for block in blocks_of(document):
        if "no-run" in block.words:
            continue
        if block.kind == "console":
            for command, expected in commands_of(block.text):
                code, output = shell.run(command)
                where = f"line {block.line}: $ {command}\n{output}"
                assert (code != 0) == ("fails" in block.words), where
                if matches(expected, output):
                    continue
                assert renew, f"{where}\nexpected:\n{expected}"
                shown = f"$ {command}{expected}"
                document = document.replace(shown, f"$ {command}{output.rstrip()}\n", 1)
        elif block.words:
            path = shell.folder / block.words[0]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text)
    return document


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and the lines that follow it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        last = next(i for i, line in enumerate(lines) if not line.endswith("\\\n"))
        yield "".join(lines[: last + 1]), "".join(lines[last + 1 :])


_VARYING = re.compile(r"\d+(?:\\\.\d+)?(?=\\ m?s\b)|\d\\\.\d\de[+\\-]+\d\d")
"""Seconds and errors in an escaped line: they differ from one machine to the next."""


def matches(expected: str, output: str) -> bool:
    """
    Whether lines are as expected, where `...` stands for any text of a line, and a
    line that is `...` for any lines. Times and errors may be any numbers, and empty
    lines at the end do not count.
    """
    pattern = "".join(map(pattern_of, expected.rstrip("\n").splitlines()))
    # Where the executor was not in the cache yet.
    output = re.sub(r" \(\d+\.\d+ s of it for parts of penstock[^)]*\)", "", output)
    lines = "".join(f"{line}\n" for line in output.rstrip("\n").splitlines())
    return re.fullmatch(pattern, lines) is not None


def pattern_of(line: str) -> str:
    """A regular expression for what a line of a document allows."""
    if line.strip() == "...":
        return r"(?:.*\n)*"
    text = _VARYING.sub(r"[-+.0-9e]+", re.escape(line))
    return text.replace(r"\.\.\.", ".*") + r"\n"


@pytest.mark.parametrize(
    ("expected", "output"),
    [
        ("run 1.463 ms", "run 20.5 ms"),
        ("load 1.21 s, run 45.298 ms\n", "load 12.00 s, run 1.2 ms\n"),
        ("differs by 2.38e-07", "differs by 0.00e+00"),
    ],
)
def test_figures_that_vary(expected: str, output: str) -> None:
    assert matches(expected, output)
    assert matches(output, expected)


def test_other_figures_must_be_right() -> None:
    assert not matches("3 tasks, 1.5 KiB", "3 tasks, 1.6 KiB")
    assert not matches("3 tasks, 1.5 ms", "4 tasks, 1.5 ms")


@pytest.mark.parametrize(
    "expected",
    [
        "one\ntwo 2 three\nfour\n",
        "one\ntwo ... three\nfour\n",
        "...\nfour\n",
        "one\n...\n",
        "...\n",
    ],
)
def test_output_that_matches(expected: str) -> None:
    assert matches(expected, "one\ntwo 2 three\nfour\n\n")


@pytest.mark.parametrize(
    "expected",
    ["one\n", "two\n...\n", "one\ntwo ...\n", "one ... four\n", "...\nthree\n", ""],
)
def test_output_that_does_not_match(expected: str) -> None:
    assert not matches(expected, "one\ntwo 2 three\nfour\n")


def test_commands_may_go_over_several_lines() -> None:
    text = "$ one \\\n    --more\nout 1\nout 2\n$ two\n"
    assert list(commands_of(text)) == [
        ("one \\\n    --more\n", "out 1\nout 2\n"),
        ("two\n", ""),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ echo a\nb\n```\n", r"expected:\s+b"),
        ("```console\n$ exit 3\n```\n", r"line 1: \$ exit 3"),
        ("\n```console fails\n$ true\n```\n", r"line 2: \$ true"),
        ("```text name.txt\na\n```\n```console\n$ cat name.txt\nb\n```\n", "expected"),
    ],
)
def test_a_document_that_is_wrong_is_found(
    text: str, message: str, tmp_path: Path, forked: ForkedCommands
) -> None:
    shell = Shell(tmp_path, tmp_path / "tools", forked)
    with pytest.raises(AssertionError, match=message):
        follow(text, shell)


def documents() -> list[str]:
    """The documents that people write, by their paths."""
    folders = (
        *("*.md", "docs/*.md", "docs/architecture/*.md", "docs/guides/*.md"),
        *("docs/plugins/*.md", "examples/*.md"),
    )
    written = {path for pattern in folders for path in ROOT.glob(pattern)}
    made = {ROOT / "docs" / name for name in GENERATED_PAGES}
    return sorted(str(path.relative_to(ROOT)) for path in written - made)


@pytest.mark.slow
@pytest.mark.parametrize("name", documents())
def test_a_document_shows_what_happens(
    name: str, tmp_path: Path, forked: ForkedCommands
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    if name != "docs/tutorial.md":
        (folder / "examples").symlink_to(ROOT / "examples")
    shell = Shell(folder, tmp_path / "tools", forked)
    renew = "RENEW_DOCUMENTS" in os.environ
    document = follow((ROOT / name).read_text(), shell, renew=renew)
    if renew:
        (ROOT / name).write_text(document)


@pytest.mark.parametrize("name", documents())
def test_links_lead_to_files_and_headings(name: str) -> None:
    assert broken_links(ROOT / name) == []


def broken_links(page: Path) -> list[str]:
    """The relative links of a page to files or headings that are not there."""
    found: list[str] = []
    for link in re.findall(
        r"\]\(([^)\s]+)\)", prose_of(page.read_text(encoding="utf-8"))
    ):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        path = page.parent / target if target else page
        if not path.exists() or (
            anchor and anchor not in anchors_of(path.read_text(encoding="utf-8"))
        ):
            found.append(link)
    return found


def anchors_of(text: str) -> set[str]:
    """The anchors of the headings of a page, as links say them after `#`."""
    headings = re.findall(r"^#+ (.*)$", prose_of(text), re.MULTILINE)
    return {
        re.sub(r"[^a-z0-9_-]", "", heading.lower().replace(" ", "-"))
        for heading in headings
    }


def prose_of(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`-c\n[a](#a-b-c) [b](#b) [c](no.md) [d](page.md#d)\n")
    assert broken_links(page) == ["#b", "no.md", "page.md#d"]


# How documents are written


def text_of(name: str) -> str:
    """The text of a document."""
    return (ROOT / name).read_text(encoding="utf-8")


MOST_WORDS = 1200
"""Words of a page about the architecture, its blocks included."""
MOST_WORDS_OF_A_PARAGRAPH = 90

GENERATED = {"docs/onnx.md"}

ARCHITECTURE = [name for name in documents() if name.startswith("docs/architecture")]
PROSE = sorted(set(documents()) - GENERATED - {"CHANGELOG.md"})

FOLDERS = "dialects|lowering|runtime|tools|test|docs|examples|benchmarks"
_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
_PASS = re.compile(r"`((?:job|op|plan|regst|launch|convert|verify)-[a-z-]+)[`{]")


def paragraphs_of(text: str) -> Iterator[str]:
    """The paragraphs, items of lists and rows of tables of a page."""
    starts = r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=\|)|\n(?=#)"
    for part in re.split(starts, prose_of(text)):
        if words := part.strip():
            yield words


def long_paragraphs(text: str) -> list[str]:
    """The paragraphs of a page with too many words, by their beginnings."""
    return [
        f"{len(part.split())} words: {part[:60]}"
        for part in paragraphs_of(text)
        if len(part.split()) > MOST_WORDS_OF_A_PARAGRAPH
    ]


def missing_names(text: str) -> list[str]:
    """The paths and passes that a page names and that are not there."""
    from penstock.lowering import get_all_passes

    passes = get_all_passes()
    paths = [name for name in _PATH.findall(text) if not (ROOT / name).exists()]
    return paths + [name for name in _PASS.findall(text) if name not in passes]


FIELD = {
    r"(sums?|terms?) of products|products? of (matrices|bytes)": "contraction, matmul",
    r"\b(quads of|upright|strips? of|registers of matrices)\b": "micro-kernel, AMX",
    r"convolutions? of (channels on|single pixels)": "depthwise or 1 x 1 convolution",
    r"floats of (16|32|64) bits|16-bit floats|numbers of 32 bits": "f16, f32, f64",
    r"\bprocessors?\b": "CPU",
    r"(second|nearest) cache|from afar": "L1, L2, memory",
    r"program images?|images? of (a|the) program": "executable",
    r"\b(hands?|handed) on\b": "produces",
    r"\bphases? of\b": "stage",
    r"keeps? (its|their) hands|\bby hand\b|\b[Ww]hoever\b": "a name",
    r"\bfindings?\b": "diagnostic",
    r"\b(plain|general) loop\b(?!s)": "static, dynamic scheduler",
}
"""Words that were ours alone, and the field's."""

_SUBJECT = re.compile(r"(?:^|(?<=[.:;!?] )|(?<=\| )|(?<=\* ))(?:What|Who) (?!.*\?)")


def strange_words(text: str) -> list[str]:
    """
    The words of a page that the field has a word for; sentences about What and Who.
    """
    parts = [" ".join(part.split()) for part in paragraphs_of(text)]
    parts = [part for part in parts if not part.startswith(("#", "* [", "["))]
    found = [
        f"{word[0]}: {better}"
        for part in parts
        for pattern, better in FIELD.items()
        if (word := re.search(pattern, part)) is not None
    ]
    subjects = [part[:60] for part in parts if _SUBJECT.search(part)]
    return found + subjects


@pytest.mark.parametrize("name", PROSE)
def test_documents_use_the_words_of_the_field(name: str) -> None:
    assert strange_words(text_of(name)) == []


@pytest.mark.parametrize("name", ARCHITECTURE)
def test_a_page_about_the_architecture_is_short(name: str) -> None:
    assert len(text_of(name).split()) < MOST_WORDS


@pytest.mark.parametrize("name", ARCHITECTURE)
def test_a_page_about_the_architecture_begins_with_an_example(name: str) -> None:
    start = re.split(r"^## ", text_of(name), flags=re.MULTILINE)[0]
    kinds = {block.kind for block in blocks_of(start)}
    assert kinds & {"mlir", "python", "console"}, name


def test_the_index_links_to_each_page_about_the_architecture() -> None:
    text = text_of("docs/architecture.md")
    links = set(re.findall(r"\]\((architecture/[\w-]+\.md)\)", text))
    pages = (ROOT / "docs" / "architecture").iterdir()
    assert links == {f"architecture/{page.name}" for page in pages}


@pytest.mark.parametrize("name", PROSE)
def test_paragraphs_are_short(name: str) -> None:
    assert long_paragraphs(text_of(name)) == []


@pytest.mark.parametrize("name", PROSE)
def test_paths_and_passes_that_are_named_exist(name: str) -> None:
    assert missing_names(text_of(name)) == []


def test_what_breaks_the_rules_of_documents_is_found() -> None:
    long = "word " * (MOST_WORDS_OF_A_PARAGRAPH + 1)
    block = f"```text\n{long}\n```\n"
    assert len(long_paragraphs(f"# A\n{long}\n{block}\n* a\n* {long}")) == 2
    named = "`runtime/no.py`, `tools/`, `plan-nothing{a=1}` and `verify-plan`"
    assert missing_names(named) == ["runtime/no.py", "plan-nothing"]
    strange = "* A sum of\n  products. What is wrong is told.\n\n# What is trusted\n"
    assert strange_words(strange) == [
        "sum of products: contraction, matmul",
        "* A sum of products. What is wrong is told.",
    ]


_MODULE = re.compile(r"\bpenstock\.((?:dialects|lowering|runtime|tools)(?:\.\w+)*)")
_FILE = re.compile(r"(?<![\w/-])((?:dialects|lowering|runtime|tools)/[\w/]+\.py)\b")


def module_exists(name: str) -> bool:
    """Whether a dotted name is that of a module, or of something defined in one."""
    path = ROOT / name.replace(".", "/")
    if path.is_dir() or path.with_suffix(".py").exists():
        return True
    files = path.parent / "__init__.py", path.parent.with_suffix(".py")
    texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    if not texts:
        return "." in name and module_exists(name.rpartition(".")[0])
    return any(re.search(rf"\b{path.name}\b", text) for text in texts)


def lost_names(text: str) -> list[str]:
    """The modules and files of the package that a text names and that are not there."""
    lost = [name for name in _MODULE.findall(text) if not module_exists(name)]
    return lost + [name for name in _FILE.findall(text) if not (ROOT / name).exists()]


def test_texts_of_the_package_name_modules_that_are_there() -> None:
    """Docstrings, comments and documents, but for the list of changes."""
    folders = "dialects", "lowering", "runtime", "tools", "docs", "examples"
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    paths += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    lost = {
        str(path.relative_to(ROOT)): names
        for path in paths
        if path.suffix in (".py", ".md")
        if (names := lost_names(path.read_text(encoding="utf-8")))
    }
    assert lost == {}


def test_names_that_are_lost_are_found() -> None:
    text = "`penstock.runtime.no.such`, runtime/no.py, penstock.tools.session"
    assert lost_names(text) == ["runtime.no.such", "runtime/no.py"]


ENTRY = re.compile(r"^\*\*([^*]+)\*\*: (.*(?:\n.+)*)", re.MULTILINE)


def glossary_mistakes(text: str) -> list[str]:
    """
    The words of a glossary that come before the one above or again, have no link, or
    more than two sentences and the one with the link.
    """
    entries = ENTRY.findall(text)
    words = [word.casefold() for word, _ in entries]
    disordered = [word for last, word in pairwise(words) if word <= last]
    return disordered + [
        word
        for word, meaning in entries
        if "](" not in meaning or len(re.findall(r"[.!?](?:\s|$)", meaning)) > 3
    ]


def test_the_glossary_has_each_word_once_in_alphabetical_order_with_a_link() -> None:
    text = text_of("docs/glossary.md")
    assert (len(ENTRY.findall(text)) > 40, glossary_mistakes(text)) == (True, [])


def test_mistakes_of_a_glossary_are_found() -> None:
    good = "**b**: One. Two. See\n[x](y)."
    assert glossary_mistakes(f"{good}\n\n**a**: [x](y).\n\n**a**: [x](y).") == ["a"] * 2
    assert glossary_mistakes("**c**: No link.\n\n**d**: A. B. C. [x](y).") == ["c", "d"]


def test_each_line_about_security_names_tests_that_are_there() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith("| what ")]
    unnamed = [
        row for row in rows if "`test_" not in row and "plans-on-disk" not in row
    ]
    assert (len(rows) > 15, unnamed) == (True, [])
    file, found = "", 0
    for name in re.findall(r"`((?:\w+/)?test_\w+(?:\.py)?)`", text):
        if name.endswith(".py"):
            path = next((ROOT / "test" / "unit").rglob(name))
            file = path.read_text(encoding="utf-8")
            continue
        assert f"def {name}(" in file, name
        found += 1
    assert found > 30


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_plug_in_has_a_page_that_shows_its_example(kind: str) -> None:
    row = KINDS[kind]
    example = f"examples/plugins/{kind.replace('-', '_')}.py"
    page = text_of(row.page)
    assert f"```python\n{text_of(example)}```\n" in page
    assert f"--load {example}" in page.replace("\\\n    ", "")
    assert f'[project.entry-points."{row.group}"]' in page
    # The page of all kinds says nothing of the group that a kind is named like.
    usual = f"penstock.{kind.replace('-', '_')}"
    assert row.group == usual or f"`{row.group}`" in text_of("docs/plugin-api.md")


def test_each_page_and_example_of_plug_ins_is_of_a_kind() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "plugins").iterdir()}
    examples = (ROOT / "examples" / "plugins").glob("*.py")
    shown = {path.stem.replace("_", "-") for path in examples}
    assert pages == KINDS.keys()
    assert shown == KINDS.keys()


@pytest.mark.slow
def test_the_demo_passes(tmp_path: Path, forked: ForkedCommands) -> None:
    """`make demo` runs this program."""
    command = f'"{sys.executable}" "{ROOT / "examples" / "demo.py"}"'
    code, output = Shell(tmp_path, tmp_path / "tools", forked).run(command)
    assert code == 0, output
    assert output.endswith("5 of 5 examples passed\n")
    assert "175 of 180 digits are right (97.2%)" in output
