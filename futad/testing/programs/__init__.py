"""Random programs, reproducible from a seed: of the core IR (`core`), and of the source language (`source`)."""
