"""Where pipeline stages lie on a cluster: a scale-up domain holds whole stages where they fit."""

from __future__ import annotations

from lts_bench.specs.cluster import Cluster


def domain_size(cluster: Cluster) -> int:
    """Devices of one scale-up domain, never more than the cluster has."""
    return min(cluster.scale_up.size, cluster.devices)


def stages_per_domain(stage: int, domain: int) -> int:
    """Whole stages of ``stage`` devices in a domain; 0 where a stage is larger."""
    return domain // stage


def domains_per_stage(stage: int, domain: int) -> int:
    """Domains that one stage occupies; a stage larger than a domain starts on a domain's boundary."""
    return -(-stage // domain)


def placeable_stages(cluster: Cluster, stage: int) -> int:
    """How many stages of ``stage`` devices the cluster holds."""
    domain = domain_size(cluster)
    domains, rest = divmod(cluster.devices, domain)
    if stage <= domain:
        return domains * stages_per_domain(stage, domain) + rest // stage
    whole, last = divmod(domains, domains_per_stage(stage, domain))
    return whole + int(last * domain + rest >= stage)
