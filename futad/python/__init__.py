"""Programs written in Python: functions of traced arrays become Futhark text, which is compiled as any other.

`function.py` traces and compiles; `numpy` (that is `futad.numpy`) is what such functions are written with.
"""
