"""The cheapest way to run a program: least bytes on the wire, then fewest collectives, then least flops per device.

Dynamic programming in program order over the layouts in which live values are at hand; a converted value stays at
hand for later consumers, so that equal conversions happen once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lts_bench.cost.choice import Choice, Place
from lts_bench.cost.layout import Layout
from lts_bench.cost.programs import Operator, Program
from lts_bench.cost.propagation import choices
from lts_bench.cost.redistribution import Step, conversion, wire_bytes
from lts_bench.cost.wishes import sliced_pins, wishes

MAX_STATES = 200
"""States kept after an operator, cheapest first: a guard, far above what real programs reach."""

AtHand = tuple[tuple[str, tuple[Layout, ...]], ...]
"""Live value → the layouts that it is at hand in, the first of them the one that it was computed in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every device does.

    Attributes:
        flops: of matrix products.
        scaled_wire_bytes: bytes sent times the devices of the mesh.
        steps: collectives in program order.
        at_hand: layouts of the live values, in the end of the outputs.
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
    """The cheapest plan of a program; of equal ones the first found."""
    planner = _Planner(program)
    plans = [Plan(0, 0, (), tuple((name, (layout,)) for name, layout in program.layouts.items()))]
    for position, operator in enumerate(program.operators):
        plans = _pruned(new for old in plans for new in planner.after(old, position, operator))
    return _pruned(planner.ended(each) for each in plans)[0]


def _pruned(plans: Iterable[Plan]) -> list[Plan]:
    best: dict[AtHand, Plan] = {}
    for each in plans:
        if each.at_hand not in best or each.cost < best[each.at_hand].cost:
            best[each.at_hand] = each
    return sorted(best.values(), key=lambda each: each.cost)[:MAX_STATES]


class _Planner:
    """Extends plans of a program by one operator after the other."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.wished = wishes(program)
        self.sliced = sliced_pins(program)
        self.fixed = frozenset(program.inputs) | {each.out for each in program.operators if each.pin is not None}
        self.last_use = {name: at for at, each in enumerate(program.operators) for name in each.operands}
        self.last_use |= dict.fromkeys(program.outputs, len(program.operators))

    def after(self, old: Plan, position: int, operator: Operator) -> Iterator[Plan]:
        """The plans that extend one by an operator."""
        place = Place(self.program.mesh, self.program.tensors, self.fixed, self.wished[operator.out])
        layouts = dict(old.at_hand)
        computed = [layouts[name][0] for name in operator.operands]
        for choice in dict.fromkeys(choices(operator, place, computed)):
            yield self._extended(old, position, operator, choice)

    def _extended(self, old: Plan, position: int, operator: Operator, choice: Choice) -> Plan:
        at_hand = dict(old.at_hand)
        steps: tuple[Step, ...] = ()
        for name, target in zip(operator.operands, choice.operands, strict=True):
            steps += self._brought(at_hand, name, target)
        steps += choice.steps
        at_hand[operator.out] = (choice.result,)
        pin = self._pin(operator, choice.result)
        if pin is not None:
            steps += self._brought(at_hand, operator.out, pin)
            at_hand[operator.out] = (pin,)
        live = {name: layouts for name, layouts in at_hand.items() if self.last_use.get(name, -1) > position}
        return self._plan(old, steps, live, choice.flops)

    def ended(self, old: Plan) -> Plan:
        """Outputs in the layouts that are asked for; free ones stay as they lie, partial sums included."""
        at_hand = dict(old.at_hand)
        steps: tuple[Step, ...] = ()
        ends: dict[str, tuple[Layout, ...]] = {}
        for name, asked in self.program.outputs.items():
            ends[name] = (asked or at_hand[name][0],)
            steps += self._brought(at_hand, name, ends[name][0])
        return self._plan(old, steps, ends, 0)

    def _plan(self, old: Plan, steps: tuple[Step, ...], at_hand: dict[str, tuple[Layout, ...]], flops: int) -> Plan:
        wire = old.scaled_wire_bytes + wire_bytes(self.program.mesh, steps)
        return Plan(old.flops + flops, wire, old.steps + steps, tuple(at_hand.items()))

    def _pin(self, operator: Operator, result: Layout) -> Layout | None:
        """The layout that a result is converted to; of a partial sum at once the slices that are used."""
        sliced = self.sliced.get(operator.out)
        scattered = sliced is not None and operator.pin is not None and result.pending & sliced.sharded
        return sliced if scattered else operator.pin

    def _brought(self, at_hand: dict[str, tuple[Layout, ...]], name: str, target: Layout) -> tuple[Step, ...]:
        """Convert a value from the layout at hand that is nearest, and keep the result at hand."""
        mesh, tensor, have = self.program.mesh, self.program.tensors[name], at_hand[name]
        paths = [conversion(mesh, tensor, source, target) for source in have if target.pending <= source.pending]
        if target not in have:
            at_hand[name] = (*have, target)
        return min(paths, key=lambda path: (wire_bytes(mesh, path), len(path)))
