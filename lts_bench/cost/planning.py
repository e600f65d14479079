"""The cheapest way to run a program: least flops per device, then least bytes on the wire, then fewest collectives.

Dynamic programming in program order over the layouts in which live values are at hand; a converted value stays at
hand for later consumers, so that equal conversions happen once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from lts_bench.cost.layout import Layout
from lts_bench.cost.programs import Operator, Program
from lts_bench.cost.propagation import Choice, Place, choices
from lts_bench.cost.redistribution import Step, conversion
from lts_bench.cost.wishes import wishes

MAX_STATES = 2000
"""States kept after an operator, cheapest first: a guard, far above what real programs reach."""

AtHand = tuple[tuple[str, tuple[Layout, ...]], ...]
"""Live value → the layouts that it is at hand in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every device does.

    Attributes:
        flops: of matrix products.
        scaled_wire_bytes: bytes sent times the devices of the mesh.
        steps: collectives in program order.
        at_hand: layouts of the live values.
    """

    flops: int
    scaled_wire_bytes: int
    steps: tuple[Step, ...]
    at_hand: AtHand

    @property
    def cost(self) -> tuple[int, int, int]:
        """What is minimised."""
        return self.scaled_wire_bytes, len(self.steps), self.flops


def plan(program: Program) -> Plan:
    """The cheapest plan of a program; layouts of the outputs are in ``at_hand``."""
    wished = wishes(program)
    last = _last_uses(program)
    fixed = frozenset(program.inputs) | {each.out for each in program.operators if each.pin is not None}
    plans = [Plan(0, 0, (), tuple((name, (layout,)) for name, layout in program.layouts.items()))]
    for position, operator in enumerate(program.operators):
        place = Place(program.mesh, program.tensors, fixed, wished[operator.out])
        live = frozenset(name for name, use in last.items() if use > position)
        plans = _pruned(new for old in plans for new in _after(old, operator, program, place, live))
    return _pruned(_ended(each, program) for each in plans)[0]


def _last_uses(program: Program) -> dict[str, int]:
    """Value → position of the operator that uses it last; outputs live on."""
    last = {name: position for position, each in enumerate(program.operators) for name in each.operands}
    return last | dict.fromkeys(program.outputs, len(program.operators))


def _pruned(plans: Iterator[Plan]) -> list[Plan]:
    best: dict[AtHand, Plan] = {}
    for each in plans:
        if each.at_hand not in best or each.cost < best[each.at_hand].cost:
            best[each.at_hand] = each
    return sorted(best.values(), key=lambda each: each.cost)[:MAX_STATES]


def _after(old: Plan, operator: Operator, program: Program, place: Place, live: frozenset[str]) -> Iterator[Plan]:
    """The plans that extend one by an operator."""
    at_hand = dict(old.at_hand)
    layouts = [at_hand[name][0] for name in operator.operands]
    for choice in dict.fromkeys(choices(operator, place, layouts)):
        yield _extended(old, operator, program, choice, live)


def _extended(old: Plan, operator: Operator, program: Program, choice: Choice, live: frozenset[str]) -> Plan:
    at_hand = dict(old.at_hand)
    steps: tuple[Step, ...] = ()
    for name, target in zip(operator.operands, choice.operands, strict=True):
        steps += _brought(program, at_hand, name, target)
    steps += choice.steps
    at_hand[operator.out] = (choice.result,)
    if operator.pin is not None:
        steps += _brought(program, at_hand, operator.out, operator.pin)
        at_hand[operator.out] = (operator.pin,)
    kept = tuple((name, layouts) for name, layouts in at_hand.items() if name in live)
    wire = sum(step.scaled_wire_bytes(program.mesh.devices) for step in steps)
    return Plan(old.flops + choice.flops, old.scaled_wire_bytes + wire, old.steps + steps, kept)


def _brought(program: Program, at_hand: dict[str, tuple[Layout, ...]], name: str, target: Layout) -> tuple[Step, ...]:
    """Convert a value from the layout at hand that is nearest, and keep the result at hand."""
    mesh, tensor = program.mesh, program.tensors[name]
    paths = [conversion(mesh, tensor, source, target) for source in at_hand[name] if target.pending <= source.pending]
    best = min(paths, key=lambda path: (sum(step.scaled_wire_bytes(mesh.devices) for step in path), len(path)))
    if target not in at_hand[name]:
        at_hand[name] = (*at_hand[name], target)
    return best


def _ended(old: Plan, program: Program) -> Plan:
    """Outputs in the layouts that are asked for; free ones stay as they lie, partial sums included."""
    at_hand = dict(old.at_hand)
    steps: tuple[Step, ...] = ()
    ends: dict[str, Layout] = {}
    for name, pinned in program.outputs.items():
        ends[name] = pinned or at_hand[name][0]
        steps += _brought(program, at_hand, name, ends[name])
    wire = sum(step.scaled_wire_bytes(program.mesh.devices) for step in steps)
    ended = tuple((name, (layout,)) for name, layout in ends.items())
    return Plan(old.flops, old.scaled_wire_bytes + wire, old.steps + steps, ended)
