"""Options whose annotations are text, as `from __future__ import annotations` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Optional

from leapcde.models.options import Positive, Whole, option

if TYPE_CHECKING:
    from nowhere import Size  # pyright: ignore


@dataclass(frozen=True)
class TextOptions:
    size: int = option(3, "of the answer")
    count: Whole = 0
    share: float = 0.5
    span: Positive = 1.0
    on: bool = True
    name: str = "a"
    steps: int | None = None
    older: Optional[Positive] = None  # noqa: UP045
    kind: Literal["x", "y"] = "x"
    table: dict[str, Any] | None = None
    sizes: tuple[int, ...] = (1, 2)  # not a type that is checked
    items: list = field(default_factory=list)


@dataclass(frozen=True)
class UnreadableOptions:
    size: Size = 3
