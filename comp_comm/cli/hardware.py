"""``compcomm hardware``: list, show, lint and ratio."""

from __future__ import annotations

import click

from comp_comm.choices import Precision
from comp_comm.cli import completion, help_text, options, values
from comp_comm.cli.speech import tell
from comp_comm.configs import catalogue
from comp_comm.configs.hardware_file import load_profile
from comp_comm.errors import CheckFailedError, ConfigError
from comp_comm.hardware.certainty import collective_certainty
from comp_comm.hardware.lint import lint
from comp_comm.hardware.profile import Profile
from comp_comm.hardware.ratio import ratio, scale_out_key, scale_up_key, sixteen_bit_peak
from comp_comm.report.answer import basic_meta, write_answer
from comp_comm.report.provenance import PER_SI, number_rows

names = completion.names("hardware")


@click.group(
    cls=help_text.Commands,
    epilog="Examples: compcomm hardware show mi210 | compcomm hardware ratio a100-sxm-80gb h100-sxm",
)
def command() -> None:
    """Hardware profiles: what is known of a device, where from, and how sure it is."""


def _catalogue() -> list[Profile]:
    return [load_profile(name) for name in catalogue.names("hardware")]


@command.command("list", epilog="Examples: compcomm hardware list a100 | compcomm hardware list --format csv")
@click.argument("word", required=False)
@options.format_options
def list_command(word: str | None, path: str | None, form: str | None) -> int:
    """List the catalogue: dense 16-bit peak, memory, and bandwidth per device and direction.

    With WORD only profiles whose name or title has it.
    """
    form = options.prepare(form, path)
    rows = [
        {"name": p.name, "title": p.title, "year": p.year,
         "peak_tflops": sixteen_bit_peak(p) / 1e12,
         "memory_gib": _shown(p, "memory.capacity"), "memory_gbps": _shown(p, "memory.bandwidth"),
         "domain": _whole(p.value(f"network.{p.tiers[0]}.domain")),
         "scale_up_gbps": _shown(p, scale_up_key(p)), "scale_out_gbps": _shown(p, scale_out_key(p)),
         "presets": " ".join(p.presets)}
        for p in _catalogue()
    ]  # fmt: skip
    rows = values.with_word(rows, word, ("name", "title"))
    meta = basic_meta("hardware list", units={
        "peak_tflops": "TFLOP/s, dense, 16 bit", "memory_gib": "GiB", "memory_gbps": "GB/s",
        "scale_up_gbps": "GB/s per device and direction",
        "scale_out_gbps": "GB/s per device and direction"})  # fmt: skip
    heading = ["Peak in dense 16-bit TFLOP/s; memory in GiB; bandwidth in GB/s (network: per device and direction)"]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, (), heading))


def _shown(profile: Profile, key: str | None) -> float | None:
    number = profile.numbers.get(key) if key else None
    return None if number is None or number.value is None else float(f"{number.value / PER_SI[number.kind]:.12g}")


def _whole(value: float) -> int | None:
    return int(value) if value == value else None


@command.command("show", epilog="Example: compcomm hardware show mi210")
@click.argument("name", shell_complete=names)
@options.format_options
def show_command(name: str, path: str | None, form: str | None) -> int:
    """Show every number of a profile with its source and certainty; what it extends is resolved."""
    form = options.prepare(form, path)
    profile = load_profile(name)
    rows = number_rows(profile)
    meta = basic_meta(
        "hardware show", name=profile.name, title=profile.title, vendor=profile.vendor,
        year=profile.year, dense=profile.dense, devices_per_package=profile.devices_per_package,
        topologies=dict(profile.topologies), presets=dict(profile.preset_titles),
        default_timing=profile.default_timing, waivers=dict(profile.waivers), notes=list(profile.notes),
        sha256=profile.sha256,
    )  # fmt: skip
    heading = [f"{profile.name}: {profile.title} ({profile.vendor}, {profile.year})"]
    heading += [f"{tier}: {topology}" for tier, topology in profile.topologies.items()]
    heading += [f"timing {preset}: {title}" for preset, title in profile.preset_titles.items()]
    heading += [f"collectives {known.where}: {known.words}" for known in collective_certainty(profile)]
    shown = ("key", "value", "certainty", "source", "date")
    notes = [f"note: {text}" for text in profile.notes]
    return options.write(path, lambda out: write_answer(out, form, rows, meta, shown, heading, notes))


@command.command("lint", epilog="Examples: compcomm hardware lint | compcomm hardware lint my-cluster.yaml")
@click.argument("files", nargs=-1, shell_complete=names)
@options.format_options
def lint_command(files: tuple[str, ...], path: str | None, form: str | None) -> int:
    """Check profiles for what is usually wrong: sparse peaks, bidirectional links, mixed-up parts, missing sources.

    Without FILES the whole catalogue. Exits 1 if anything is found; a waived finding is shown with its reason.
    """
    form = options.prepare(form, path)
    known = _catalogue()
    profiles = [load_profile(name) for name in files] if files else known
    findings = [finding for profile in profiles for finding in lint(profile, known)]
    rows = [
        {"profile": f.profile, "rule": f.rule, "key": f.key, "message": f.message, "waived": f.waived or None}
        for f in findings
    ]
    bad = sum(not f.waived for f in findings)
    meta = basic_meta("hardware lint", profiles=[p.name for p in profiles], findings=bad)
    if rows or form not in ("table", "markdown"):
        options.write(path, lambda out: write_answer(out, form, rows, meta))
    tell(
        f"{len(profiles)} profile{'s' * (len(profiles) != 1)}: {bad} finding{'s' * (bad != 1)}, "
        f"{len(findings) - bad} waived"
    )
    if bad:
        raise CheckFailedError(f"lint found {bad} problem{'s' * (bad != 1)}")
    return 0


@command.command("ratio", epilog="Example: compcomm hardware ratio v100-sxm-32gb a100-sxm-80gb")
@click.argument("old", shell_complete=names)
@click.argument("new", shell_complete=names)
@click.option("--per", type=values.Word(("package", "device")), default="package", show_default=True,
              help="What is compared: a package may hold several devices (MI250X: two).")  # fmt: skip
@click.option("--precision", type=values.Word(Precision.words()), help="[default: the 16-bit peak of each]")
@options.format_options
def ratio_command(old: str, new: str, per: str, precision: str | None, path: str | None, form: str | None) -> int:
    """How many times the old one the new one has, and what becomes of FLOP per byte (flop-vs-bw by data sheet)."""
    form = options.prepare(form, path)
    before, after = load_profile(old), load_profile(new)
    try:
        row = ratio(before, after, per, precision)  # type: ignore[arg-type]
    except ValueError as error:
        raise ConfigError(str(error)) from None
    meta = basic_meta("hardware ratio", per=per, precision=precision)
    heading = [f"{before.title} -> {after.title}, per {per}: how many times the old one the new one has"]
    return options.write(path, lambda out: write_answer(out, form, [row], meta, (), heading))
