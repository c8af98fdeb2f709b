"""Compiled programs are kept where a user allows it, and never stand in the way of a fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from leapcde import compiled

DEFAULTS = {
    "jax_compilation_cache_dir": None,
    "jax_enable_compilation_cache": True,
    "jax_compilation_cache_max_size": -1,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
}


@pytest.fixture
def settings(monkeypatch, tmp_path) -> SimpleNamespace:
    """JAX's settings in a process where nobody has touched them, and a cache folder that is not there yet."""
    found = SimpleNamespace(**DEFAULTS, resets=0)
    found.update = lambda name, value: setattr(found, name, value)
    monkeypatch.setattr(compiled, "jax", SimpleNamespace(config=found))
    monkeypatch.setattr(compiled.compilation_cache, "reset_cache", lambda: setattr(found, "resets", found.resets + 1))
    monkeypatch.setenv("LEAPCDE_CACHE", str(tmp_path / "cache"))
    return found


def unchanged(settings: SimpleNamespace, **but) -> bool:
    return all(getattr(settings, name) == value for name, value in {**DEFAULTS, **but}.items()) and settings.resets == 0


def test_programs_are_kept_in_the_cache_folder_and_bounded(settings, tmp_path):
    folder = compiled.keep_compiled()
    assert folder.parent == tmp_path / "cache" / "compiled" and folder.stat().st_mode & 0o777 == 0o700
    assert settings.jax_compilation_cache_dir == str(folder) and settings.jax_compilation_cache_max_size == compiled.MOST_BYTES
    assert compiled.keep_compiled() == folder and settings.resets == 1  # the second call finds all done


def test_without_a_folder_named_it_is_the_users_cache_directory(settings, monkeypatch, tmp_path):
    monkeypatch.delenv("LEAPCDE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    assert compiled.keep_compiled().is_relative_to(tmp_path / "home" / "leapcde" / "compiled")


def test_off_means_off(settings, monkeypatch, tmp_path):
    monkeypatch.setenv("LEAPCDE_CACHE", "off")
    assert compiled.keep_compiled() is None and unchanged(settings) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("own", [{"jax_compilation_cache_dir": "/mine"}, {"jax_enable_compilation_cache": False}])
def test_what_users_have_told_jax_stays(settings, tmp_path, own):
    vars(settings).update(own)
    assert compiled.keep_compiled() is None and unchanged(settings, **own) and not list(tmp_path.iterdir())


def test_limits_that_users_have_set_stay(settings):
    settings.jax_compilation_cache_max_size, settings.jax_persistent_cache_min_compile_time_secs = 5, 3.0
    assert compiled.keep_compiled() is not None
    assert (settings.jax_compilation_cache_max_size, settings.jax_persistent_cache_min_compile_time_secs) == (5, 3.0)


def test_a_folder_that_cannot_be_made_keeps_nothing(settings, tmp_path):
    (tmp_path / "cache").write_text("a file")
    assert compiled.keep_compiled() is None and unchanged(settings)


def test_a_folder_that_others_can_write_is_not_trusted(settings, tmp_path):
    folder = compiled.keep_compiled()
    settings.jax_compilation_cache_dir, settings.resets = None, 0
    folder.chmod(0o777)
    assert compiled.keep_compiled() is None and settings.jax_compilation_cache_dir is None


def test_what_a_killed_process_left_half_written_goes(settings):
    folder = compiled.keep_compiled()
    for name in ("whole-cache", "whole-atime", "half-cache"):
        (folder / name).write_bytes(b"x")
    settings.jax_compilation_cache_dir = None
    compiled.keep_compiled()
    assert {path.name for path in folder.iterdir()} >= {"whole-cache", "whole-atime"}
    assert not (folder / "half-cache").exists()


SCRIPT = """
import json, warnings
import jax, numpy as np
warnings.simplefilter("error")
before = jax.config.jax_compilation_cache_dir
events = []
jax.monitoring.register_event_listener(lambda name, **more: events.append(name))
from leapcde import LeapRegressor
imported = jax.config.jax_compilation_cache_dir
X = np.random.default_rng(0).normal(size=(16, 6, 1))
one = LeapRegressor("gru", options={"hidden": 4}, epochs=1).fit(X, np.arange(16.0))
print(json.dumps({"before": before, "imported": imported, "answers": one.predict(X).tolist(),
                  "hits": sum(name.endswith("compilation_cache/cache_hits") for name in events)}))
"""


def processes(folder, count: int) -> list[dict]:
    """So many at once. Every program is kept, however quickly it was compiled: a test must not depend on the clock."""
    env = {**os.environ, "LEAPCDE_CACHE": str(folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    del env["JAX_ENABLE_COMPILATION_CACHE"]
    command = [sys.executable, "-c", SCRIPT]
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return [json.loads(process.communicate()[0]) for process in started]


@pytest.mark.slow
def test_a_second_process_compiles_less_and_says_the_same(tmp_path):
    """And importing alone changes nothing."""
    (first,), (second,) = processes(tmp_path, 1), processes(tmp_path, 1)
    assert first["before"] is None and first["imported"] is None
    assert first["answers"] == second["answers"]
    assert second["hits"] > first["hits"] and list((tmp_path / "compiled").rglob("*-cache"))


@pytest.mark.slow
def test_processes_share_the_cache(tmp_path):
    found = processes(tmp_path, 3)
    assert all(one["answers"] == found[0]["answers"] for one in found)


def test_a_program_of_many_kernels_is_the_same_function():
    x = jnp.linspace(-1.0, 1.0, 12).reshape(3, 4)
    wave = lambda x: (jnp.sin(x) @ x.T).sum(0)
    np.testing.assert_allclose(compiled.program(wave, True)(x), compiled.program(wave, False)(x), rtol=1e-6)
    assert compiled.program(wave, True) is compiled.program(wave, True) is not compiled.program(wave, False)


def test_where_xla_knows_one_kind_of_emitters_nothing_is_asked_for(monkeypatch):
    def unknown(*args, **how):
        raise jax.errors.JaxRuntimeError("No such compile option")

    monkeypatch.setattr(compiled.jax, "jit", unknown)
    assert compiled._emitters.__wrapped__() is None
