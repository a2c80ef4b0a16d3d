"""The console blocks of a Markdown page: commands as a reader pastes them, and what the page says comes out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_PROMPT = "$ "
_HEADING = re.compile(r"^#+ (.+)$")
_FENCE = re.compile(r"^```(\w*)$")


@dataclass(frozen=True)
class Step:
    """One command of a page."""

    page: str
    line: int
    heading: str
    """Of the section that it stands in."""
    command: str
    output: tuple[str, ...] = ()
    """Lines that the page shows; ``...`` stands for anything."""

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page}:{self.line}: {self.command}"

    def is_shown_by(self, printed: str) -> bool:
        """Whether ``printed`` is what the page shows, however spaced; where it shows nothing, anything is."""
        if not self.output:
            return True
        parts = [re.escape(" ".join(part.split())) for part in " ".join(self.output).split("...")]
        return re.fullmatch(r" ?.*? ?".join(parts), " ".join(printed.split())) is not None


def read_steps(page: Path) -> tuple[Step, ...]:
    """Every command of the page's console blocks, in their order."""
    return tuple(_steps(page))


def _steps(page: Path) -> Iterator[Step]:
    heading, language, is_code = "", "", False
    current: Step | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence is not None:
            if current is not None:
                yield current
            current, is_code, language = None, not is_code, fence[1]
        elif not is_code:
            heading = found[1] if (found := _HEADING.match(line)) else heading
        elif language == "console":
            if line.startswith(_PROMPT):
                if current is not None:
                    yield current
                current = Step(page.name, number, heading, line.removeprefix(_PROMPT))
            elif current is not None and not current.output and current.command.endswith("\\"):
                current = replace(current, command=f"{current.command}\n{line}")
            elif current is not None:
                current = replace(current, output=(*current.output, line))
