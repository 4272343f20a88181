#!/usr/bin/env python3
"""Lists the texts that a user, an operator or a reader of recorded failures can meet.

Reads the Rust sources of the published crates and writes docs/reference/messages.md, by crate and file, so that the texts can
be reviewed side by side: log lines, errors, what handlers say about themselves, hints of the compiler, and other sentences.
Leaves out tests, comments and SQL. Needs only Python 3.

    docs/messages.py            write the list
    docs/messages.py --check    exit 1 if the list is out of date
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIST = ROOT / "docs/reference/messages.md"
CRATES = ["ichido", "ichido-sql", "ichido-sqlite", "ichido-postgres", "ichido-mysql", "ichido-rabbitmq", "ichido-sqs", "ichido-metrics", "ichido-telemetry", "ichido-console", "ichido-cli"]
# Word lists that `adopt` guesses by, not sentences.
SKIPPED = {"crates/ichido/src/store/adopt/words.rs"}

INTRODUCTION = """\
# Messages

Every text that ichido can print, log or record, by crate and file. `docs/messages.py` writes this list; do not edit it.
`docs/messages.py --check` fails if it is out of date.

| kind | what it is |
| --- | --- |
| `error`, `warn`, `info`, `debug`, `trace` | a log line of that level |
| `fail` | the text of an error |
| `handler` | what a handler says about itself, printed by `ichido check` |
| `compiler` | a hint that the compiler prints |
| `text` | part of another text, or of an error that is put together elsewhere |

`{}` and `{name}` stand for values.
"""

TOKEN = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>\bb?r(?P<hashes>\#*)".*?"(?P=hashes))
  | (?P<string>\bb"(?:\\.|[^"\\])*"|"(?:\\.|[^"\\])*")
  | (?P<char>\bb?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])'|'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\])')
  | (?P<name>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*!?)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<other>\S)
    """,
    re.VERBOSE | re.DOTALL,
)
LOG = re.compile(r"^tracing::(error|warn|info|debug|trace)!$")
FAIL = re.compile(r"(^|::)(Err|Error|ok_or|ok_or_else|map_err|bail!|panic!|Unpublished|Failure)(::\w+)?$")
HANDLER = {"About::new", "after", "after_any", "in_loop"}
HINT = "diagnostic::on_unimplemented"
IGNORED = re.compile(r"^(assert\w*!|debug_assert\w*!|expect|unreachable!|env!|.*\bquery\w*|.*::raw_sql|.*_span!)$")
# Two words, one of them in lower case.
PROSE = re.compile(r"[\w`'}\])][,;:.!?]? +[a-z`{(]|[a-z`}][,;:]? +\w")
NOISE = re.compile(
    r"""
    ^[\s;,({]*(?:select|insert|update\ [{\w]+|delete\ from|create|alter|drop|pragma|with|begin|start\ transaction|set\ |savepoint|explain
      |show|use\ \{|deallocate|order\ by|for\ update|lock\ in|on\ (?:duplicate|conflict)|in\ \(|and\ owner|from\ \{|is\ not\ distinct)\b.*
    | (?<!,\ )\bwhere\b.*[={] | \bselect\b.*\bfrom\b | \bis\ (?:not\ )?null\b(?!;) | \bcast\( | \b\w\.\{ | \{owner\} | \{(?:new|table|set|inbox|outbox|by_key)\}
    | \?\d | \$\d | = \s* (?:\?|\{|null\b) | julianday | utc_timestamp | clock_timestamp | strftime | extract\( | printf\( | concat | force\ index
    | collate | \bas\ (?:k|o|t|char|text|real|signed)\b | using\ \{ | \bnow\(\) | to_char\( | unnest\( | octet_length | returning\ \{ | ::text\b
    | start\ transaction;|savepoint\ ichido|; prepare|union\ all|_utf8mb4|character\ set|/\*M!|\.number\ in
    | ^[\w{}]+(?:,\ [\w{}]+)+$ | ^\s*<\w | stroke | \{\ fill
    """,
    re.VERBOSE | re.DOTALL,
)
STATEMENT_FILES = {"statements.rs", "sql.rs", "groups.rs"}


def tokens(source):
    """Each (kind, text, position) of a source."""
    for match in TOKEN.finditer(source):
        kind = match.lastgroup
        yield "raw" if kind == "hashes" else kind, match.group(), match.start()


def value(kind, literal):
    """What a literal says, on one line."""
    if kind == "raw":
        text = re.sub(r'^b?r#*"|"#*$', "", literal)
    else:
        text = re.sub(r'^b?"|"$', "", literal)
        text = re.sub(r"\\\n\s*", "", text)
        text = text.replace('\\"', '"').replace("\\\\", "\\").replace("\\n", "\n").replace("\\t", "\t")
    return re.sub(r"\s*\n\s*", " ⏎ ", text).strip()


def is_prose(text, path):
    """Is it a sentence or a part of one, and not SQL, SVG or a name?"""
    bare = re.sub(r"`[^`]*`", "`x`", text)
    words = re.findall(r"[A-Za-z]{2,}", re.sub(r"\{[^}]*\}", "", bare))
    is_short = re.match(r"[a-z]+: \{", bare)
    if not is_short and (not PROSE.search(bare) or len(words) < 2):
        return False
    return not NOISE.search(bare) and not (path.name in STATEMENT_FILES and "ichido-" in path.as_posix())


def kind_of(callees):
    """What a text is, by the calls around it; none if no reader meets it."""
    if HINT in callees:
        return "compiler"
    if "#" in callees or any(IGNORED.match(callee) for callee in callees):
        return None
    for callee in reversed(callees):
        if level := LOG.match(callee):
            return level.group(1)
    if HANDLER & set(callees[-1:]):
        return "handler"
    if any(FAIL.search(callee) for callee in callees):
        return "fail"
    return "text"


def texts(path):
    """Each (kind, text) of a file, in order, once."""
    stack, previous, test_follows, test_depth, found = [], "", False, None, {}
    for kind, token, _ in tokens(path.read_text(encoding="utf-8")):
        if kind == "comment":
            continue
        if kind == "open":
            stack.append("#" if token == "[" and previous in "#!" and previous else previous)
            if token == "{" and test_follows and "#" not in stack and test_depth is None:
                test_follows, test_depth = False, len(stack)
        elif kind == "close" and stack:
            if test_depth == len(stack):
                test_depth = None
            stack.pop()
        elif token == "test" and stack[-1:] == ["cfg"]:
            test_follows = True
        elif token == ";":
            test_follows = False
        elif kind in ("string", "raw") and test_depth is None:
            what, text = kind_of(stack), value(kind, token)
            is_line = what in ("error", "warn", "info", "debug", "trace", "compiler")
            if is_line and previous == "=" and what != "compiler":
                what = None  # the value of a field
            if what and re.search(r"[A-Za-z]{2}", re.sub(r"\{[^}]*\}", "", text)) and (is_line or is_prose(text, path)):
                found[what, text] = None
        previous = token
    return list(found)


def sources(crate):
    """The files of a crate, sorted, without its tests."""
    for path in sorted((ROOT / "crates" / crate / "src").rglob("*.rs"), key=lambda path: path.as_posix()):
        name = path.relative_to(ROOT).as_posix()
        if "tests" not in path.stem.split("_") and "/tests/" not in name and name not in SKIPPED:
            yield name, path


def listing():
    """The whole page."""
    page = [INTRODUCTION]
    for crate in CRATES:
        page.append(f"## {crate}\n")
        for name, path in sources(crate):
            if found := texts(path):
                lines = "\n".join(f"{what:<8} {text}" for what, text in found)
                page.append(f"### {name}\n\n```text\n{lines}\n```\n")
    return "\n".join(page)


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit(__doc__)
    page = listing()
    if not arguments:
        LIST.write_text(page, encoding="utf-8")
    elif not LIST.exists() or LIST.read_text(encoding="utf-8") != page:
        sys.exit("docs/reference/messages.md is out of date: run docs/messages.py")


if __name__ == "__main__":
    main(sys.argv[1:])
