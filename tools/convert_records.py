"""Used once: the 39 records that `leapcde compare` wrote before records had their present form, rewritten into it.

They were trained with just the settings that the standard budget now has, which is checked, so they are its cells. What they
lack (memory, commit, arrays) is null; the data hash is that of the data now, whose file is the one they were trained on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from leapcde.cli.run import RunConfig
from leapcde_paper.run.config import public

from leapcde.files import json_text, write_text
from leapcde_paper.run.records import FOLDER, SCHEMA
from leapcde_paper.run.sweep import identify
from leapcde_paper.studies import preset


def main(old: Path, new: Path) -> None:
    cells = [entry.cell for entry in preset("character", "standard").entries() if entry.column == "30 %"]
    jobs = {(job.cell.config.model, job.cell.config.train.seed): job for job in identify(cells)}
    for path in sorted(old.glob("*.json")):
        before = json.loads(path.read_text())
        job = jobs[before["model"], before["seed"]]
        assert public(RunConfig.from_json(before["config"])) == public(job.cell.config), path
        head = {"schema": SCHEMA, "id": job.cell.identity(job.data_hash), "key": job.cell.key, "name": job.name}
        head |= {key: before[key] for key in ("dataset", "drop", "model", "seed")} | {"budget": "standard"}
        body = {key: before[key] for key in ("metric", "metrics", "protocol", "history", "parameters", "seconds", "stopped")}
        body |= {"split_sizes": before["samples"], "channels": None, "arrays": None, "commit": None}
        body["memory"] = {"step_bytes": None, "process_bytes": None}
        about = {"versions": before["versions"], "hardware": before["hardware"], "data_hash": job.data_hash}
        write_text(new / FOLDER / f"{job.name}.json", json_text({**head, **body, **job.cell.to_json(), **about}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
