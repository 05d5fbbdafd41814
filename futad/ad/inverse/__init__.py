"""Iterations of loops run backwards: the variables before an iteration, computed of those after it."""
