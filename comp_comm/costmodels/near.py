"""What many rows of a table of layouts have in common, worked out once.

Most of a step's arithmetic is that of a layer, and it depends on few of a layout's numbers (TP and micro-batch, not the
stages or replicas). Where layouts move together along one axis, the layer is evaluated on the distinct rows of those
numbers, and every layout picks its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from comp_comm.costmodels.layer_times import Call, LayerTimes, Spent
from comp_comm.formulas.arrays import WHOLE, Array, Index, take, to_float
from comp_comm.hardware.numbers import Hardware
from comp_comm.layout import STAGE, Layout
from comp_comm.timing.kernels import Passes

if TYPE_CHECKING:
    from comp_comm.costmodels.scenario import Scenario

# Fields that a layer, the embedding and the logits of one micro-batch do not depend on: everything else counts as near.
FAR = (
    "gpus", "dp", "global_batch", "accumulation", "pp", "vpp", "schedule", "uneven_stages", "dp_shard", "zero",
    "bucket", "recompute", "recompute_layers", "offload_optimizer", "scatter_gather", "overlap_dp", "overlap_pp",
    "memory_capacity", "framework_gib", "tokens",
)  # fmt: skip
# Fields that the states of a stage's weights do not depend on, one micro-batch's worth of them.
FAR_OF_STATES = (
    "micro_batch", "global_batch", "accumulation", "sp", "schedule", "uneven_stages", "recompute", "recompute_layers",
    "scatter_gather", "overlap_pp", "memory_capacity", "framework_gib", "tokens",
)  # fmt: skip
PLACEMENT = "placement"
DEGREES = {"dp": ("dp", "gpus"), "pp": ("pp",)}
# What says where on the network each group is.
PLACED = ("tp", "cp", "dp", "pp", "ep", "etp", "gpus", PLACEMENT)


@dataclass(frozen=True)
class Sharing:
    """A part of a step that many layouts have in common: it does not depend on the ``far`` fields.

    Of where devices are it depends on how far apart those of the ``groups`` are. Experts are spread over all groups of
    a stage: where ``exchanges``, over those their exchanges need; else over all.
    """

    far: tuple[str, ...]
    groups: tuple[str, ...]
    exchanges: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that do not matter, beside `places`."""
        return (*self.far, PLACEMENT)

    def places(self, layout: Layout, experts: bool, hardware: Hardware) -> list[Array]:
        """Return how many neighbours of each group there are and how far apart, as far as the network tells.

        Those that share no domain of any tier, but the outermost, may be as far apart as they like; so may groups of
        one.
        """
        domains = [to_float(tier.domain) for tier in hardware.tiers]
        furthest = max(float(np.max(domain, where=np.isfinite(domain), initial=1.0)) for domain in domains)
        names = STAGE if experts and not self.exchanges else self.groups
        spread = [(to_float(getattr(layout, name)), layout.stride(name)) for name in names]
        if experts and self.exchanges:
            spread += [*layout.spread(STAGE, layout.ep, layout.etp), *layout.spread(STAGE, layout.etp)]
        found = []
        for size, stride in spread:
            found += [size, np.where(size > 1, np.minimum(stride, furthest), 0.0)]
        return [number.reshape(-1) for number in found if number.size > 1]

    def far_fields(self, placement: str | None) -> tuple[str, ...]:
        """Return the fields that do not matter, with groups placed in this order (None: it moves).

        Degrees nearer the inside than those of a layer move its devices apart.

        >>> "pp" in LAYERS.far_fields("tp-cp-dp-pp"), "pp" in LAYERS.far_fields("pp-tp-cp-dp"), LAYERS.far_fields(None)
        (True, False, ())
        """
        if placement is None:
            return ()
        order = placement.split("-")
        inside = [name for name, last in (("dp", ("tp", "cp")), ("pp", ("tp", "cp", "dp")))
                  if order.index(name) < max(order.index(other) for other in last)]  # fmt: skip
        moved = {name for group in inside for name in DEGREES[group]}
        return tuple(name for name in self.far if name not in moved)


LAYERS, STATES = Sharing(FAR, ("tp", "cp"), exchanges=True), Sharing(FAR_OF_STATES, ("cp", "dp"), exchanges=False)


class Shared:
    """A scenario of distinct rows; what is made of it is kept here by whoever makes it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.made: Any = None
        self._flat: dict[int, tuple[Array, list[int]]] = {}

    def kinds_beside_rows(self, value: Array) -> tuple[Array, list[int]]:
        """Return a number of these rows with its first axis joined to the last one, and which others are left."""
        if id(value) not in self._flat:
            wide = [i for i, size in enumerate(value.shape[1:-1]) if size > 1]
            flat = np.moveaxis(value, 0, -2).reshape([value.shape[1 + i] for i in wide] + [-1])
            self._flat[id(value)] = flat, wide
        return self._flat[id(value)]


@dataclass(frozen=True, eq=False)
class Near:
    """Rows of a shared scenario that the points of another one have: along one axis, which row each point is.

    ``part`` says which part of the other axes the points have, where the shared rows have all of them.
    """

    shared: Shared
    axis: int
    row: NDArray[np.intp]
    part: Index = ()

    def pick(self, value: Any) -> Array:
        """Return a number of the shared rows for each point.

        >>> Near(Shared(None), 0, np.array([0, 1, 0])).pick(to_float([5.0, 7.0]))
        array([5., 7., 5.])
        """
        array = to_float(value)
        if not array.ndim:
            return value if isinstance(value, np.ndarray) else array  # ZERO stays what it is
        array = take(array, self.part) if self.part else array
        if array.shape[self.axis] == 1:
            return array
        return array.take(self.row, axis=self.axis)

    def pick_kinds(self, values: Iterable[Array], kind: NDArray[np.intp]) -> list[Array]:
        """Return numbers for each point, of the row and of the kind of stage it has.

        ``values`` have the kinds along an axis before all others, and ``kind`` is which of them each point has.

        >>> near = Near(Shared(None), 0, np.array([0, 1, 0]))
        >>> near.pick_kinds([to_float([[5, 7], [8, 9]])], np.array([0, 0, 1]))
        [array([5., 7., 8.])]
        """
        places: dict[int, NDArray[np.intp]] = {}
        return [self._pick_kind(value, kind, places) if value.ndim else value for value in values]

    def _pick_kind(self, value: Array, kind: NDArray[np.intp], places: dict[int, NDArray[np.intp]]) -> Array:
        rank, rows = value.ndim - 1, value.shape[-1]
        code = kind if kind.ndim else kind.reshape((1,) * rank)
        named = [i for i in range(rank) if i != self.axis and code.shape[i] > 1]
        if self.axis != rank - 1 or rows == 1 or any(value.shape[1 + i] > 1 for i in named):
            return self._pick_each(value, code)
        # Kinds and rows become one axis, whose place is looked up once for all that the kinds do not depend on.
        flat, wide = self.shared.kinds_beside_rows(value)
        if self.part:
            flat = flat[tuple(self.part[i] for i in wide)]
        if rows not in places:
            places[rows] = (code * rows + self.row).reshape([code.shape[i] for i in named] + [self.row.size])
        found = flat.take(places[rows], axis=-1, mode="clip")
        order = [*wide, *named]
        found = found.transpose([*np.argsort(order), len(order)])
        return np.expand_dims(found, [i for i in range(rank - 1) if i not in order])

    def _pick_each(self, value: Array, code: NDArray[np.intp]) -> Array:
        value = take(value, (WHOLE, *self.part)) if self.part else value
        places = []
        for i, size in enumerate(value.shape[1:]):
            along = self.row if i == self.axis else np.arange(size)
            along = np.zeros(1, np.intp) if size == 1 else along
            places.append(along.reshape([-1 if i == j else 1 for j in range(value.ndim - 1)]))
        at: tuple[Any, ...] = (code, *places)
        found: Array = value[at]
        return found

    def passes(self, value: Passes) -> Passes:
        """Return seconds by pass for each point."""
        return Passes(*map(self.pick, value))

    def spent(self, value: dict[str, Spent]) -> dict[str, Spent]:
        """Return seconds of communication for each point."""
        return {group: Spent(*map(self.pick, (s.serialized, s.hidden, s.exposed))) for group, s in value.items()}


@dataclass(frozen=True)
class PickedTimes:
    """A layer's times for each point, from those of shared rows; stands in for `LayerTimes`."""

    times: LayerTimes
    near: Near

    @cached_property
    def compute(self) -> Passes:
        """Seconds of compute."""
        return self.near.passes(self.times.compute)

    @cached_property
    def attention_core(self) -> Passes:
        """Seconds of the scores, softmax and weighted sum."""
        return self.near.passes(self.times.attention_core)

    @property
    def groups(self) -> list[str]:
        """Groups that communicate in a layer."""
        return self.times.groups

    @cached_property
    def forward(self) -> dict[str, Spent]:
        """Communication of the forward pass by group."""
        return self.near.spent(self.times.forward)

    @cached_property
    def backward(self) -> dict[str, Spent]:
        """Communication of the backward pass by group."""
        return self.near.spent(self.times.backward)

    @property
    def calls(self) -> Sequence[Call]:
        """Nothing is called here: what is asked of calls is asked of a single step."""
        raise NotImplementedError("calls of a table of layouts: ask for them point by point")
