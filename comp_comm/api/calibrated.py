"""A calibration as Python has it: errors by operator, the fitted profile, and the file it becomes."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike, fspath

from comp_comm.api.answers import Table
from comp_comm.calibration.run import Calibration, number_rows
from comp_comm.configs.catalogue import SUFFIXES
from comp_comm.hardware.profile import Profile
from comp_comm.records import Records
from comp_comm.report.answer import basic_meta
from comp_comm.report.output import check_ending, open_output


class CalibratedProfile(Table):
    """Errors of a calibration, a row an operator, with the profile that was fitted."""

    def __init__(self, calibration: Calibration, extends: str, logs: Sequence[str]) -> None:
        """Hold a calibration, what it started from, and the files it read."""
        super().__init__(calibration.rows, basic_meta("calibrate", **calibration.meta()))
        self.calibration, self._extends, self._logs = calibration, extends, tuple(logs)

    @property
    def profile(self) -> Profile:
        """The profile, with the fitted numbers in it."""
        return self.calibration.fit.profile if self.calibration.fit else self.calibration.profile

    @property
    def numbers(self) -> Records:
        """The fitted numbers: what each was, what it is, and how well it is known."""
        return number_rows(self.calibration)

    @property
    def notes(self) -> list[str]:
        """What there is to say of the rows."""
        return list(self.calibration.notes)

    def save(self, path: str | PathLike[str], date: str | None = None) -> None:
        """Write the profile as YAML. Raises ``ConfigError`` where the name is of another kind of file."""
        name = fspath(path)
        check_ending("", name, "a profile is YAML", SUFFIXES)
        text = self.calibration.profile_file(name, self._extends, self._logs, date)
        with open_output(name) as out:
            out.write(text)
