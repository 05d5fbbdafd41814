"""Lowering of the core IR to an imperative one: loops over flat buffers, with memory planned."""
