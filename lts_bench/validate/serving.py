"""Measured serving runs: TPOT and TTFT of a closed loop of clients, and which layout is the fastest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from lts_bench.specs.workload import Workload
from lts_bench.validate.closed_loop import ClosedLoop
from lts_bench.validate.deployment import Deployment, megatron
from lts_bench.validate.measured import count, measured_cluster, measured_engine, measured_model
from lts_bench.validate.table import Prediction, Row, Table, measured, number, predict_each, summarise

COLUMNS = ("ttft_ms", "tpot_ms")
SPREAD = 1.1
"""Slowest ÷ fastest layout from which on the choice between layouts matters."""
LAYOUT = ("tp", "pp", "attention_dp", "moe_tp", "moe_ep")
SWEEP = ("config_name", "system", "engine", "engine_version", "precision", "isl_tokens", "osl_tokens", "gpus", *LAYOUT)
"""What the rows of one sweep over concurrency share."""
CHOICE = ("config_name", "system", "engine", "precision", "isl_tokens", "osl_tokens", "concurrency_total", "gpus")
"""What layouts that compete with each other share."""


class ServingRuns:
    """Predicts rows one after the other; deployments are kept from row to row.

    Attributes:
        models: folder of configs.
        constants: values that replace those of the engines' profiles.
    """

    def __init__(self, models: Path, constants: Mapping[str, float]) -> None:
        self.models, self.constants = models, constants
        self._deployment = lru_cache(maxsize=256)(self._deploy)
        self._round = lru_cache(maxsize=100_000)(Deployment.at)
        self._prompt = lru_cache(maxsize=100_000)(Deployment.prompt_seconds)

    def predict(self, row: Row) -> Prediction:
        """TTFT and TPOT of a row.

        Raises:
            SkipError: if it cannot be predicted.
        """
        deployment = self._deployment(*cells(row, SWEEP))
        strategy = deployment.strategy.degrees
        clients = max(number(row, "concurrency_total") / (strategy.replicas * strategy.dp * strategy.pp), 1.0)
        batch = min(max(round(clients), 1), deployment.largest_batch)
        at, prompt = self._round(deployment, batch), self._prompt(deployment, batch)
        loop = ClosedLoop(deployment.engine, deployment.workload, max(clients, batch), batch, at, prompt, strategy.pp)
        values = {"ttft_ms": loop.ttft_seconds * 1e3, "tpot_ms": loop.tpot_seconds * 1e3}
        return Prediction(values, cells(row, SWEEP))

    def _deploy(self, *shared: str) -> Deployment:
        row = dict(zip(SWEEP, shared, strict=True))
        model = measured_model(row["config_name"], row["precision"], self.models)
        devices = count(row, "gpus")
        cluster = measured_cluster(row["system"], devices)
        engine = msgspec.structs.replace(measured_engine(row["engine"]), **self.constants)
        workload = Workload(count(row, "isl_tokens"), count(row, "osl_tokens"))
        degrees = {"pp": count(row, "pp", 1), "tp": count(row, "tp"), "dp": count(row, "attention_dp", 1)}
        degrees["replicas"] = max(devices // math.prod(degrees.values()), 1)
        if model.is_moe:
            degrees |= {"ep": count(row, "moe_ep", 1), "etp": count(row, "moe_tp", 1)}
        return Deployment(model, cluster, engine, workload, megatron(model, cluster, degrees))


def predict_serving(table: Table, models: Path, constants: Mapping[str, float] | None = None) -> list[Prediction]:
    """Predict every row; configs are files in the folder ``models``, ``constants`` replace those of every engine."""
    return predict_each(table.rows, ServingRuns(models, constants or {}).predict)


def scored(table: Table) -> Table:
    """The table without the TTFT of rows in which queueing dominates."""
    rows = tuple(
        row | {"ttft_ms": ""} if row.get("ttft_not_scored", "").strip().lower() == "true" else row for row in table.rows
    )
    return Table(table.source, table.columns, rows)


def summarise_serving(table: Table, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Errors, order within sweeps, and the choice between layouts."""
    document = summarise(scored(table), predictions, COLUMNS)
    return document | {"layout_choice": layout_choice(table, predictions)}


def layout_choice(table: Table, predictions: Sequence[Prediction]) -> dict[str, Any]:
    """How often the layout with the lowest predicted TPOT is the best measured one, and what it costs where it is not.

    Groups of two or more layouts at equal GPU count whose measured TPOT, in the median of a layout's runs, spreads by a
    tenth or more.
    """
    groups: dict[tuple[str, ...], dict[tuple[str, ...], list[tuple[float, float]]]] = {}
    for row, each in zip(table.rows, predictions, strict=True):
        truth = measured(row, "tpot_ms")
        if truth is not None and each.values:
            layouts = groups.setdefault(cells(row, CHOICE), {})
            layouts.setdefault(cells(row, LAYOUT), []).append((each.values["tpot_ms"], truth))
    choices = [[tuple(np.median(runs, axis=0)) for runs in layouts.values()] for layouts in groups.values()]
    regrets = [_regret(choice) for choice in choices if _spreads(choice)]
    return {
        "groups": len(regrets),
        "hit_percent": 100 * float(np.mean([regret == 0 for regret in regrets])) if regrets else None,
        "regret_percent": 100 * float(np.mean(regrets)) if regrets else None,
    }


def _spreads(choice: Sequence[tuple[float, ...]]) -> bool:
    truths = [truth for _, truth in choice]
    return len(truths) > 1 and max(truths) >= SPREAD * min(truths)


def _regret(choice: Sequence[tuple[float, ...]]) -> float:
    """Measured excess of the pick over the best; ties of the prediction go to the first layout."""
    return float(min(choice, key=lambda pair: pair[0])[1] / min(truth for _, truth in choice) - 1)


def cells(row: Row, columns: Sequence[str]) -> tuple[str, ...]:
    """A row's cells in some columns, empty where it has none."""
    return tuple(row.get(name, "").strip() for name in columns)
