from __future__ import annotations

from itertools import permutations, product
from math import ceil, inf, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_programs import answered, collectives

from lts_bench.cost.layout import Layout
from lts_bench.cost.redistribution import DeviceMesh, Tensor, conversion, wire_bytes

T8 = {"t": 8}
XY = {"x": 4, "y": 2}
MB = 256 * 1024 * 4
"""Bytes of the 256 × 1024 result of most products here."""


def product_of(x: str, w: str, out: str) -> str:
    return f"X 256,512 {x}\nW 512,1024 {w} W\nY = einsum:mk,kn>mn X W\n-> Y {out}"


@pytest.mark.parametrize(
    ("x", "w", "out", "expected"),
    [
        ("t,.", ".,.", "t,.", []),
        (".,t", "t,.", ".,.", [("all-reduce", 8, MB)]),
        (".,t", "t,.", "t,.", [("reduce-scatter", 8, MB)]),
        (".,.", ".,t", ".,.", [("all-gather", 8, MB)]),
        (".,.", ".,.", ".,t", []),
        (".,t", ".,t", ".,t", [("all-gather", 8, 256 * 512 * 4)]),
        (".,t", ".,.", "t,.", [("all-to-all", 8, 256 * 64 * 4)]),
    ],
)
def test_a_product_on_one_axis(x: str, w: str, out: str, expected: list[tuple[str, int, int]]) -> None:
    assert collectives(T8, product_of(x, w, out)) == expected


def test_an_idle_axis_stays_idle_unless_the_result_wants_it() -> None:
    whole = 2 * 256 * 512 * 1024
    assert answered(XY, product_of(".,.", ".,x", ".,x"))["matmul_flops_per_device"] == whole / 4
    assert answered(XY, product_of(".,.", ".,x", "y,x"))["matmul_flops_per_device"] == whole / 8


def test_two_axes_of_one_index_are_reduced_together() -> None:
    assert collectives(XY, product_of(".,x+y", "x+y,.", ".,.")) == [("all-reduce", 8, MB)]


def test_the_order_of_axes_in_a_layout_counts() -> None:
    same = "X 256,512 .,.\nW 512,1024 .,x+y W\nY = einsum:mk,kn>mn X W\n-> Y .,{}"
    assert collectives(XY, same.format("x+y")) == []
    assert collectives(XY, same.format("y+x")) == [("collective-permute", 8, MB // 8)]


SUMS = "X 256,512 .,t\nV 512,1024 t,. W\nW 512,1024 t,. W\nA = einsum:mk,kn>mn X V\nB = einsum:mk,kn>mn X W\n"


def test_partial_sums_are_added_before_and_multiplied_after_their_reduction() -> None:
    assert collectives(T8, SUMS + "Z = add A B\n-> Z .,.") == [("all-reduce", 8, MB)]
    assert collectives(T8, SUMS + "Z = mul A B\n-> Z .,.") == [("all-reduce", 8, MB)] * 2


def test_a_linear_function_keeps_a_partial_sum_and_a_nonlinear_one_does_not() -> None:
    tail = "Z = add A C\n-> Z .,."
    assert collectives(T8, SUMS + f"C = scale B\n{tail}") == [("all-reduce", 8, MB)]
    assert len(collectives(T8, SUMS + f"C = relu B\n{tail}")) == 2


def test_a_partial_sum_is_scattered_where_the_consumer_wants_it() -> None:
    text = "X 256,512 .,t\nV 512,1024 t,. W\nW 1024,64 t,. W\nA = einsum:mk,kn>mn X V\nB = relu A\n"
    assert collectives(T8, text + "Z = einsum:mk,kn>mn B W\n-> Z .,.") == [
        ("all-reduce", 8, 256 * 64 * 4),
        ("reduce-scatter", 8, MB),
    ]


def test_a_converted_value_serves_every_consumer() -> None:
    text = "X 256,512 .,t\nV 512,1024 .,t W\nW 512,1024 .,t W\nA = einsum:mk,kn>mn X V\nB = einsum:mk,kn>mn X W\n"
    assert collectives(T8, text + "-> A .,t\n-> B .,t") == [("all-gather", 8, 256 * 512 * 4)]


def test_a_pinned_value_of_which_slices_are_used_is_reduce_scattered() -> None:
    text = "X 256,512 .,t\nW 512,1024 t,. W\nY = einsum:mk,kn>mn X W @.,.\nZ = reshard Y @t,.\n-> Z t,."
    assert collectives(T8, text) == [("reduce-scatter", 8, MB)]


def test_statistics_of_a_split_dimension_are_all_reduced() -> None:
    assert collectives(T8, "X 256,512 .,t\ny = rmsnorm X\n-> y .,t") == [("all-reduce", 8, 1024)]
    softmax = answered(T8, "X 256,512 .,t\ny = softmax:-1 X\n-> y .,t")["collectives"]
    assert [(each["n_bytes"], each["reduce"]) for each in softmax] == [(1024, "max"), (1024, "sum")]


def test_the_maximum_of_a_split_dimension_is_partial() -> None:
    found = answered(T8, "X 256,512 .,t\ny = max:-1 X\n-> y .,.")["collectives"]
    assert found == [{"kind": "all-reduce", "group": 8, "n_bytes": 1024, "reduce": "max"}]


def test_a_look_up_in_a_split_vocabulary_is_partial() -> None:
    text = "W 4096,512 {} W\nI 256 .\nx = embed W I\n-> x {}"
    assert collectives(T8, text.format("t,.", ".,.")) == [("all-reduce", 8, 256 * 512 * 4)]
    assert collectives(T8, text.format("t,.", "t,.")) == [("reduce-scatter", 8, 256 * 512 * 4)]
    assert collectives(T8, text.format(".,t", ".,t")) == []


def test_a_replicated_operand_is_sliced_not_the_other_gathered() -> None:
    text = "R 256,512 .,.\nX 256,512 .,t\nz = add R X\ny = rmsnorm z\n-> y .,."
    assert collectives(T8, text) == [("all-gather", 8, 256 * 512 * 4), ("all-reduce", 8, 1024)]


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from([(4, 2), (2, 2), (2, 3), (8,)]))
def test_a_conversion_costs_what_trying_everything_finds(data: st.DataObject, sizes: tuple[int, ...]) -> None:
    mesh = DeviceMesh(tuple("xyz"[: len(sizes)]), sizes)
    shape = data.draw(st.tuples(*[st.sampled_from([24, 48, 120])] * 2))
    every = all_layouts(len(sizes))
    source = data.draw(st.sampled_from(every))
    target = data.draw(st.sampled_from([each for each in every if each.pending <= source.pending]))
    found = wire_bytes(mesh, conversion(mesh, Tensor(shape, 4), source, target)) / mesh.devices
    layouts = [each for each in every if lies_between(each, source, target)]
    assert found == pytest.approx(least(sizes, shape, layouts, source, target))


def lies_between(each: Layout, source: Layout, target: Layout) -> bool:
    """Whether nothing splits that neither end splits, and dimensions that agree at both ends stay as they are."""
    ends = [ends for ends in zip(each.dims, source.dims, target.dims, strict=True) if ends[1] == ends[2]]
    within = each.sharded <= source.sharded | target.sharded and each.pending <= source.pending
    return within and all(dim == end for dim, end, _ in ends)


def all_layouts(axes: int) -> list[Layout]:
    found = set()
    for places in product(("m", "n", "whole", "partial"), repeat=axes):
        groups = {name: [axis for axis in range(axes) if places[axis] == name] for name in ("m", "n")}
        for m, n in product(permutations(groups["m"]), permutations(groups["n"])):
            found.add(Layout((m, n), frozenset(axis for axis in range(axes) if places[axis] == "partial")))
    return sorted(found, key=lambda each: (each.dims, sorted(each.pending)))


def least(sizes: tuple[int, ...], shape: tuple[int, int], every: list[Layout], source: Layout, target: Layout) -> float:
    """Bellman-Ford over all layouts."""
    cost = dict.fromkeys(every, inf) | {source: 0.0}
    for _ in range(6):
        for a, b in product(every, every):
            cost[b] = min(cost[b], cost[a] + one_step(sizes, shape, a, b))
    return cost[target]


def one_step(sizes: tuple[int, ...], shape: tuple[int, int], a: Layout, b: Layout) -> float:
    """Wire bytes of the one collective or slice that turns one layout into another; infinite where there is none."""

    def local(layout: Layout) -> float:
        return 4 * prod(
            size / prod(sizes[axis] for axis in axes) for size, axes in zip(shape, layout.dims, strict=True)
        )

    changed = [dim for dim in (0, 1) if a.dims[dim] != b.dims[dim]]
    fewer = a.pending - b.pending
    grown = [b.dims[dim][len(a.dims[dim]) :] for dim in changed if b.dims[dim][: len(a.dims[dim])] == a.dims[dim]]
    dropped = [a.dims[dim][len(b.dims[dim]) :] for dim in changed if a.dims[dim][: len(b.dims[dim])] == b.dims[dim]]
    group = prod(sizes[axis] for axis in fewer)
    costs = [inf]
    if b.pending - a.pending:
        return inf
    if fewer and not changed:
        costs.append(2 * local(a) * (group - 1) / group)
    if fewer and len(changed) == len(grown) == 1 and set(grown[0]) == fewer:
        costs.append(local(a) * (group - 1) / group)
    if not fewer and len(changed) == len(grown) == 1:
        costs.append(0)
    if not fewer and len(changed) == len(dropped) == 1:
        costs.append(local(b) - local(a))
    if not fewer and len(changed) == 2 and len(grown) == len(dropped) == 1 and grown == dropped:
        group = prod(sizes[axis] for axis in grown[0])
        costs.append(local(a) * (group - 1) / group)
    parts = [[prod(sizes[axis] for axis in axes) for axes in each.dims] for each in (a, b)]
    if not fewer and changed and all(new % old == 0 for old, new in zip(*parts, strict=True)):
        costs.append(local(b))
    return min(costs)


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([2, 3, 8]))
def test_uneven_sizes_are_rounded_up(rows: int, columns: int, devices: int) -> None:
    text = f"X {rows},{columns} t,.\nW {columns},7 .,. W\nY = einsum:mk,kn>mn X W\n-> Y t,."
    found = answered({"t": devices}, text)
    local = ceil(rows / devices)
    assert found["matmul_flops_per_device"] == 2 * local * columns * 7
    assert found["output_bytes_per_device"] == 4 * local * 7
