# Without `from __future__ import annotations`, as a third party may write it: annotations here are types, not text.
"""Options are checked by their types, whatever form the annotations have; a model is known once it is registered."""

from dataclasses import dataclass, field
from typing import Any, Literal, Optional
from unittest import mock

import equinox as eqx
import future_options
import jax
import jax.numpy as jnp
import pytest

from leapcde.errors import InputError
from leapcde.models.base import Model, Output, Spec
from leapcde.models.options import Positive, Whole, option
from leapcde.models.registry import MODELS, build, count_parameters, options_of, register

SPEC = Spec("classification", 3, 4, (5,))


@dataclass(frozen=True)
class PlainOptions:
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


@pytest.fixture(params=[PlainOptions, future_options.TextOptions], ids=["types", "text"])
def toy(request):
    with mock.patch.dict(MODELS):

        @register("toy", summary="a toy", reference="nobody", tags=("discrete",))
        class Toy(Model):
            weight: jax.Array
            options: Any = eqx.field(static=True)
            Options = request.param

            def __init__(self, spec, options, *, key):
                self.weight = jax.random.normal(key, (options.size, *spec.output))
                self.options = options

            def __call__(self, batch, *, key=None, epoch=0.0):
                return Output(jnp.zeros((len(batch.obs.last), 5)), jnp.zeros(()))

        yield Toy


@pytest.mark.parametrize(
    ("option", "good", "bad", "wanted"),
    [
        ("size", [1, 7], [0, -1, 2.0, True, None, "3"], "a whole number above 0"),
        ("count", [0, 4], [-1, 1.5, False, None], "a whole number, 0 or more"),
        ("share", [0, 0.0, 3], [-0.1, float("nan"), float("inf"), True, "1", None], "a number of at least 0"),
        ("span", [0.1, 2], [0, 0.0, -1.0, float("inf"), None], "a number above 0"),
        ("on", [True, False], [1, 0, "yes", None], "true or false"),
        ("name", ["", "b"], [1, None, True], "text"),
        ("steps", [None, 4], [0, 1.5, "4"], "a whole number above 0"),
        ("older", [None, 4.0], [0.0, "4"], "a number above 0"),
        ("kind", ["x", "y"], ["z", None], "one of 'x', 'y'"),
        ("table", [None, {}, {"a": 1}], [[], "a", 1], "a table of settings"),
    ],
)
def test_a_value_must_fit_its_type(toy, option, good, bad, wanted):
    for value in good:
        assert getattr(build("toy", SPEC, **{option: value}).options, option) == value
    for value in bad:
        with pytest.raises(InputError, match=f"option {option}=.*: give {wanted}"):
            build("toy", SPEC, **{option: value})


@pytest.mark.parametrize("value", [(1, 2), [0], None, "anything", -1.0])
def test_a_type_that_is_not_known_accepts_any_value(toy, value):
    assert build("toy", SPEC, sizes=value, items=value).options.sizes == value


def test_all_problems_are_listed_at_once(toy):
    with pytest.raises(InputError) as caught:
        build("toy", SPEC, size=0, on=1, sise=3)
    assert len(caught.value.problems) == 3 and "no option 'sise'; did you mean 'size'? it has: size, count" in str(caught.value)


def test_what_is_registered_is_known(toy):
    info = MODELS["toy"]
    assert (info.summary, info.reference, info.tags, info.revision, info.variant) == (
        "a toy",
        "nobody",
        ("discrete",),
        1,
        False,
    )
    found = options_of("toy")
    assert (found["size"].default, found["size"].about) == (3, "of the answer") and found["items"].default == []
    assert count_parameters(build("toy", SPEC, size=2)) == 10


def test_the_same_seed_gives_the_same_weights(toy):
    first, again, other = (build("toy", SPEC, seed=seed).weight for seed in (1, 1, 2))
    assert (first == again).all() and not (first == other).all()


def test_an_entry_may_fix_options(toy):
    register("toy-7", fixed={"size": 7}, variant=True)(toy)
    assert "size" not in options_of("toy-7") and build("toy-7", SPEC).weight.shape == (7, 5)
    with pytest.raises(InputError, match="no option 'size'"):
        build("toy-7", SPEC, size=3)


def test_a_model_may_have_no_options():
    with mock.patch.dict(MODELS):

        @register("bare")
        class Bare(Model):
            def __init__(self, spec, options, *, key): ...

            def __call__(self, batch, *, key=None, epoch=0.0): ...

        assert options_of("bare") == {} and isinstance(build("bare", SPEC), Bare)
        with pytest.raises(InputError, match="no option 'hidden'"):
            build("bare", SPEC, hidden=3)


def test_types_that_cannot_be_read_accept_anything():
    with mock.patch.dict(MODELS):
        register("odd", options=future_options.UnreadableOptions)(MODELS["ncde"].make)
        assert options_of("odd")["size"].default == 3
        with pytest.raises(InputError, match="no option 'sise'"):
            build("odd", SPEC, sise=0)


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_the_library_says_what_it_is(name):
    assert MODELS[name].summary and MODELS[name].reference and MODELS[name].tags
    assert all(option.about for option in options_of(name).values())


def test_an_unknown_model_lists_those_that_there_are():
    with pytest.raises(InputError, match=r"no model 'leep'; did you mean 'leap'\? choose one of: .*leap"):
        build("leep", SPEC)
    with pytest.raises(InputError, match="no model 'leep'"):
        options_of("leep")
