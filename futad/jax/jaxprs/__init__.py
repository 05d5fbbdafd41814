"""Functions of JAX as programs of futad: from jaxprs to the core IR.

`program.py` makes an entry of a function; `specs.py` reads what it is compiled for; `importer.py` walks the equations
and asks the table of rules (`table.py`), a file a kind of primitive; `lifted.py` has the values that rules work on.
"""
