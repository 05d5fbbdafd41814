"""Run an entry: values on stdin in Futhark's text or binary format, results on stdout, one a line.

A tuple or record argument is given as one value per component, an array of tuples as one array per component.

With -x an expression is evaluated instead, in the scope of FILE if one is given: on the interpreter, unless -b
names another backend.

Example: echo '[1.0, 2.0, 3.0]' | futad run sum.fut
Example: futad run -x 'f64.sum (map f64.i64 (iota 10))'
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from futad.cli import options

if TYPE_CHECKING:
    from futad.core.budget import Budget
    from futad.core.measures import Measured
    from futad.rewrite.schedule import Schedule
    from futad.runtime.values import Signature


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a program (.fut)")
    parser.add_argument("-x", "--expression", metavar="EXPR", help="evaluate this expression")
    options.add_entry(parser)
    options.add_backend(parser)
    options.add_budget(parser)
    options.add_strategy(parser)
    parser.add_argument(
        "--why-memory", action="store_true", help="say on stderr what loops of derivatives kept (docs/memory.md)"
    )
    parser.add_argument("-B", "--binary", action="store_true", help="write results in binary format")


def run(args: argparse.Namespace) -> int:
    from futad.errors import UsageError
    from futad.runtime.inputs import read_arguments, read_stdin, write_results

    if args.expression is not None:
        return evaluate(args)
    if args.file is None:
        raise UsageError("name a program, or give an expression with -x")
    schedule = options.schedule_of(args)
    signature, call, measured = prepare(args.file, args.entry, args.backend, options.budget_of(args), schedule)
    data = read_stdin() if signature.params else b""
    flat = read_arguments(signature, data, "<stdin>")
    with options.killable():
        results = call(flat)
    write_results(signature.visible(results), sys.stdout.buffer, args.binary)
    sys.stdout.buffer.flush()
    if args.why_memory:
        explain(measured())
    return 0


def explain(measured: list[Measured]) -> None:
    """Say what loops kept."""
    from futad.runtime.explain import explained

    print(explained(measured), file=sys.stderr)


def evaluate(args: argparse.Namespace) -> int:
    """Print the value of an expression in the scope of a file."""
    from futad.api.program import Program
    from futad.runtime.inputs import write_results
    from futad.source import EXPRESSION, compile_expression

    expression, budget = args.expression, options.budget_of(args)
    core = compile_expression(expression, args.file)
    texts = {EXPRESSION: expression}
    backend = "interp" if args.backend == "auto" else args.backend
    schedule = options.schedule_of(args)
    program = Program(core, backend=backend, texts=texts, name=EXPRESSION, budget=budget, schedule=schedule)
    function = program[EXPRESSION]
    if function.signature.params or function.signature.size_names:
        from futad.errors import Span, TypeCheckError

        place = Span(EXPRESSION, 1, 1, 1, 2)
        error = TypeCheckError("the expression is a function", place, hint="apply it to arguments", code="E0702")
        error.locate(texts)
        raise error
    function.executable.executor()
    with options.killable():
        results = function.executable.run(function.symbol, [])
    write_results(function.signature.visible(results), sys.stdout.buffer, args.binary)
    sys.stdout.buffer.flush()
    if args.why_memory:
        explain(function.executable.measured())
    return 0


Measures = Callable[[], "list[Measured]"]


def prepare(
    file: str, entry: str, backend: str, budget: Budget | None = None, schedule: Schedule | None = None
) -> tuple[Signature, Callable[[list[Any]], list[Any]], Measures]:
    """How the entry is called, the function from its core arguments to its core results, and what tells what the last
    call told of itself.  `budget`: of derivatives.

    A program compiled before is called without the compiler being imported, unless what it does is checked, which
    needs its IR.
    """
    from futad import checks
    from futad.backend import aot_cache
    from futad.errors import Error

    texts = aot_cache.texts_of(file) if backend != "interp" and not checks.modes() & checks.EXECUTION else None
    key = aot_cache.key_of(texts, backend, budget, schedule) if texts is not None else ""
    found = aot_cache.find(key) if texts is not None else None
    if found is None:
        program = options.load(file, backend, budget, schedule)
        function = options.entry_of(program, entry)
        executable = function.executable
        if texts is not None:
            from futad.api.executable import Origin

            executable.origin = Origin(texts, file)
            if not executable.key():  # under which it would keep itself
                aot_cache.store(key, program.core, program.executor())
        return function.signature, lambda flat: executable.run(function.symbol, flat), executable.measured
    compiled, library = found
    symbol, signature = options.choose(file, entry, compiled.entries)

    def call(flat: list[Any]) -> list[Any]:
        try:
            return library.run(symbol, flat)
        except Error as e:
            e.locate(texts or {})
            raise

    return signature, call, library.measured
