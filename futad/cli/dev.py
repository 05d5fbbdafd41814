"""Show the core IR of a program as text: before any pass, or after one of them.

The passes are those of the backend given by -b; without it those that all share, and with --after those of a backend
which has the pass.  --list prints them in order.

--after flatten shows the kernels of the device backends instead: what each computes, over which space.

--time prints what each pass took, --stats how often each rewrite rule fired and, if input is given, the work
the entry does: scalar operations and array elements read and written, by construct.  With either of them the
IR is printed only if --after or --passes asks for it.

--cost prints what a call of the entry costs on a device, counted from sizes alone: the launches of each kernel, its
threads, the steps of the busiest one, the bytes it reads and writes, its floating-point operations, updates at once and
how many meet in one place, and the totals beside the least possible.  The sizes are
given by --size, or are those of --input's values, or of the entry's first test case.

--ops prints every scalar operation: its types, its names in the source, its C and its derivatives.

--legality prints every transformation that moves, shares or drops something, the conditions under which it is right,
and what goes wrong without each.

--check-rules runs both sides of the rewrite rules in a file (docs/strategies.md) on random programs, in which each
applies --cases times, and prints the least program in which a rule is wrong.

--fires prints how often each special transformation is applied in which programs, on each backend, and why those are
there that few programs have use for.

--schedule prints the passes, rules and strategies that run, as a text that --strategy reads (docs/strategies.md); with
-b also what is done to each nest of loops, and why not more.  --trace-rules prints each application of a rule.

--graph draws the dataflow of the entry after the pass and prints the name of the drawing: nests, products, folds,
scatters and loops as boxes, those of the forward and of the return sweep marked, the sizes of arrays beside them.  With
--calls it draws which functions call which.

Example: futad dev gmm.fut --after ad
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.cli import graph, options
from futad.deep import deep
from futad.target import TARGETS

if TYPE_CHECKING:
    from futad.core.ir import Fun, Program
    from futad.pipeline import Trace
    from futad.target import Target


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="a program (.fut); lists need none")
    parser.add_argument("--passes", metavar="A,B,C", help="run only these passes, in this order")
    parser.add_argument("--after", metavar="PASS", help="stop after this pass ('none': before any)")
    parser.add_argument(
        "--why",
        action="store_true",
        help="with '--after accs': what became of each accumulator; '--after flatten': what is not parallel",
    )
    parser.add_argument("--list", action="store_true", help="list the passes")
    parser.add_argument("-b", "--backend", metavar="BACKEND", help=f"whose passes run: {', '.join(TARGETS)}")
    parser.add_argument("--ops", action="store_true", help="list the scalar operations")
    parser.add_argument("--legality", action="store_true", help="list the transformations with what makes each legal")
    parser.add_argument(
        "--fires", metavar="PATH", nargs="+", type=Path, help="count which transformations fire in programs and folders"
    )
    parser.add_argument("--check-rules", metavar="RULES", type=Path, help="check the rewrite rules in a file")
    parser.add_argument("--cases", metavar="N", type=int, default=300, help="programs for each rule (default 300)")
    parser.add_argument("--check", action="store_true", help="type-check the IR after every pass")
    parser.add_argument("--time", action="store_true", help="print the time of each pass")
    parser.add_argument("--stats", action="store_true", help="print rule hits, with --input the work done")
    parser.add_argument("--input", metavar="VALUES", help="a file of values for the entry ('-': stdin)")
    parser.add_argument("--cost", action="store_true", help="print what a call costs on a device, by kernel")
    parser.add_argument(
        "--graph",
        metavar="OUT",
        type=Path,
        nargs="?",
        const=graph.BESIDE,
        help="draw the entry's dataflow (OUT.svg, or OUT.json; without a name FILE's own, here)",
    )
    parser.add_argument("--calls", action="store_true", help="--graph draws which functions call which")
    parser.add_argument("--size", metavar="N=1000,...", help="sizes and integer parameters, for --cost")
    parser.add_argument("--why-memory", action="store_true", help="print what becomes of each loop of a derivative")
    parser.add_argument("--schedule", action="store_true", help="print the schedule, with -b also that of nests")
    parser.add_argument("--trace-rules", action="store_true", help="print each application of a rule")
    options.add_entry(parser)
    options.add_budget(parser)
    options.add_strategy(parser)


@deep  # the text of a program is nested as it is
def run(args: argparse.Namespace) -> int:
    from futad.core.text import program_text
    from futad.errors import UsageError
    from futad.legality import conditions
    from futad.pipeline import Trace, compile_program, pass_names, target_with
    from futad.target import CUDA, target_of

    if args.legality:
        sys.stdout.write(conditions())
        return 0
    if args.ops:
        from futad.cli.ops import table

        sys.stdout.write(table())
        return 0
    if args.check_rules is not None:
        return _check_rules(args.check_rules, args.cases)
    if args.fires is not None:
        from futad.testing.firing import report as fires

        sys.stdout.write(fires([*args.fires, *([Path(args.file)] if args.file is not None else [])]))
        return 0
    own = options.schedule_of(args)
    if args.schedule:
        from futad.cli import schedule

        given = options.load_core(args.file, options.budget_of(args)) if args.file is not None else None
        schedule.write(given, own, args.backend)
        return 0
    target = target_of(args.backend) if args.backend is not None else target_with(args.after)
    if args.list:
        return _list(target)
    if args.file is None:
        raise UsageError("FILE is missing")
    passes = [p for p in args.passes.split(",") if p] if args.passes is not None else None
    if args.input is not None and not (args.stats or args.cost):
        raise UsageError("--input is for --stats and --cost")
    if args.size is not None and not args.cost:
        raise UsageError("--size is for --cost")
    if args.graph is not None:
        args.graph = graph.checked(args.graph, args.file)
        if args.cost or args.why or args.after == "flatten":
            raise UsageError("--graph draws the core IR: it goes with no --cost, --why or --after flatten")
    elif args.calls:
        raise UsageError("--calls is for --graph")
    if args.cost:
        return _print_cost(args)
    program = options.load_core(args.file, options.budget_of(args))
    if args.why_memory:
        return _why_memory(program, target)
    trace = Trace()
    if args.stats or args.trace_rules:
        from futad.rewrite.strategy import Stats

        trace.rules = Stats()
    if args.trace_rules:
        from futad.cli.schedule import tracing

        assert trace.rules is not None
        tracing(trace.rules, args.file)
    if args.after == "none":
        passes = []
    if args.after == "flatten":
        # No pass: what it makes is not core IR.
        from futad.flatten import report

        device = target if target.code == "cuda" else CUDA
        passes = [*passes, "grids"] if passes is not None else None
        made = compile_program(program, target=device, passes=passes, check=args.check, schedule=own)
        sys.stdout.write(report(made, args.why))
        return 0
    stop = None if args.after == "none" else args.after
    if stop is not None and passes is not None and stop not in passes:
        raise UsageError(f"--after {stop}: --passes does not run it")
    if args.why:
        if args.after != "accs" or passes is not None:
            raise UsageError("--why goes with --after accs or flatten, without --passes")
        return _explain(program)
    result = compile_program(
        program, target=target, passes=passes, stop_after=stop, check=args.check, trace=trace, schedule=own
    )
    if args.graph is not None:
        last = args.after or (passes or pass_names(target))[-1]
        graph.write(args.graph, result, args.file, args.entry, last, args.calls)
    elif not (args.time or args.stats or args.trace_rules) or args.after is not None or args.passes is not None:
        sys.stdout.write(program_text(result))
    if args.time:
        _print_times(trace)
    if args.stats:
        _print_hits(trace)
        if args.input is not None:
            _print_work(result, args.entry, args.input)
    return 0


def _check_rules(path: Path, cases: int) -> int:
    """A line for each rule of a file, or the program in which it is wrong; 1 if there is one."""
    from futad.errors import UsageError
    from futad.strategies import load_schedule
    from futad.testing.rules import __main__ as soundness

    rules = load_schedule(path).rules
    if not rules or cases < 1:
        raise UsageError(f"{path} has no rules" if not rules else "--cases is at least 1")
    return 1 if soundness.run(rules, cases, 0, exact=False) else 0


def _list(target: Target) -> int:
    """The passes that run for a target."""
    from futad.pipeline import passes_of

    for p in passes_of(target):
        where = [f"if {p.after} changes the program"] if p.after else []
        where += [f"for programs with {' and '.join(c.__name__ for c in p.needs)}"] if p.needs else []
        print(f"{p.name:<24} {', '.join(where)}".rstrip())
    return 0


def _why_memory(program: Program, target: Target) -> int:
    """What is known without a call of the loops whose derivatives have a budget."""
    from futad.core.ir import Measure, statements
    from futad.pipeline import compile_program
    from futad.runtime.explain import NOTHING, first_line

    made = compile_program(program, target=target, stop_after="ad")
    found = [s.exp for f in made.funs.values() for s in statements(f.body.stms) if isinstance(s.exp, Measure)]
    print("\n".join(dict.fromkeys([first_line(e.facts) for e in found])) or NOTHING)
    return 0


def _explain(program: Program) -> int:
    """A line per accumulator: what the pass accs made of it, and why."""
    from futad.accs.reduce import accs
    from futad.pipeline import COMMON, compile_program

    report: list[str] = []
    accs(compile_program(program, stop_after=COMMON), report=report)
    print("\n".join(report) if report else "no accumulators")
    return 0


def _print_times(trace: Trace) -> None:
    print(f"{'pass':<20} {'ms':>9} {'statements':>11}")
    for r in trace.records:
        print(f"{r.name:<20} {r.seconds * 1e3:>9.1f} {r.statements:>11}")
    print(f"{'all':<20} {sum(r.seconds for r in trace.records) * 1e3:>9.1f}")


def _print_hits(trace: Trace) -> None:
    assert trace.rules is not None
    print(f"{'rule':<36} {'hits':>8} {'tries':>8} {'ms':>9}")
    for name, count, tries, seconds in trace.rules.table():
        print(f"{name:<36} {count:>8} {tries:>8} {seconds * 1e3:>9.1f}")


def _entry(program: Program, name: str) -> Fun:
    from futad.api.program import unknown_entry
    from futad.errors import UsageError

    entries = {f.entry.name: f for f in program.funs.values() if f.entry is not None}
    if name not in entries:
        raise UsageError(unknown_entry(program.name, name, entries))
    return entries[name]


def _arguments(fun: Fun, source: str) -> list[Any]:
    from futad.runtime.inputs import read_arguments, read_data_file, read_stdin
    from futad.runtime.values import signature_of

    data = read_stdin() if source == "-" else read_data_file(Path(source))
    return read_arguments(signature_of(fun), data, "<stdin>" if source == "-" else source)


def _print_cost(args: argparse.Namespace) -> int:
    """What a call costs on a device."""
    from futad.backend.device_cost import count
    from futad.flatten import flatten
    from futad.pipeline import compile_program
    from futad.target import CUDA

    program = compile_program(options.load_core(args.file, options.budget_of(args)), target=CUDA)
    fun = _entry(program, args.entry)
    sys.stdout.write(count(flatten(program), program, fun.name, _sizes(args, fun)).table())
    return 0


def _sizes(args: argparse.Namespace, fun: Fun) -> dict[str, int]:
    """Sizes and integer parameters by name."""
    from futad.errors import UsageError

    sizes: dict[str, int] = {}
    if args.size is not None:
        for part in args.size.split(","):
            name, _, text = part.partition("=")
            try:
                sizes[name.strip()] = int(text)
            except ValueError:
                raise UsageError(f"--size {part!r}: NAME=NUMBER is meant") from None
        if min(sizes.values()) < 0:
            raise UsageError(f"--size {args.size}: a size is negative")
        return sizes
    values = _arguments(fun, args.input) if args.input is not None else _first_case(args, fun)
    for p, x in zip(fun.body.params, values, strict=True):
        if getattr(p.type, "is_integral", False):
            sizes[p.name] = int(x)
    return sizes


def _first_case(args: argparse.Namespace, fun: Fun) -> list[Any]:
    """The arguments of the entry's first test case."""
    from futad.api.program import load
    from futad.errors import UsageError
    from futad.testing.blocks import read_test_file
    from futad.testing.inputs import make_input

    cases = [c for c in read_test_file(Path(args.file)).cases if c.entry == args.entry]
    if not cases:
        names = ",".join(f"{p.name}=..." for p in fun.body.params[: fun.num_sizes])
        raise UsageError(f"there is no test case for {args.entry}: sizes are needed", hint=f"--size {names}")
    program = load(args.file, backend="interp")
    return list(make_input(program, program[args.entry], cases[0]))


def _print_work(program: Program, entry: str, source: str) -> None:
    from futad.core.interp import Interpreter

    fun = _entry(program, entry)
    interpreter = Interpreter(program, count=True)
    interpreter.run(fun.name, _arguments(fun, source))
    print(f"{'construct':<20} {'operations':>14} {'read':>14} {'written':>14}")
    rows = sorted(interpreter.counts.items())
    for kind, w in rows:
        print(f"{kind:<20} {w.ops:>14} {w.read:>14} {w.written:>14}")
    totals = [sum(getattr(w, f) for _, w in rows) for f in ("ops", "read", "written")]
    print(f"{'all':<20} {totals[0]:>14} {totals[1]:>14} {totals[2]:>14}")
