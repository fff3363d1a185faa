"""A power model of each rail: idle + energy per read + energy per write + energy per byte.

``watts = idle + e_r · reads/s + e_w · writes/s + e_b · bytes/s``, fitted to the phases of a run by
least squares, each phase weighted by the uncertainty of its watts without what all phases share
(the gains of the meters: they scale every term alike and are added afterwards). Where the phases
leave more than their uncertainty unexplained, the standard errors grow with it (Birge's ratio):
a drive is not linear, and the residuals show by how much.

A run with one block size cannot separate the energy of a read from that of its bytes. Of terms that
the data cannot separate, the last is left out: its energy is then part of the others, which
the model reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from labctl.analysis.estimate import COVERAGE_FACTOR, Estimate
from labctl.analysis.phase_result import PhaseResult
from labctl.analysis.power.shared_errors import rail_u_apart, rail_u_gain
from labctl.analysis.stats.uncertainty import student_factor
from labctl.record.events import Outcome
from labctl.record.phase import Pattern

Floats = NDArray[np.float64]

TERMS = ("idle", "read", "write", "byte")
UNITS = {"idle": "W", "read": "J/read", "write": "J/write", "byte": "J/B"}

INSEPARABLE = 3e-3
"""Columns count as dependent when the smallest singular value of the scaled design is below this
part of the largest: another block size or mix would then have to differ by more."""

LEAST_RELATIVE_U = 1e-6
"""Keeps weights finite where a budget is all but empty."""


@dataclass(frozen=True, slots=True)
class ModelTerm:
    """A coefficient with U (k = 2 or Student's factor) in ``unit``.

    ``standard_error`` is that of the fit alone; U holds the gains of the meters too.
    """

    name: str
    unit: str
    value: float
    standard_error: float
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Residual:
    """Measured − fitted watts of a phase; ``u`` is the standard uncertainty it was weighted by."""

    phase_index: int
    label: str
    watts: float
    residual_watts: float
    u: float


@dataclass(frozen=True, slots=True)
class RailModel:
    """The fit of one rail. ``covariance`` is in the order of ``terms``, of the fit alone.

    ``inseparable``: terms left out, each with those that hold its energy now. ``idle_known``:
    whether a phase without I/O was among the phases. ``birge`` > 1: the rail is less linear than
    its watts are uncertain.
    """

    rail: str
    terms: tuple[ModelTerm, ...]
    covariance: tuple[tuple[float, ...], ...]
    residuals: tuple[Residual, ...]
    inseparable: dict[str, tuple[str, ...]]
    not_exercised: tuple[str, ...]
    birge: float
    dof: int
    gain_relative_u: float
    idle_known: bool

    def value(self, name: str) -> float | None:
        """A coefficient, or None where the model has none."""
        return next((term.value for term in self.terms if term.name == name), None)

    def watts(self, reads: float, writes: float, bytes_per_s: float) -> Estimate:
        """Watts that the model gives for a rate of work, with U (about 95 %)."""
        at = {"idle": 1.0, "read": reads, "write": writes, "byte": bytes_per_s}
        row = np.array([at[term.name] for term in self.terms])
        value = float(row @ np.array([term.value for term in self.terms]))
        variance = float(row @ np.array(self.covariance) @ row)
        shared = (self.gain_relative_u * value) ** 2
        factor = student_factor(self.dof)
        return Estimate(value, math.sqrt(factor**2 * variance + COVERAGE_FACTOR**2 * shared))


def features(result: PhaseResult) -> Floats:
    """1, reads/s, writes/s and bytes/s of a phase."""
    return np.array(
        [
            1.0,
            result.read.iops if result.read else 0.0,
            result.write.iops if result.write else 0.0,
            result.bytes_per_s or 0.0,
        ]
    )


def fit_rail(results: Sequence[PhaseResult], rail: str) -> RailModel | None:
    """The model of one rail from every completed, unthrottled phase that measured it: those with
    I/O that fio counted, and idle phases. (The work of a purge is not counted by anyone.)

    None when there are fewer phases than terms.
    """
    used = [
        item
        for item in results
        if rail in item.rails
        and item.outcome == Outcome.COMPLETED
        and not item.throttled
        and (item.iops or item.phase.pattern is Pattern.IDLE)
    ]
    if len(used) < 2:
        return None
    design = np.stack([features(item) for item in used])
    watts = np.array([item.rails[rail].watts.value for item in used])
    u = np.array(
        [
            max(rail_u_apart(item.rails[rail]), LEAST_RELATIVE_U * max(abs(value), 1.0))
            for item, value in zip(used, watts, strict=True)
        ]
    )
    idle = [not item.iops for item in used]
    kept, not_exercised, inseparable = _separable_model_terms(design)
    if len(used) <= len(kept):
        return None
    columns = design[:, kept] / u[:, None]
    scale = np.linalg.norm(columns, axis=0)
    inverse = np.linalg.inv((columns / scale).T @ (columns / scale)) / np.outer(scale, scale)
    coefficients = inverse @ (columns.T @ (watts / u))
    residuals = watts - design[:, kept] @ coefficients
    dof = len(used) - len(kept)
    birge = math.sqrt(float(((residuals / u) ** 2).sum()) / dof)
    covariance = inverse * max(birge, 1.0) ** 2
    gain = max(
        (
            rail_u_gain(item.rails[rail]) / abs(value)
            for item, value in zip(used, watts, strict=True)
            if value
        ),
        default=0.0,
    )
    return RailModel(
        rail=rail,
        terms=tuple(
            _term(TERMS[column], float(value), float(error), gain, dof)
            for column, value, error in zip(
                kept, coefficients, np.sqrt(np.diag(covariance)), strict=True
            )
        ),
        covariance=tuple(tuple(float(cell) for cell in row) for row in covariance),
        residuals=tuple(
            Residual(item.phase.index, item.phase.label, float(w), float(r), float(one))
            for item, w, r, one in zip(used, watts, residuals, u, strict=True)
        ),
        inseparable=inseparable,
        not_exercised=not_exercised,
        birge=birge,
        dof=dof,
        gain_relative_u=gain,
        idle_known=any(idle),
    )


def _term(name: str, value: float, error: float, gain: float, dof: int) -> ModelTerm:
    u = math.hypot(student_factor(dof) * error, COVERAGE_FACTOR * gain * value)
    return ModelTerm(name, UNITS[name], value, error, Estimate(value, u))


def _separable_model_terms(
    design: Floats,
) -> tuple[list[int], tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Columns that the phases separate; names of unused terms; and terms left out.

    Judged on columns scaled to their largest value, so that it does not depend on units.
    """
    largest = np.abs(design).max(axis=0)
    kept = [column for column in range(design.shape[1]) if largest[column] > 0]
    unused = tuple(TERMS[column] for column in range(design.shape[1]) if largest[column] <= 0)
    left_out: dict[str, tuple[str, ...]] = {}
    while len(kept) > 1:
        scaled = design[:, kept] / np.linalg.norm(design[:, kept], axis=0)
        _, singular, rows = np.linalg.svd(scaled, full_matrices=False)
        if len(design) >= len(kept) and singular[-1] > INSEPARABLE * singular[0]:
            break
        involved = [kept[i] for i in np.flatnonzero(np.abs(rows[-1]) > 0.1)]
        gone = max(involved)
        kept.remove(gone)
        left_out[TERMS[gone]] = tuple(TERMS[column] for column in involved if column != gone)
    return kept, unused, left_out


def fit_rails(results: Sequence[PhaseResult]) -> tuple[RailModel, ...]:
    """The model of each rail that enough phases measured."""
    names = dict.fromkeys(name for item in results for name in item.rails)
    models = (fit_rail(results, name) for name in names)
    return tuple(model for model in models if model is not None)


def model_watts(
    models: Sequence[RailModel], reads: float, writes: float, bytes_per_s: float
) -> Estimate:
    """Watts of all rails together; U adds linearly, because rails may share meters and errors."""
    parts = [model.watts(reads, writes, bytes_per_s) for model in models]
    return Estimate(sum(one.value for one in parts), sum(one.u for one in parts))
