"""What a search is asked: its objective, how many of the best, how much of the memory is left free."""

from __future__ import annotations

from comp_comm.configs.study import Study
from comp_comm.costmodels import COST_MODELS, DEFAULT_COST_MODEL, CostModel, phase_of
from comp_comm.errors import ConfigError, one_of
from comp_comm.other_names import nearest_name
from comp_comm.searches.objectives import OBJECTIVES, Aim, Objective
from comp_comm.sweeps.prices import NO_PRICES, Prices

MAX_TOP = 10_000


def model_of(study: Study) -> CostModel:
    """Return the cost model of a study, in its phase; the default one for an unknown name, which the plan refuses."""
    model = COST_MODELS.get(study.cost_model or DEFAULT_COST_MODEL, COST_MODELS[DEFAULT_COST_MODEL])
    return phase_of(model, study.fixed.get("phase"))


def aim_of(study: Study, objective: Objective, headroom: float | None) -> Aim:
    """Return what a search of a study looks for. Raises ``ConfigError`` for a headroom that is no share of memory."""
    if headroom is None:
        space = model_of(study).space
        return Aim(objective, space.headroom if space else 0.0)
    if not 0 <= headroom < 1:
        raise ConfigError(
            f"--headroom: must be a share of the memory from 0 up to less than 1 (20% or 0.2), not {headroom:g}"
        )
    return Aim(objective, headroom)


def check_question(study: Study, name: str, top: int, prices: Prices = NO_PRICES) -> Objective:
    """Return the objective of that name. Raises ``ConfigError`` where it, or ``top``, cannot be asked for."""
    if not 1 <= top <= MAX_TOP:
        raise ConfigError(f"--top must be from 1 to {MAX_TOP:,}, not {top}")
    if name not in OBJECTIVES:
        raise ConfigError(
            f"--objective: there is no '{name}'{nearest_name(name, OBJECTIVES)} ({one_of(list(OBJECTIVES))})"
        )
    study.problems.raise_if_any()
    if name in ("days", "gpu-hours") and "tokens" not in study.fixed:
        raise ConfigError(f"--objective {name} needs 'tokens', those of the whole run")
    needs = OBJECTIVES[name].needs
    if needs and getattr(prices, needs.replace("price_", "")) is None:
        raise ConfigError(f"--objective {name} needs --{needs.replace('_', '-')}: what a device "
                          f"{'costs an hour' if name == 'cost' else 'draws'}")  # fmt: skip
    _check_model(study, name)
    return OBJECTIVES[name]


def _check_model(study: Study, objective: str) -> None:
    """Raise ``ConfigError`` where there is no search of a cost model, or none for an objective."""
    if (study.cost_model or DEFAULT_COST_MODEL) not in COST_MODELS:
        return  # told when the plan is made
    model = model_of(study)
    if model.space is None:
        able = " and ".join(each.name for each in COST_MODELS.values() if each.space)
        raise ConfigError(f"a search knows the layouts of {able}, not those of {model.name}; "
                          "list them in a study and rank them: compcomm sweep STUDY --top N")  # fmt: skip
    if objective not in model.space.objectives:
        raise ConfigError(f"--objective {objective}: layouts of {model.name} are searched by time "
                          f"({one_of(model.space.objectives)})")  # fmt: skip
