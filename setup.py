"""Only what pyproject.toml cannot say: `kernels/` and `datasets/` travel in the wheel under `futad/`."""

from setuptools import find_namespace_packages, setup

setup(
    packages=[*find_namespace_packages(include=["futad", "futad.*"]), "futad.kernels", "futad.datasets"],
    package_dir={"futad.kernels": "kernels", "futad.datasets": "datasets"},
    package_data={
        "futad": ["py.typed", "**/*.lark", "**/*.fut"],
        "futad.kernels": ["*.h", "*.c", "*.cu", "*.cuh"],
        "futad.datasets": ["*.txt"],
    },
)
