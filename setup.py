"""Only what pyproject.toml cannot say: `kernels/`, `datasets/`, `benchmarks/programs/` and the page of errors travel in
the wheel under `futad/`."""

import sys

from setuptools import find_namespace_packages, setup

FOLDERS = {"futad.kernels": "kernels", "futad.datasets": "datasets", "futad.programs": "benchmarks/programs",
           "futad.docs": "docs"}  # fmt: skip
# `pip install -e` puts the checkout on Python's path, beside which these folders are found.  With them setuptools would
# install a finder instead that is asked after the path, when a clone named `futad` in the folder that Python was
# started in has been taken for a package without files.
IN_PLACE = "editable_wheel" in sys.argv or "develop" in sys.argv

setup(
    packages=[*find_namespace_packages(include=["futad", "futad.*"]), *(() if IN_PLACE else FOLDERS)],
    package_dir={"": "."} if IN_PLACE else FOLDERS,
    package_data={
        "futad": ["py.typed", "**/*.lark", "**/*.tables", "**/*.fut"],
        "futad.kernels": ["*.h", "*.c", "*.cu", "*.cuh"],
        "futad.datasets": ["*.txt"],
        "futad.programs": ["*.fut"],
        "futad.docs": ["errors.md"],
    },
)
