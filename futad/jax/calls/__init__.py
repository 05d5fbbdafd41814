"""Entries as functions of JAX arrays: what users call (`function.py`), the primitives with their rules
(`primitives.py`), entries on components (`entries.py`), the handler through which XLA calls compiled code
(`handler.py`, `kernels/xla_handler.c`)."""
