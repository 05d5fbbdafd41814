"""Passes that change the structure of a program: inlining, fusion, hoisting."""
