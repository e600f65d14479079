from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from lts_bench.calibrate.cluster_file import cluster_yaml
from lts_bench.calibrate.network import fit_network
from lts_bench.cost.collectives import Collective, regimes, seconds
from lts_bench.cost.groups import place_group
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.collectives import Regime
from lts_bench.specs.failure import InputError
from lts_bench.validate.collectives import KINDS
from lts_bench.validate.table import read_table

KERNELS = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
H100 = load_cluster("h100x8")
TRUE = (Regime(5, 0.1, 1.0), Regime(12, 0.3, 1.5, 0.2), Regime(40, 0.7, 2.0, 0.1))


def table(cluster: Cluster, system: str = "h100_sxm", library: str = "nccl/2") -> list[dict[str, str]]:
    """What a network with a cluster's constants would measure."""
    rows = []
    for op, kind in KINDS.items():
        for p in (2, 4, 8):
            for n in 2 ** np.arange(9, 30):
                lines = regimes(cluster, place_group(cluster, 8, p, 1))
                time = float(seconds(lines[None], kind, np.array([[float(n)]]))[0, 0])
                rows.append(
                    {
                        "system": system,
                        "library": library,
                        "op_name": op,
                        "num_gpus": str(p),
                        "message_bytes": str(n),
                        "latency_us": str(time * 1e6),
                    }
                )
    return rows


def test_a_fit_finds_back_what_made_the_table() -> None:
    made = msgspec.structs.replace(H100.collectives, all_reduce=TRUE, all_gather=TRUE, all_to_all=TRUE)
    rows = table(msgspec.structs.replace(H100, collectives=made))
    cluster, report = fit_network(rows, H100)
    fitted = cluster.collectives
    assert {(each["kind"], each["library"]) for each in report} == {
        (kind, "vendor") for kind in ("all_reduce", "all_gather", "all_to_all")
    }
    assert all(each["median_error_percent"] < 1 and each["p90_error_percent"] < 5 for each in report)
    assert fitted.all_gather[0].latency_us == pytest.approx(5, rel=0.05)
    # What the table says nothing of stays.
    assert fitted.custom_all_reduce == H100.collectives.custom_all_reduce
    assert fitted.expert_exchange == H100.collectives.expert_exchange


def test_a_fitted_cluster_goes_through_a_file(tmp_path: Path) -> None:
    fitted, _ = fit_network(table(H100), H100)
    path = tmp_path / "h100x8.yaml"
    path.write_text(cluster_yaml(fitted, "TABLE.csv", "h100x8"), encoding="utf-8")
    assert "\nchip: h100\n" in path.read_text(encoding="utf-8")
    assert load_cluster(path) == fitted
    mine = msgspec.structs.replace(fitted, chip=msgspec.structs.replace(fitted.chip, name="mine"))
    path.write_text(cluster_yaml(mine, "TABLE.csv", "h100x8"), encoding="utf-8")
    assert load_cluster(path) == mine


def test_a_fit_is_the_same_every_time() -> None:
    rows = table(H100)
    assert fit_network(rows, H100) == fit_network(rows, H100)


def test_rows_of_other_clusters_are_left_out() -> None:
    with pytest.raises(InputError, match="no row of the table is of this cluster"):
        fit_network(table(H100, "b200_sxm"), H100)


def test_equal_rows_of_systems_with_the_same_switch_count_once() -> None:
    _, once = fit_network(table(H100), H100)
    _, twice = fit_network(table(H100) + table(H100, "h200_sxm"), H100)
    assert once == twice


@pytest.mark.skipif(not KERNELS.is_dir(), reason="needs the measured tables beside the repository")
@pytest.mark.parametrize("name", ["a100x8", "b200x8"])
def test_built_in_constants_are_those_of_a_fit(name: str) -> None:
    cluster = load_cluster(name)
    rows = [row for file in ("collectives.csv", "ep_alltoall_deepep.csv") for row in read_table(KERNELS / file).rows]
    fitted, report = fit_network(rows, cluster)
    assert all(each["median_error_percent"] < 8 for each in report)
    for p in (2, 4, 8):
        group = place_group(cluster, 8, p, 1)
        for library in (None, "trtllm", "vllm"):
            ours, theirs = (regimes(each, group, library) for each in (cluster, fitted))
            for kind in (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.ALL_TO_ALL):
                n = np.array([[1e3, 1e5, 1e7, 1e9]])
                assert seconds(ours[None], kind, n) == pytest.approx(seconds(theirs[None], kind, n), rel=0.05)
