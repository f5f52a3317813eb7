"""The mutants of a module: each is its syntax tree with one small fault put in, such as ``<`` for ``<=``.

Faults are put where a reader would make them: comparisons, conditions, arithmetic, numbers, names in quotes, arguments
given by name, and statements left out. Annotations, docstrings, prose (texts with a space) and what a dataclass or a
type variable is declared with are left alone.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}
_FUNCTIONS = {"any": "all", "all": "any", "min": "max", "max": "min"}
_NO_RUN_TIME = ("annotation", "returns", "type_comment", "type_params")
_DECLARING_CALLS = ("TypeVar", "ParamSpec", "cast", "dataclass")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One fault.

    Attributes:
        name: the function it is in, and what it puts for what; the same as long as that function stays so.
        line: where it is.
        inject: puts the fault into the tree that it was found in.
    """

    name: str
    line: int
    inject: Callable[[], None]


def mutants(tree: ast.Module) -> list[Mutant]:
    """Return all mutants of ``tree``, in the order of the source."""
    seen: Counter[str] = Counter()
    found = []
    for scope, node, text, inject in _faults(tree, "", function=False):
        name = f"{scope or '<module>'}: {text}"
        seen[name] += 1
        suffix = f" ({seen[name]})" if seen[name] > 1 else ""
        found.append(Mutant(name=name + suffix, line=node.lineno, inject=inject))
    return found


_Fault = tuple[str, ast.expr | ast.stmt, str, Callable[[], None]]


def _faults(node: ast.AST, scope: str, *, function: bool) -> Iterator[_Fault]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        if any("overload" in ast.unparse(decorator) for decorator in node.decorator_list):
            return
        scope = f"{scope}.{node.name}" if scope else node.name
        function = not isinstance(node, ast.ClassDef)
    if _is_declaration(node):
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        children: Iterator[ast.AST] = iter(node.orelse)
    else:
        children = _children(node)
        for holder, place, old, new in _variants(node, function=function):
            where = _located(node, old)
            ast.fix_missing_locations(ast.copy_location(new, where))
            before, after = (ast.unparse(part).partition("\n")[0] for part in (old, new))
            yield scope, where, f"{before} -> {after}", _put(holder, place, new)
    for child in children:
        yield from _faults(child, scope, function=function)


def _is_declaration(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2] in _DECLARING_CALLS
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("__all__", "__slots__")


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in _NO_RUN_TIME:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _is_docstring(child):
                yield child


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_prose(holder: ast.AST, node: ast.AST) -> bool:
    """Tell whether ``node`` is a text for people: it, or the f-string that it is a part of, has a space in it."""
    if not isinstance(node, ast.Constant):
        return False
    parts = holder.values if isinstance(holder, ast.JoinedStr) else [node]
    return any(isinstance(part, ast.Constant) and " " in str(part.value) for part in parts)


def _located(node: ast.AST, old: ast.AST) -> ast.expr | ast.stmt:
    found = old if hasattr(old, "lineno") else node
    assert isinstance(found, ast.expr | ast.stmt)
    return found


def _put(holder: ast.AST, place: tuple[str, int | None], new: ast.AST) -> Callable[[], None]:
    def put() -> None:
        field, index = place
        if index is None:
            setattr(holder, field, new)
        else:
            getattr(holder, field)[index] = new

    return put


_Variant = tuple[ast.AST, tuple[str, int | None], ast.AST, ast.AST]


def _variants(node: ast.AST, *, function: bool) -> Iterator[_Variant]:
    """Yield the faults below ``node``: where each goes, what is there and what comes in its place."""
    for name, value in ast.iter_fields(node):
        if name in _NO_RUN_TIME:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST) and not (_is_docstring(child) or _is_prose(node, child)):
                for new in itertools.chain(_replacements(child, function=function), _negations(node, name, child)):
                    yield node, (name, index), child, new


def _replacements(node: ast.AST, *, function: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for n, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:n], _SWAPS[type(op)](), *ops[n + 1 :]], others)  # type: ignore[list-item]
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(_SWAPS[type(op)](), values)  # type: ignore[arg-type]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SWAPS:
            yield ast.BinOp(left, _SWAPS[type(op)](), right)  # type: ignore[arg-type]
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _SWAPS:
            yield ast.AugAssign(target, _SWAPS[type(op)](), value)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=str(value)):
            yield ast.Constant(f"XX{value}")
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name], ast.Load()), args, keywords)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.Assign(targets=targets, value=value) if function and ast.unparse(value) != "None":
            yield ast.Assign(targets, ast.Constant(None))
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Break() | ast.Continue():
            yield _SWAPS[type(node)]()
    if isinstance(node, ast.Call) and not _is_declaration(node):
        for n, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                yield ast.Call(node.func, node.args, [*node.keywords[:n], *node.keywords[n + 1 :]])


def _negations(holder: ast.AST, place: str, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the opposite of a plain condition; comparisons, ``and``, ``or`` and ``not`` have faults of their own."""
    condition = place in ("test", "ifs") or (place == "values" and isinstance(holder, ast.BoolOp))
    if condition and isinstance(node, ast.Name | ast.Attribute | ast.Call):
        yield ast.UnaryOp(ast.Not(), node)
