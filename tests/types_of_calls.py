"""How the types of calls are checked while tests run: as Python's typing says, where a whole number may stand for a float."""

from __future__ import annotations

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
