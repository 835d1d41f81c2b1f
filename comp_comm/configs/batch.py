"""A batch in tokens: how many sequences it is, and a batch in sequences that was meant in tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from comp_comm.configs.axes import Axis, is_range, read_axis, read_value
from comp_comm.configs.strict_yaml import Document
from comp_comm.errors import Problems
from comp_comm.fields import FIELDS, Value

BATCH, TOKENS, LENGTH = "global_batch", "batch_tokens", "seq_len"
ABSURD = 1e9  # tokens of a step: the largest that were trained with are some 6e7
DOUBTED = 1e8  # the same, where the batch was written with a suffix, as tokens are
NO_LENGTH = "the length of a sequence is not known: give --seq-len, or a model that has one"
TWO_AXES = "several batches in tokens and several seq_len are batches of every pair; give one of them one value"


@dataclass
class BatchReader:
    """Reads a batch in tokens as one in sequences; what is wrong with it is noted in ``problems``.

    ``model_failed`` says that the model that may have had a length could not be read, which is told already.
    """

    document: Document
    problems: Problems
    model_failed: bool = False

    def read(self, fixed: Mapping[str, Value], axes: Sequence[Axis]) -> tuple[Value | None, list[Axis]]:
        """Return the batch in sequences where it is one number, and the axes, with the batch where it moves along one.

        Sequences of several lengths make batches of as many sequences each as have the tokens.
        """
        wanted = self._tokens()
        along = next((axis for axis in axes if LENGTH in axis.values), None)
        lengths = tuple(along.values[LENGTH]) if along else tuple(fixed[name] for name in (LENGTH,) if name in fixed)
        if not wanted or not lengths:
            return self._nothing("" if lengths or self.model_failed else NO_LENGTH, axes)
        if along and len(wanted) > 1:
            return self._nothing(TWO_AXES, axes)
        batches = [self._sequences(int(tokens), int(length)) for tokens in wanted for length in lengths]
        if None in batches:
            return None, list(axes)
        values = tuple(batch for batch in batches if batch is not None)
        if along:
            return None, [Axis({**axis.values, BATCH: values}) if axis is along else axis for axis in axes]
        return (values[0], list(axes)) if len(values) == 1 else (None, [*axes, Axis({BATCH: values})])

    def _tokens(self) -> tuple[Value, ...]:
        raw, field = self.document.data[TOKENS], FIELDS[BATCH]
        if isinstance(raw, (list, dict)) or is_range(raw, field):
            return read_axis(self.document, (TOKENS,), raw, field, self.problems)
        value = read_value(self.document, (TOKENS,), raw, field, self.problems)
        return () if value is None else (value,)

    def _sequences(self, tokens: int, length: int) -> int | None:
        if tokens % length:
            low = tokens // length * length
            self._nothing(f"{tokens:,} tokens are no whole number of sequences of {length:,}; "
                          f"{f'{low:,} and ' if low else ''}{low + length:,} are", ())  # fmt: skip
            return None
        return tokens // length

    def _nothing(self, message: str, axes: Sequence[Axis]) -> tuple[None, list[Axis]]:
        if message:
            self.problems.add(self.document.problem((TOKENS,), message))
        return None, list(axes)


def doubtful(fixed: Mapping[str, Value], axes: Sequence[Axis], given: object) -> str | None:
    """Return what to say of a batch that is more tokens than any step has; None of any other.

    ``given`` is how it was written.

    >>> doubtful({"global_batch": 4 * 2**20, "seq_len": 8192}, (), "4M")[:59]
    'global_batch 4M is 4,194,304 sequences of 8,192 tokens: 34.'
    >>> doubtful({"global_batch": 4096, "seq_len": 8192}, (), "4K")
    """
    known = {name: [values] for name, values in fixed.items()} | {
        name: list(values) for axis in axes for name, values in axis.values.items() if name in (BATCH, LENGTH)
    }
    numbers = [max((float(value) for value in known.get(name, ()) if not isinstance(value, str)), default=0.0)
               for name in (BATCH, LENGTH)]  # fmt: skip
    batch, length = (int(number) for number in numbers)
    suffixed = isinstance(given, str) and given.strip()[-1:] in ("K", "M")
    if batch * length <= (DOUBTED if suffixed else ABSURD):
        return None
    written = given if suffixed else f"{batch:,}"
    return (f"global_batch {written} is {batch:,} sequences of {length:,} tokens: {batch * length / 1e9:.3g} billion "
            f"tokens a step; a batch is given in tokens by --batch-tokens {written if suffixed else '4M'}")  # fmt: skip
