"""A timeline as a Chrome trace (which Perfetto reads), and as an SVG of the pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import IO
from xml.sax.saxutils import escape

from comp_comm.costmodels.timeline import COMM, COMPUTE, SENDS, STATES, STREAMS, Slice, Timeline
from comp_comm.records import Record

MICRO = 1e6  # a trace counts microseconds
COLOURS = {"F": "#0072B2", "B": "#56B4E9", "W": "#009E73", COMM: "#D55E00", SENDS: "#E69F00", STATES: "#CC79A7",
           "optimizer": "#009E73"}  # fmt: skip
WORDS = {"F": "forward", "B": "backward", "W": "gradients of weights", COMM: "communication of layers",
         SENDS: "sends between stages", STATES: "gradients and weights", "optimizer": "optimizer"}  # fmt: skip
WAITING = "#e6e6e6"
WIDTH, LEFT, TOP, ROW, GAP = 1200, 70, 76, 30, 10
NARROWEST = 0.25  # pixels: what is shorter is left out of the picture


def trace_events(timeline: Timeline) -> Iterator[Record]:
    """Yield the events of a trace: a process a stage, a thread a stream, a complete event a slice.

    Format: "Trace Event Format" of the Chromium project, phases M and X, times in microseconds.
    """
    for stage in range(timeline.stages):
        yield {"ph": "M", "name": "process_name", "pid": stage, "args": {"name": f"stage {stage}"}}
        yield {"ph": "M", "name": "process_sort_index", "pid": stage, "args": {"sort_index": stage}}
        for number, stream in enumerate(STREAMS):
            yield {"ph": "M", "name": "thread_name", "pid": stage, "tid": number, "args": {"name": stream}}
    for piece in sorted(timeline.slices, key=lambda each: (each.stage, each.start)):
        yield {"ph": "X", "name": piece.name, "cat": piece.stream, "pid": piece.stage,
               "tid": STREAMS.index(piece.stream), "ts": piece.start * MICRO, "dur": piece.seconds * MICRO,
               "args": piece.about}  # fmt: skip


def write_trace(out: IO[str], timeline: Timeline, meta: Record) -> None:
    """Write a trace as JSON, an event a line."""
    out.write('{"displayTimeUnit": "ms",\n"otherData": ' + json.dumps(meta, allow_nan=False) + ',\n"traceEvents": [')
    separator = "\n"
    for event in trace_events(timeline):
        out.write(separator + json.dumps(event, allow_nan=False))
        separator = ",\n"
    out.write("\n]}\n")


def write_svg(out: IO[str], timeline: Timeline, title: str, subtitle: str) -> None:
    """Write the pipeline as an SVG: a row a stage, its passes in colour; grey is waiting."""
    height = TOP + timeline.stages * (ROW + GAP) + 46
    scale = (WIDTH - LEFT - 40) / timeline.end
    out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
              f'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="12">\n'
              f"<title>{escape(title)}</title>\n"
              f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
              f'<text x="10" y="22" font-size="17" font-weight="bold">{escape(title)}</text>\n'
              f'<text x="10" y="40" fill="#666">{escape(subtitle)}</text>\n')  # fmt: skip
    _write_legend(out, timeline)
    for stage in range(timeline.stages):
        y = TOP + stage * (ROW + GAP)
        wide = timeline.end * scale
        out.write(f'<text x="{LEFT - 8}" y="{y + ROW / 2 + 4:g}" text-anchor="end">stage {stage}</text>\n')
        out.write(f'<rect x="{LEFT}" y="{y}" width="{wide:.2f}" height="{ROW}" fill="{WAITING}"/>\n')
    for piece in timeline.slices:
        _write_slice(out, piece, scale)
    _write_axis(out, timeline, scale, height - 30)
    out.write("</svg>\n")


def _write_slice(out: IO[str], piece: Slice, scale: float) -> None:
    wide = piece.seconds * scale
    if wide < NARROWEST:
        return
    y, tall = TOP + piece.stage * (ROW + GAP), ROW
    if "hidden" in piece.name:  # below what hides it
        y, tall = y + ROW, 4
    x = LEFT + piece.start * scale
    colour = COLOURS[_kind(piece)]
    out.write(f'<rect x="{x:.2f}" y="{y}" width="{wide:.2f}" height="{tall}" fill="{colour}">')
    out.write(f"<title>{escape(piece.name)}: {piece.seconds:.4g} s from {piece.start:.4g} s</title></rect>\n")
    number = str(piece.about.get("micro_batch", ""))
    if piece.stream == COMPUTE and number and wide > 9 * len(number):
        ink = "black" if piece.about["pass"] == "B" else "white"
        out.write(f'<text x="{x + wide / 2:.2f}" y="{y + ROW / 2 + 4:g}" text-anchor="middle" font-size="10" ')
        out.write(f'fill="{ink}">{number}</text>\n')


def _kind(piece: Slice) -> str:
    return str(piece.about.get("pass", piece.name)) if piece.stream == COMPUTE else piece.stream


def _write_legend(out: IO[str], timeline: Timeline) -> None:
    x, there = float(LEFT), {_kind(piece) for piece in timeline.slices}
    for kind in (kind for kind in COLOURS if kind in there):
        out.write(f'<rect x="{x:g}" y="52" width="12" height="12" fill="{COLOURS[kind]}"/>'
                  f'<text x="{x + 17:g}" y="62">{WORDS[kind]}</text>\n')  # fmt: skip
        x += 34 + 6.8 * len(WORDS[kind])
    out.write(f'<rect x="{x:g}" y="52" width="12" height="12" fill="{WAITING}"/>')
    out.write(f'<text x="{x + 17:g}" y="62">waiting</text>\n')


def _write_axis(out: IO[str], timeline: Timeline, scale: float, y: float) -> None:
    for tenth in range(0, 11, 2):
        at = timeline.end * tenth / 10
        out.write(f'<line x1="{LEFT + at * scale:.2f}" x2="{LEFT + at * scale:.2f}" y1="{y}" y2="{y + 5}" '
                  f'stroke="#888"/><text x="{LEFT + at * scale:.2f}" y="{y + 18}" text-anchor="middle" fill="#444">'
                  f"{at:.4g} s</text>\n")  # fmt: skip
