"""Disaggregated serving in closed form: from step times of both pools to TTFT, TPOT and the rate of requests.

Prompts of a prefill replica are prefilled in steps of one a rank, each on its own n = 1, all ranks n = dp:
s(n) = s_1 + (n − 1)/(dp − 1) · (s_dp − s_1) in the heaviest stage, T(n) in all. At Λ requests a second n = Λ · s(n), at
least 1, and u = Λ · s_dp/dp of the replica is used. A prompt waits for the step that is on its way, if any, and behind
those that do not fit into the next one. For one replica with dp = 1 the mean of that is the one of M/D/1; replicas get
prompts in turn, so that the gaps of each vary less, and so do waits (Kingman 1961):

    wait = s(n) · (q · min(Λ · s_1, 1) + g · u² / (2 dp (1 − u))) / replicas        mean: q = 1/2, g = 1

with g = −ln(1 − q). In a pipeline none overtakes, so that a prompt by itself behind one on every rank takes as long:
T(n) is no less than y/(1 + y) of the way from T(1) to T(dp), with y = Λ · min(Λ · s_1, 1) · T(dp)/5.

The link between the pools is shared by the transfers on their way, an M/G/1 queue with processor sharing:
x · (1 + g · v / (1 − v)), x a transfer by itself, v how busy the link is. A sequence joins the next microbatch of the
decode pool, and its first token comes with that step:

    TTFT = wait + T(n) + transfer + (1 + q/pp) · td                      TPOT = td: no prompt disturbs decoding
    rate = min(λ that meets TTFT, replicas · dp · pp · b / (td · osl))
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lts_bench.cost.compiled import formula, scalar
from lts_bench.cost.program import FloatArray
from lts_bench.cost.steady import NO_LIMIT, Number, Rules

CAUGHT_UP = 5.0
"""Replays of pipelines with 2 to 8 ranks agree with it within a few per cent."""
STEPS, PRECISION = 64, 1e-12
"""Most steps of the search for a rate, and the relative width at which it ends."""
NEARLY = 1 - 1e-9
"""Share of the highest load that is tried."""


class Prefill(NamedTuple):
    """A pool of prefill replicas.

    Attributes:
        lone: s_1 seconds, ``every`` s_dp.
        lone_latency: T(1) seconds, ``every_latency`` T(dp).
    """

    replicas: Number
    pp: Number
    dp: Number
    lone: Number
    every: Number
    lone_latency: Number
    every_latency: Number


class Link(NamedTuple):
    """What a prompt's KV takes between the pools.

    Attributes:
        alone: seconds of one transfer by itself.
        occupied: seconds of the whole link.
    """

    alone: Number
    occupied: Number


class Decode(NamedTuple):
    """A pool of decode replicas.

    Attributes:
        lanes: sequences that decode for each b: replicas · dp · pp.
        capacity: most sequences b that a rank's memory holds for a microbatch.
        osl: tokens of an answer.
    """

    lanes: Number
    pp: Number
    capacity: Number
    osl: Number


@formula
def highest_load(prefill: Prefill, link: Link) -> Any:
    """Requests per second that neither the prefill pool nor the link exceeds."""
    every = min(prefill.every, prefill.dp * prefill.lone)
    return 1 / max(every / (prefill.replicas * prefill.dp), link.occupied)


@formula
def prefill_seconds(prefill: Prefill, rate: Number, q: float, g: float) -> Any:
    """Wait and prefill of a prompt at a rate below ``highest_load``; dp lone prefills are no slower than one of all."""
    arriving, more = rate / prefill.replicas, max(prefill.dp - 1, 1.0)
    every = min(prefill.every, prefill.dp * prefill.lone)
    each = (every - prefill.lone) / more
    together, room = arriving * (prefill.lone - each), 1 - arriving * each
    share = 0.0 if together <= room else (min(together / room, prefill.dp) - 1) / more
    service, busy = prefill.lone + share * (every - prefill.lone), min(arriving * prefill.lone, 1.0)
    if prefill.pp > 1:
        ahead = arriving * busy * prefill.every_latency / CAUGHT_UP
        share = max(share, ahead / (1 + ahead))
    latency = prefill.lone_latency + share * (prefill.every_latency - prefill.lone_latency)
    used = arriving * every / prefill.dp
    queued = q * busy + g * used * used / (2 * prefill.dp * (1 - used))
    return latency + service * queued / prefill.replicas


@formula
def transfer_seconds(link: Link, rate: Number, g: float) -> Any:
    """A transfer of a prompt's KV among others."""
    load = rate * link.occupied
    return link.alone * (1 + g * load / (1 - load))


@formula
def ttft_seconds(prefill: Prefill, link: Link, pp: Number, td: Number, rate: Number, q: float, g: float) -> Any:
    """TTFT at a rate below ``highest_load``; q and g as in the module's words."""
    before = prefill_seconds(prefill, rate, q, g) + transfer_seconds(link, rate, g)
    return before + (1 + q / pp) * td


@formula
def rate_above(
    least: float, batch: Number, td: Number, prefill: Prefill, link: Link, decode: Decode, rules: Rules
) -> Any:
    """Requests per second with a batch size that meet all limits, where that is more than ``least``; else 0.

    And whether TTFT limits it: no longer round serves more then.
    """
    most = decode.lanes * batch / (td * decode.osl)
    if batch > decode.capacity or td > rules.tpot_limit or most <= least:
        return 0.0, False
    q, g, limit = rules.quantile, rules.queue_factor, rules.ttft_limit
    load = highest_load(prefill, link)
    if least >= load or ttft_seconds(prefill, link, decode.pp, td, least, q, g) > limit:
        return 0.0, False
    if most < load and ttft_seconds(prefill, link, decode.pp, td, most, q, g) <= limit:
        return most, False
    return rate_between(least, min(most, NEARLY * load), load, prefill, link, decode.pp, td, rules), True


@scalar
def rate_between(
    low: float, high: float, load: float, prefill: Prefill, link: Link, pp: Number, td: Number, rules: Rules
) -> Any:
    """The highest rate from ``low``, which meets the limit on TTFT, to ``high``.

    By false position (Illinois) on the excess times 1 − rate/load, which has no pole; each fourth step halves.
    """
    q, g, limit = rules.quantile, rules.queue_factor, rules.ttft_limit
    under = (ttft_seconds(prefill, link, pp, td, low, q, g) - limit) * (1 - low / load)
    above = (ttft_seconds(prefill, link, pp, td, high, q, g) - limit) * (1 - high / load)
    if above <= 0:
        return high
    side = 0
    for step in range(STEPS):
        if high - low <= PRECISION * high:
            break
        middle = (low + high) / 2 if step % 4 == 3 else (low * above - high * under) / (above - under)
        excess = (ttft_seconds(prefill, link, pp, td, middle, q, g) - limit) * (1 - middle / load)
        if excess <= 0:
            low, under = middle, excess
            above = above / 2 if side < 0 else above
            side = -1
        else:
            high, above = middle, excess
            under = under / 2 if side > 0 else under
            side = 1
    return low


@formula
def best_point(
    batches: FloatArray, first: int, filled: int, td: FloatArray, prefill: Prefill, link: Link, decode: Decode,
    rules: Rules,
) -> tuple[float, float, float]:  # fmt: skip
    """(rate, b, td) of the best rung, refined towards both neighbours; ties: the smallest b, 0 for none.

    Args:
        batches: (phases,) batch sizes.
        first: phase of the ladder's first rung.
        filled: phase after the last one that there is.
        td: (phases,) seconds.
        prefill: the one pool.
        link: between the pools.
        decode: the other pool.
        rules: the limits.
    """
    best, size, rung, seconds, longest = 0.0, 0.0, first, 0.0, NO_LIMIT
    for phase in range(first, filled):
        if td[phase] < longest:
            found, limited = rate_above(best, batches[phase], td[phase], prefill, link, decode, rules)
            if found > best:
                best, size, rung, seconds = found, batches[phase], phase, td[phase]
                longest = seconds if limited else longest
    if best > 0:
        for low in range(max(rung - 1, first), min(rung + 1, filled - 1)):
            span = batches[low + 1] - batches[low]
            for more in range(1, int(span)):
                at = td[low] + more / span * (td[low + 1] - td[low])
                if at < longest:
                    found, limited = rate_above(best, batches[low] + more, at, prefill, link, decode, rules)
                    if found > best:
                        best, size, seconds = found, batches[low] + more, at
                        longest = seconds if limited else longest
    return best, size, seconds
