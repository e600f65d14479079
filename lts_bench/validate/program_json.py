"""Programs of tensor operators from JSON: mesh, inputs with layouts, operators, pinned results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lts_bench.cost.layout import Axes, Layout
from lts_bench.cost.programs import ALONG_AXIS, Operator, Program
from lts_bench.cost.redistribution import DeviceMesh, Tensor
from lts_bench.specs.failure import InputError, did_you_mean

ELEMENT_BYTES = {"f64": 8, "f32": 4, "i32": 4, "bf16": 2, "f16": 2, "i8": 1, "f8": 1}
WORDS: dict[type, str] = {dict: "a mapping", list: "a list", str: "text"}


def read_program(data: Any) -> Program:
    """Build a program.

    Args:
        data: the mapping of ``mesh``, ``dtype``, ``inputs``, ``ops`` and ``outputs``.

    Raises:
        InputError: naming the field and the rule that it breaks.
    """
    mesh = _mesh(_typed(data, "mesh", dict))
    bytes_of_result = _element_bytes(data.get("dtype", "f32"), "dtype")
    given = _typed(data, "inputs", dict)
    inputs = {name: _input(f"inputs.{name}", each, bytes_of_result) for name, each in given.items()}
    layouts = {
        name: read_layout(mesh, each.get("spec") or [None] * len(inputs[name].shape), f"inputs.{name}.spec")
        for name, each in given.items()
    }
    for name, layout in layouts.items():
        _check_rank(layout, inputs[name], f"inputs.{name}.spec")
    program = Program(
        mesh=mesh,
        inputs=inputs,
        layouts=layouts,
        operators=tuple(_operator(mesh, position, each) for position, each in enumerate(_typed(data, "ops", list))),
        outputs={
            name: None if spec is None else read_layout(mesh, spec, f"outputs.{name}")
            for name, spec in _typed(data, "outputs", dict).items()
        },
        weights=frozenset(name for name, each in given.items() if each.get("weight")),
        element_bytes=bytes_of_result,
    )
    _check_outputs(program)
    return program


def read_layout(mesh: DeviceMesh, spec: Any, field: str) -> Layout:
    """A layout from one entry a dimension: null, the name of an axis, or a list of names, major first."""
    if not isinstance(spec, list):
        raise InputError("must be a list with an entry for each dimension", field=field, value=spec)
    layout = Layout(tuple(_axes(mesh, entry, field) for entry in spec))
    if sum(map(len, layout.dims)) != len(layout.sharded):
        raise InputError("a mesh axis occurs twice", field=field, value=spec)
    return layout


def _axes(mesh: DeviceMesh, entry: Any, field: str) -> Axes:
    names = [] if entry is None else entry if isinstance(entry, list) else [entry]
    for name in names:
        if name not in mesh.names:
            hint = did_you_mean(str(name), mesh.names)
            raise InputError(f"unknown mesh axis{hint}", field=field, value=name, legal=mesh.names)
    return tuple(map(mesh.names.index, names))


def _mesh(sizes: Mapping[str, Any]) -> DeviceMesh:
    for name, size in sizes.items():
        _count(size, f"mesh.{name}")
    return DeviceMesh(tuple(sizes), tuple(sizes.values()))


def _input(field: str, data: Any, element_bytes: int) -> Tensor:
    shape = _typed(data, "shape", list, field)
    for size in shape:
        _count(size, f"{field}.shape")
    own = _element_bytes(data["dtype"], f"{field}.dtype") if data.get("dtype") else element_bytes
    return Tensor(tuple(shape), own)


def _operator(mesh: DeviceMesh, position: int, data: Any) -> Operator:
    field = f"ops[{position}]"
    out, kind = (_typed(data, key, str, field) for key in ("out", "op"))
    axis = data.get("axis", -1)
    if kind in ALONG_AXIS and (isinstance(axis, bool) or not isinstance(axis, int)):
        raise InputError("must be a whole number", field=f"{field}.axis", value=axis)
    spec = data.get("spec")
    return Operator(
        out=out,
        kind=kind,
        operands=tuple(map(str, _typed(data, "in", list, field))),
        equation=_typed(data, "eq", str, field) if kind == "einsum" else "",
        axis=axis,
        pin=None if spec is None else read_layout(mesh, spec, f"{field}.spec"),
    )


def _check_outputs(program: Program) -> None:
    tensors = program.tensors
    for name, layout in program.outputs.items():
        if name not in tensors:
            raise InputError(f"no such value{did_you_mean(name, tensors)}", field="outputs", value=name)
        if layout is not None:
            _check_rank(layout, tensors[name], f"outputs.{name}")


def _check_rank(layout: Layout, tensor: Tensor, field: str) -> None:
    if len(layout.dims) != len(tensor.shape):
        raise InputError(f"a layout of rank {len(tensor.shape)} is needed, not {len(layout.dims)}", field=field)


def _element_bytes(dtype: Any, field: str) -> int:
    if dtype not in ELEMENT_BYTES:
        raise InputError("unknown dtype", field=field, value=dtype, legal=tuple(ELEMENT_BYTES))
    return ELEMENT_BYTES[dtype]


def _count(value: Any, field: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError("must be a whole number >= 1", field=field, value=value)


def _typed(data: Any, key: str, kind: type, field: str = "") -> Any:
    """The value of a required key."""
    where = f"{field}.{key}" if field else key
    if not isinstance(data, dict):
        raise InputError("must be a mapping", field=field or "program", value=data)
    if data.get(key) is None:
        raise InputError("required key is missing", field=where)
    if not isinstance(data[key], kind):
        raise InputError(f"must be {WORDS[kind]}", field=where, value=data[key])
    return data[key]
