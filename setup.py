"""Only what pyproject.toml cannot say: `kernels/`, `datasets/`, `benchmarks/programs/` and the page of errors travel in
the wheel under `futad/`."""

from setuptools import find_namespace_packages, setup

FOLDERS = {"futad.kernels": "kernels", "futad.datasets": "datasets", "futad.programs": "benchmarks/programs",
           "futad.docs": "docs"}  # fmt: skip

setup(
    packages=[*find_namespace_packages(include=["futad", "futad.*"]), *FOLDERS],
    package_dir=FOLDERS,
    package_data={
        "futad": ["py.typed", "**/*.lark", "**/*.tables", "**/*.fut"],
        "futad.kernels": ["*.h", "*.c", "*.cu", "*.cuh"],
        "futad.datasets": ["*.txt"],
        "futad.programs": ["*.fut"],
        "futad.docs": ["errors.md"],
    },
)
