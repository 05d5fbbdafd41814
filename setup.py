"""Only what pyproject.toml cannot say: `kernels/` travels in the wheel as `futad/kernels/`."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["futad", "futad.*"]), "futad.kernels"],
    package_dir={"futad.kernels": "kernels"},
    package_data={"futad": ["py.typed", "**/*.lark", "**/*.fut"], "futad.kernels": ["*.h", "*.c", "*.cu"]},
)
