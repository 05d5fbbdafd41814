"""The device backends: `cuda` (a GPU through CuPy) and `emulated` (the same kernels on the CPU)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.backend.device_emit import emit_kernels
from futad.backend.device_host import HostEmitter
from futad.core import ir as core
from futad.flatten import flatten
from futad.runtime.clib import CPlace
from futad.runtime.device import CupyDevice, Device, EmulatedDevice
from futad.runtime.host import DeviceProgram, KernelInfo, Layout


class DeviceBackend:
    """A program compiled for a device: `source` is the CUDA C, `host` the Python around it."""

    def __init__(self, program: core.Program) -> None:
        self.program = program
        self.module = flatten(program)
        self.source, self.names = emit_kernels(self.module)
        emitter = HostEmitter({k: i for i, k in enumerate(self.module.kernels)})
        functions = {}
        for i, f in enumerate(self.module.functions):
            emitter.function(f, f"entry_{i}")
            functions[f.name] = (f"entry_{i}", tuple([(p.type.dtype, p.rank) for p in f.params]))
        self.host = "\n".join(emitter.lines) + "\n"
        self.constants = emitter.constants
        self.layout = Layout(functions, tuple([self._info(k) for k in self.module.kernels]), self._places())
        self._running: DeviceProgram | None = None

    def _info(self, k: Any) -> KernelInfo:
        order = [name for name, _, _ in k.params]
        scratch = tuple([(order.index(s.name), s.elem.bytes, s.slot, s.per_block) for s in k.scratch])
        params = tuple([None if pointer else t.dtype for _, t, pointer in k.params])
        return KernelInfo(self.names[k], k.kind, params, scratch, k.fails)

    def _places(self) -> tuple[CPlace, ...]:
        return tuple([CPlace(p.span, p.message, p.types) for p in self.module.places])

    def on(self, device: Device) -> DeviceProgram:
        """The program made ready on a device."""
        self._running = DeviceProgram(device, self.layout, self.source, self.host, self.constants)
        return self._running

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """Run an entry; see `DeviceProgram.run`."""
        assert self._running is not None, "no device was chosen"
        return self._running.run(name, args)


def device_backend(program: core.Program, name: str) -> DeviceBackend:
    """The program on the device of backend `name`, 'cuda' or 'emulated'.  Raises BackendError."""
    device: Device = CupyDevice() if name == "cuda" else EmulatedDevice()
    made = DeviceBackend(program)
    made.on(device)
    return made
