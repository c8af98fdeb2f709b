"""What a command was asked for -> which data that is: a data set by name, or files with named columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leapcde.cli.options import name_values, names
from leapcde.errors import InputError, choose, meant

if TYPE_CHECKING:
    from leapcde.data.dataset import DataRequest


def set_request(data: str, drop: float, data_dir: Path | None, dataset_option: list[str] | None) -> DataRequest:
    """A data set by name."""
    from leapcde.data.dataset import DataRequest
    from leapcde.datasets.registry import DATASETS, is_name

    if not is_name(data):
        hint = (
            "for a table use 'leapcde fit'" if Path(data).exists() else f"{meant(data, DATASETS)}'leapcde data list' shows them"
        )
        raise InputError(f"{data!r} is not a data set; {hint}")
    chosen = name_values(dataset_option or [], "--dataset-option", "words=all")
    return DataRequest(data, drop, dataset_options=chosen, data_dir=None if data_dir is None else str(data_dir))


def file_request(
    files, columns, horizon, window, task, drop, time_format, split=None, stride=None, known="", target_per="sample"
) -> DataRequest:
    """A file with named columns, or several."""
    from leapcde.data.columns import Columns, one_or_several
    from leapcde.data.dataset import DataRequest

    id, time, target, values, static, weights = columns
    for file in (file for file in files if not file.exists()):
        beside = [path.name for path in file.parent.iterdir() if path.is_file()] if file.parent.is_dir() else []
        hint = meant(file.name, beside) or "a data set by name is trained with 'leapcde train'"
        raise InputError(f"there is no file {file}; {hint.rstrip()}")
    if time is None or (id is None and horizon is None):
        raise InputError(
            "a file needs --id and --time, the columns that tell samples apart and give the times; "
            "a single series to be forecast (--horizon) needs --time only"
        )
    choose("target-per", target_per, ("sample", "row"))
    if known and horizon is None:
        raise InputError("--known is for forecasts: it names columns whose future is known; give a --horizon")
    forecast = names(target or "") if horizon is not None else ()
    targets = one_or_several(names(target or "")) if horizon is None else None
    channels = names(values) and tuple(dict.fromkeys([*names(values), *forecast, *names(known)]))
    per = "row" if target_per == "row" else None
    named = Columns(id, time, targets, channels, names(static), weights, time_format=time_format, target_per=per)
    more = {"split": split, "stride": stride, "forecast": forecast or None, "known": names(known) or None}
    more["more"] = tuple(str(other.resolve()) for other in files[1:]) or None
    return DataRequest(str(files[0].resolve()), drop, named, read_horizon(horizon), window, task, **more)


def read_horizon(text: str | None) -> int | tuple[float, ...] | None:
    """One whole number counts rows; anything else lists times.

    >>> read_horizon("10"), read_horizon("0.5,2")
    (10, (0.5, 2.0))
    """
    if text is None:
        return None
    try:
        found = int(text) if text.strip().isdigit() else tuple(float(part) for part in names(text))
    except ValueError:
        found = ()
    if not found:
        raise InputError(f"--horizon {text}: give a number of rows, 1 or more, or times after the last one, such as 0.5,1,2")
    return found
