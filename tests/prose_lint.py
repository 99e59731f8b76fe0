"""Finds measured numbers that were typed into the prose instead of being computed.

A number in a sentence may be
  glued        {glue:text}`name:.3f`, or written by any other role or code cell;
  an integer   sizes and counts: 20 values, 6 layers, chapter 3, 2026 (but not a percentage);
  a name       a version, an arXiv number, a licence, "section 2.1", a file or an inline `code` setting;
  part of the mathematics: in $...$ or a formula *inside* a definition, theorem, proof, exercise, ...;
  marked       <!-- definition: why this number is chosen, not measured --> in the same paragraph.
Every other decimal, percentage or power of ten is a finding: it would not change with the run.

    python tests/prose_lint.py chapters/*.md book/*.md
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# Blocks whose inline mathematics states something, rather than reporting it.
STATEMENTS = {
    "prf:definition", "prf:theorem", "prf:lemma", "prf:proof", "prf:corollary", "prf:proposition",
    "prf:example", "prf:remark", "prf:algorithm", "exercise", "solution", "exercise-start",
    "solution-start",
}
NUMBER = re.compile(
    r"""(?<![\w.])                       # not inside a word or a longer number
    (?:\d[\d,]*\.\d+(?:e[+-]?\d+)?        # 0.0123, 1.2e-3
     | \d+e[+-]?\d+                       # 3e-3
     | \d[\d,]*\s?(?:\\?%|percent\b|per\ cent\b)   # 13 %
     | (?:\d+\s*)?(?:\\times|\\cdot|×)\s*10\s*\^\s*\{?-?\d+   # 3 x 10^-3
     | 10\^\{?-\d+)
    """,
    re.VERBOSE,
)
NAMES = re.compile(
    r"""arXiv[:\s]*\d{4}\.\d{4,5}(?:v\d+)?
    | \b\d{4}\.\d{5}\b
    | \bCC\s?BY(?:-SA)?[\s-]\d\.\d
    | \b(?:[Vv]ersion|Python|PyTorch|CUDA|v)\s?\d+(?:\.\d+)+
    | \b(?:[Ss]ections?|[Ff]igures?|[Ff]igs?\.|[Tt]ables?|[Ee]quations?|[Ee]qs?\.|[Cc]hapters?|[Tt]heorems?|§)\s?\d+(?:\.\d+)+
    | https?://\S+
    | <[^>\s]+@[^>\s]+>
    """,
    re.VERBOSE,
)
ROLE = re.compile(r"\{[\w:.+-]+\}`[^`]*`")
CODE = re.compile(r"(`+)(.+?)\1")
INLINE_MATH = re.compile(r"\$[^$]+\$")
MARK = re.compile(r"<!--\s*definition:\s*\S.*?-->", re.DOTALL)
FENCE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,})\s*(?:\{([^}]*)\})?(.*)$")
CAPTION = re.compile(r"^\s*caption:\s*")


@dataclass(frozen=True)
class Finding:
    """A typed number: where it stands and its sentence."""

    path: str
    line: int
    number: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.number!r} is typed: {self.text.strip()[:110]}"


def lint(text: str, path: str = "text") -> list[Finding]:
    """All typed numbers of one MyST page, in order."""
    findings = []
    for start, lines, in_statement in paragraphs(text):
        if MARK.search("\n".join(lines)):
            continue
        bare = hidden("\n".join(lines), in_statement).split("\n")
        for offset, line in enumerate(bare):
            for match in NUMBER.finditer(line):
                findings.append(Finding(path, start + offset, match.group().strip(), lines[offset]))
    return findings


def hidden(text: str, in_statement: bool) -> str:
    """The text without everything in which a number is allowed, line breaks kept."""
    patterns = [MARK, re.compile(r"<!--.*?-->", re.DOTALL), ROLE, NAMES]
    if in_statement:
        patterns.append(INLINE_MATH)
    for pattern in patterns:
        text = pattern.sub(_blank, text)
    # Inline code that says what it sets is a setting; a bare number in code style is not.
    return CODE.sub(lambda m: _blank(m) if re.search(r"[A-Za-z_]{2}|=", m.group(2)) else m.group(), text)


def _blank(match: re.Match) -> str:
    return "\n" * match.group().count("\n") or " "


def paragraphs(text: str):
    """(first line number, lines, whether in a statement) of every piece of prose.

    Captions of figures, which stand in a code cell's options, are prose too. Code, formulas on
    their own and the header are not.
    """
    lines = text.split("\n")
    number = _after_header(lines)
    stack: list[tuple[str, str]] = []  # open fences: (fence, directive)
    current: list[str] = []
    begun = number

    def flush():
        nonlocal current
        if any(line.strip() for line in current):
            inside = any(directive in STATEMENTS for _, directive in stack)
            yield begun + 1, current, inside
        current = []

    while number < len(lines):
        line = lines[number]
        fence = FENCE.match(line)
        in_code = bool(stack) and _is_code(stack[-1][1])
        if line.strip().startswith("$$") and not in_code:
            yield from flush()
            number = _after_formula(lines, number)
            begun = number
            continue
        if fence and stack and _closes(fence, stack[-1]):
            yield from flush()
            stack.pop()
        elif fence and not in_code:
            yield from flush()
            stack.append((fence.group(1), (fence.group(2) or "code").strip()))
            if fence.group(2) and fence.group(3).strip():
                yield number + 1, [fence.group(3)], stack[-1][1] in STATEMENTS  # a title
        elif in_code:
            if CAPTION.match(line):
                caption, number = _caption(lines, number)
                yield number - len(caption) + 1, caption, False
                continue
        elif not line.strip():
            yield from flush()
        elif not (re.match(r"^\s*:[\w-]+:", line) and stack):  # an option of a directive
            if not current:
                begun = number
            current.append(line)
        number += 1
        if not current:
            begun = number
    yield from flush()


def _closes(fence: re.Match, opened: tuple[str, str]) -> bool:
    mark = fence.group(1)
    return mark[0] == opened[0][0] and len(mark) >= len(opened[0]) and not fence.group(2) and not fence.group(3).strip()


def _is_code(directive: str) -> bool:
    return directive in ("code", "code-cell", "code-block", "math", "raw", "bibliography", "toctree", "mermaid")


def _after_header(lines: list[str]) -> int:
    if lines and lines[0].strip() == "---":
        for number, line in enumerate(lines[1:], 1):
            if line.strip() == "---":
                return number + 1
    return 0


def _after_formula(lines: list[str], number: int) -> int:
    """The first line after a display formula that begins in line `number`."""
    if lines[number].count("$$") >= 2:
        return number + 1
    number += 1
    while number < len(lines) and "$$" not in lines[number]:
        number += 1
    return number + 1


def _caption(lines: list[str], number: int) -> tuple[list[str], int]:
    """A caption's lines in a cell's YAML options, and the first line after it."""
    indent = len(lines[number]) - len(lines[number].lstrip())
    caption = [CAPTION.sub("", lines[number])]
    number += 1
    while number < len(lines):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        caption.append(line)
        number += 1
    return caption, number


CODE_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELL_OPTIONS = re.compile(r"(?::[^\n]*\n)+|---\n.*?^---\n", re.MULTILINE | re.DOTALL)
FOLDED = re.compile(r"\b(?:hide-input|hide-cell|remove-input|remove-cell)\b")  # tags that hide the code
WIDEST, WIDEST_FOLDED, LONGEST = 72, 110, 20  # characters; characters of hidden code; non-blank lines


def sprawl(text: str, path: str = "text") -> list[str]:
    """What does not fit on the page: long lines of code cells, long visible cells.

    A page cuts code off at its right edge. Hidden code may be wider and as long as it likes.
    """
    found = []
    for cell in CODE_CELL.finditer(text):
        options = CELL_OPTIONS.match(cell[1])
        header = options[0] if options else ""
        folded = FOLDED.search("".join(re.findall(r"^:?tags:.*\n(?:\s*- .*\n)*", header, re.MULTILINE)))
        lines = cell[1].removeprefix(header).split("\n")
        start = text.count("\n", 0, cell.start(1) + len(header)) + 1
        widest = WIDEST_FOLDED if folded else WIDEST
        found += [
            f"{path}:{number}: {len(line)} characters, at most {widest}: {line.strip()[:70]}"
            for number, line in enumerate(lines, start)
            if len(line) > widest
        ]
        filled = sum(bool(line.strip()) for line in lines)
        if filled > LONGEST and not folded:
            found.append(f"{path}:{start}: a visible cell of {filled} lines, at most {LONGEST}")
    return found


def unseen(text: str, path: str = "text") -> list[str]:
    """Tables that no reader sees: a notebook shows the value of a cell's last expression only."""
    found = []
    for cell in CODE_CELL.finditer(text):
        header = options[0] if (options := CELL_OPTIONS.match(cell[1])) else ""
        statements = ast.parse(re.sub(r"^[%!].*$", "pass", cell[1].removeprefix(header), flags=re.MULTILINE)).body
        start = text.count("\n", 0, cell.start(1) + len(header))
        found += [
            f"{path}:{start + one.lineno}: a table that is not the last thing in its cell is not shown"
            for one in statements[:-1]
            if isinstance(one, ast.Expr) and ast.unparse(one).startswith("bw.figures.table(")
        ]
    return found


# Words of this book's drafts, and those that the field has for them; names of code and keys of records too.
SAY = {
    "rungs?": "baseline (a predictor), view (what a network sees), arm or step (of a ladder of runs)",
    "twins?": "untrained copy, or what the two networks differ in",
    r"symbols?\s+of\s+the\s+moment": "current symbol, current observation",
    "handed_on": "patching_effect", "made_alike": "token_ablation", "cost_of_alike": "token_ablation_cost",
}


def drafted(text: str, path: str = "text") -> list[str]:
    """Where a word of `SAY` stands, alone or as a part of a name."""
    found = [(match.start(), " ".join(match[0].split()), say) for word, say in SAY.items()
             for match in re.finditer(rf"(?<![A-Za-z]){word}(?![A-Za-z])", text, re.IGNORECASE)]
    return [f"{path}:{text.count(chr(10), 0, start) + 1}: {word!r}: {say}" for start, word, say in sorted(found)]


def main(paths: list[str]) -> int:
    """Lint files; prints findings and returns how many there are."""
    found = [finding for path in paths for finding in lint(Path(path).read_text(), path)]
    print("\n".join(map(str, found)) or f"{len(paths)} pages: no typed number")
    return len(found)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
