"""From the imperative IR to C-like text, and objects that run it."""
