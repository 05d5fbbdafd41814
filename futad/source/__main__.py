"""Writes the parser's tables beside the grammar: `python -m futad.source`, after each change of `grammar.lark`."""

from futad.source.parse import TABLES, shipped_tables

if __name__ == "__main__":
    TABLES.write_bytes(shipped_tables())
