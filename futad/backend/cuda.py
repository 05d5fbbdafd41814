"""The device backends: `cuda` (a GPU through CuPy) and `emulated` (the same kernels on the CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.backend.device_emit import emit_kernels, without_numbers
from futad.backend.device_host import HostEmitter
from futad.backend.device_index import narrow_params
from futad.checks import MEMORY, VALUES, modes
from futad.core import ir as core
from futad.core.failure import FailureSite
from futad.core.measures import Measured
from futad.deep import deep
from futad.flatten import flatten
from futad.flatten import kernel as kir
from futad.imp.ir import ONE, Expr, Num, Ref
from futad.imp.report import NO_REPORTS, Reports
from futad.runtime.device import Device, EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from futad.runtime.host import KernelInfo, Layout, ProductInfo, Runtime
from futad.target import CUDA, Target

HEAP = 2048  # bytes a thread, of what threads have for arrays whose sizes they compute


class DeviceBackend:
    """A program compiled for a device, which all passes of one have seen: `source` is the CUDA C, `host` the Python
    around it.  `carries` are the checks of docs/checking.md that the code carries, by default those that FUTAD_CHECK
    names."""

    fresh = False

    @deep
    def __init__(
        self, program: core.Program, carries: frozenset[str] | None = None, target: Target = CUDA
    ) -> None:
        """`carries`: the checks that the program is made for (docs/checking.md), by default those of FUTAD_CHECK that
        any device can do; that of memory is for a `CheckedDevice`."""
        self.program = program
        carries = modes() - {MEMORY} if carries is None else carries
        checked = VALUES in carries
        self.memory_checked = MEMORY in carries
        self.reports = Reports() if checked else NO_REPORTS
        self.module = flatten(program, self.reports, self.memory_checked, target)
        self.plan = self.reports.plan()
        self.source, self.names = emit_kernels(self.module, self.memory_checked)
        numbers = {k: i for i, k in enumerate(self.module.kernels)}
        emitter = HostEmitter(numbers, self.reports if checked else None, bool(self.module.sites))
        functions = {}
        for i, f in enumerate(self.module.functions):
            emitter.function(f, f"entry_{i}")
            kinds = tuple([(p.type.dtype, p.rank) for p in f.params])
            functions[f.name] = (f"entry_{i}", kinds, tuple([p.name for p in f.params]))
        self.host = "\n".join(emitter.lines) + "\n"
        self.constants = emitter.constants
        kernels = tuple([self._info(k) for k in self.module.kernels])
        named = tuple(self.module.bindings), tuple(self.module.loops)
        self.layout = Layout(functions, kernels, self._places(), *named, self.module.sites)
        self._running: DeviceProgram | None = None

    def _info(self, k: Any) -> KernelInfo:
        order = [name for name, _, _ in k.params]
        unit = kir.WARP if k.kind == "warp" else 0
        scratch = tuple([(order.index(s.name), s.elem.bytes, s.slot, s.threads or unit) for s in k.scratch])
        params = tuple([None if pointer else t.dtype for _, t, pointer in k.params])
        narrow = narrow_params(k)
        indices = tuple([i for i, name in enumerate(order) if name in narrow])
        what = without_numbers(k.what)
        heap = None if not k.local_slots else 0 if self.memory_checked else HEAP  # malloc is what is checked
        return KernelInfo(self.names[k], k.kind, params, scratch, k.fails, _product(k), indices, what, k.line, heap)

    def _places(self) -> tuple[FailureSite, ...]:
        return tuple(self.module.places)

    def on(self, device: Device) -> DeviceProgram:
        """The program made ready on a device."""
        values = None
        if self.reports is not NO_REPORTS:
            from futad.runtime.valuecheck import ValueCheck

            values = ValueCheck(self.program, self.plan)
        runtime = Runtime
        if self.memory_checked:
            from futad.runtime.checked import CheckedRuntime

            runtime = CheckedRuntime
        self._running = DeviceProgram(device, self.layout, self.source, self.host, self.constants, values, runtime)
        return self._running

    @property
    def running(self) -> DeviceProgram:
        """The program on its device."""
        assert self._running is not None, "no device was chosen"
        return self._running

    def measured(self) -> list[Measured]:
        """What the last call told of itself."""
        return self.running.measured()

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry; see `DeviceProgram.run`."""
        return self.running.run(name, args)


def device_backend(program: core.Program, target: Target) -> DeviceBackend:
    """The program on the device of that target, 'cuda' or 'emulated'.  Raises BackendError, and UsageError where what
    a schedule asks for is impossible."""
    name = target.name
    device = open_device(name)
    carries = modes() if name == "emulated" else modes() - {MEMORY}
    if MEMORY in carries:
        from futad.runtime.checked import CheckedDevice

        device = CheckedDevice()
    made = DeviceBackend(program, carries, target)
    made.on(device)
    return made


def open_device(name: str) -> Device:
    """The device of backend `name`, 'cuda' or 'emulated'.  Raises BackendError."""
    if name == "emulated":
        return EmulatedDevice()
    from futad.runtime.cupydevice import CupyDevice

    return CupyDevice()


def _product(k: kir.Kernel) -> ProductInfo | None:
    """The matrix product that a kernel is; None if it is or does anything else."""
    if k.kind != "tile" or len(k.body) != 1 or not isinstance(k.body[0], kir.Tile):
        return None
    s = k.body[0]
    if s.functors or s.splits != ONE:
        return None
    places = {name: i for i, (name, _, _) in enumerate(k.params)}

    def source(e: Expr) -> tuple[int, int]:
        if isinstance(e, Num):
            return -1, int(e.value)
        assert isinstance(e, Ref)
        return places[e.name], 0

    def matrix(x: kir.Matrix) -> tuple[int, Any, Any, Any]:
        step, row, column = x.steps
        return places[x.pointer], source(row), source(column), source(step)

    m, n, depth = [source(x) for x in s.sizes]
    a, b, c = [matrix(x) for x in s.matrices]
    return ProductInfo(s.elem.dtype, (m, n, depth), a, b, c, source(s.batches), s.accumulate)
