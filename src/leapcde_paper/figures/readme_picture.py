"""The picture of README.md: what was observed of a letter, the path X through it, and the path Y that LEAP learned.

`make numbers` draws it from the records (`python -m leapcde_paper.figures.readme_picture`).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from leapcde.errors import InputError, need
from leapcde.files import write_text
from leapcde_paper.run.records import Arrays, arrays, read_all

CHANNELS = {"pen, left to right": 0, "pen, up and down": 1}  # of Character Trajectories: how fast it moves


def draw(found: Arrays, sample: int = 0) -> Any:
    """A Matplotlib figure of one sample whose paths a record keeps."""
    made = need("matplotlib.figure", "plot").Figure(figsize=(9.0, 2.6), layout="constrained")
    for i, (name, c) in enumerate(CHANNELS.items()):
        axis = made.add_subplot(1, len(CHANNELS), i + 1)
        axis.spines[["top", "right"]].set_visible(False)
        axis.plot(found["path_t"][sample], found["path_X"][sample, :, c], color="#9ca3af", lw=1.2, label="X, interpolated")
        axis.plot(found["path_t"][sample], found["path_Y"][sample, :, c], color="#2563eb", lw=2.0, label="Y, learned")
        axis.plot(found["path_seen_t"][sample], found["path_seen"][sample, :, c], ".", color="black", ms=3, label="observed")
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("time")
    made.axes[0].legend(frameon=False, fontsize=8)
    return made


def as_svg(figure: Any) -> str:
    """The same figure always gives the same text: no date and no random names in it."""
    file = io.StringIO()
    with need("matplotlib", "plot").rc_context({"svg.hashsalt": "leapcde"}):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def front(folder: Path) -> str:
    """The picture from a folder of records."""
    for record in read_all(folder):
        if (record["dataset"], record["model"], record["drop"]) == ("character-trajectories", "leap", 0.3):
            found = arrays(folder, record)
            if "path_seen" in found:
                return as_svg(draw(found))
    raise InputError(f"{folder} holds no paths of LEAP on Character Trajectories")


if __name__ == "__main__":
    ROOT = Path(__file__).parents[3]
    write_text(ROOT / "docs" / "front.svg", front(ROOT / "results" / "standard"))
