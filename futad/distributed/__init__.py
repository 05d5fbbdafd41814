"""Entries over data split along a size, on one machine or on several: see docs/distributed.md.

    D = futad.distributed.shard(prog.objective, over="n", engine="dask", client=client)
    value, gradient = D.value_and_grad(means, points)
"""

from futad.distributed.recipes import Recipe, parquet, rows
from futad.distributed.sharded import Report, Sharded, shard

__all__ = ["Recipe", "Report", "Sharded", "parquet", "rows", "shard"]
