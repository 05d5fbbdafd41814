"""What `import futad` gives: programs and their entries (`program.py`), and derivatives of these (`derivatives.py`)."""
