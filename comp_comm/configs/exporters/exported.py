"""What every exporter is given: the fields of one point, and what is said of those that a framework cannot have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from comp_comm.errors import ConfigError
from comp_comm.fields import FIELDS, Value
from comp_comm.kernel_choices import CrossEntropy

Flags = dict[str, object]
PER_NODE = 8
# What Megatron-LM, and NeMo after it, call ways to tell positions.
# Of their own fused losses.
FUSED_LOSSES = {CrossEntropy.FUSED.word: "te", CrossEntropy.FUSED_NATIVE.word: "native"}
POSITIONS = {"rope": "rope", "learned": "learned_absolute", "none": "none"}


@dataclass(frozen=True)
class Exported:
    """One point of a study: its fields, whether given or not (None: it follows from others), and its model's name."""

    title: str
    model: str
    values: Mapping[str, Value | None]

    def number(self, name: str, otherwise: int = 1) -> int:
        """Return a field as a whole number; ``otherwise`` where there is none."""
        value = self.values.get(name)
        return otherwise if value is None or isinstance(value, str) else int(value)

    def word(self, name: str) -> str:
        """Return a field as a word; empty where there is none."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def on(self, name: str) -> bool:
        """Return whether a switch is on."""
        return self.values.get(name) == "on"

    @property
    def overlaps_sends(self) -> bool:
        """Whether sends between stages run beside compute: where that is not given, those of interleaved chunks."""
        return self.on("overlap_pp") if self.values.get("overlap_pp") is not None else self.chunks > 1

    @property
    def per_node(self) -> int:
        """Devices of a node: as many of eight as divide all of them."""
        gpus = self.number("gpus")
        return next(n for n in range(min(PER_NODE, gpus), 0, -1) if gpus % n == 0)

    @property
    def replicas(self) -> int:
        """Devices that hold the same weights, as devices have them that nothing else divides: of DP and CP."""
        return self.number("gpus") // (self.number("tp") * self.number("pp"))

    @property
    def chunks(self) -> int:
        """Chunks of a stage; 1 where there is one stage."""
        return self.number("vpp") if self.number("pp") > 1 else 1


def cannot(kind: str, name: str, value: object, remedy: str = "") -> ConfigError:
    """Return the error that a framework's configuration cannot say what a field is.

    >>> str(cannot("deepspeed", "pp", 4, "give --pp 1"))
    '--emit deepspeed: pp 4 cannot be said there; give --pp 1'
    """
    hint = remedy or f"give {FIELDS[name].flag} another value, or another format"
    return ConfigError(f"--emit {kind}: {name} {value} cannot be said there; {hint}")


def counts_ends(kind: str, point: Exported) -> bool:
    """Return whether embedding and loss take the place of a layer each, so that all chunks are of as many layers."""
    chunks, layers = point.number("pp") * point.chunks, point.number("layers", 0)
    if point.values.get("pp_layout") or layers % chunks == 0 or chunks == 1:
        return False
    if (layers + 2) % chunks:
        said = f"give --vpp so that pp x vpp divides {layers} layers ({layers + 2} with embedding and loss)"
        raise cannot(kind, "vpp", point.chunks, said)
    return True


def loss_fusion(kind: str, point: Exported) -> tuple[bool, str | None]:
    """Return whether the loss is fused and by what, as Megatron-LM and those built on it say it.

    Raises ``ConfigError`` where it is one of PyTorch's.
    """
    if not point.number("vocab", 0):
        return False, None
    word = point.word("cross_entropy") or CrossEntropy.FUSED.word  # with fused kernels, which are all that they say
    if word == CrossEntropy.UNFUSED.word:
        return False, None
    if word not in FUSED_LOSSES:
        raise cannot(kind, "cross_entropy", word, "give --cross-entropy fused, fused_native or unfused")
    return True, FUSED_LOSSES[word]


def refuse_what_pytorch_recomputes(kind: str, point: Exported) -> None:
    """Refuse ways of recomputation that are PyTorch's alone. Raises ``ConfigError``."""
    if point.word("recompute") == "per_op":
        raise cannot(kind, "recompute", "per_op", "give --recompute none, full, or modules")
    if point.on("recompute_early_stop"):
        raise cannot(kind, "recompute_early_stop", "on", "give --recompute-early-stop off")


def refuse_overlap_of_pytorch(kind: str, point: Exported) -> None:
    """Raise ``ConfigError`` where tensor parallelism overlaps as only PyTorch does it."""
    if point.word("overlap_tp") == "async" and point.number("tp") > 1:
        raise cannot(kind, "overlap_tp", "async", "give --overlap-tp on, or off")
