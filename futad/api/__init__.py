"""What `import futad` gives: programs and their entries (`program.py`), and derivatives of these (`derivatives.py`)."""

from futad.api.program import Function, Program, compile, load

__all__ = ["Function", "Program", "compile", "load"]
