"""``compcomm trace``: the modelled step as a timeline."""

from __future__ import annotations

import click

from comp_comm.cli import help_text, options
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.report import output
from comp_comm.report.table import setup_line
from comp_comm.sweeps.point import point_meta, point_of, verdict

STRETCHED = 1e-6  # relative; below it the passes take what the model says


@click.command(cls=help_text.Grouped, epilog="Examples: compcomm trace llama-step -o trace.json | "
               "compcomm trace llama-step --vpp 1 --global-batch 128 --svg pipeline.svg | "
               "compcomm trace --model llama-3-8b --hardware h100 --gpus 32 --tp 4 --pp 4 --global-batch 64 "
               "-o trace.json --svg pipeline.svg")  # fmt: skip
@options.point_options
@click.option("--svg", metavar="FILE", help="Also draw the pipeline: a row a stage, its passes, sends and waiting.")
@options.quiet_option
@click.option("-o", "--output", "path", metavar="FILE", help="Write the trace (JSON) to FILE, whole or not at all.")
def command(path: str | None, svg: str | None, **given: object) -> int:
    """The modelled step as a timeline: a Chrome trace, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

    A process is a pipeline stage, a thread one of its streams: compute, communication of layers, sends between stages,
    gradients and weights. Its last slice ends when the step does. The point is a STUDY, flags, or both.
    """
    catalogue.FILES_READ.clear()
    output.check_ending("-o", path, "a trace is JSON", (".json",))
    output.check_ending("--svg", svg, "the pipeline is drawn as SVG", (".svg",))
    plan, step = point_of(options.point_study(given))
    meta = point_meta(plan, "trace", step.notes())
    options.note(meta["notes"])
    seen = verdict(step)
    if not seen.feasible:
        options.note([str(seen.reason)])
    from comp_comm.report.trace import write_svg, write_trace

    timeline = step.timeline()
    if abs(timeline.stretch - 1) > STRETCHED:
        options.note([f"passes are drawn {timeline.stretch:.4g} times as long as they are, so that the pipeline takes "
                      "what the model says"])  # fmt: skip
    about = {**meta, "step_s": float(step.step_s), "end_s": timeline.end, "stretch": timeline.stretch}
    if svg:
        with output.open_output(svg) as out:
            write_svg(out, timeline, meta["title"], setup_line(meta))
        tell(f"wrote {svg}")
        if path is None:
            return 0
    code = options.write(path, lambda out: write_trace(out, timeline, about))
    if path and code == 0:
        options.note([f"wrote {path}: open it at ui.perfetto.dev"])
    return code
