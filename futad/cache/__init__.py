"""The on-disk cache of compiled code and of what else takes long to make; and folders for temporary files.

A compiled file is `KEY.EXT` with its checksum `KEY.EXT.sum`, in a folder named by the key's first letters; other data
is a file that begins with its checksum (`read`, `write`).  All are renamed into place, so a reader sees whole files;
the checksum, which covers the name too, catches what a full disk or a crash left behind.  A lock file a key lets one
process build while the others wait.

What is in the cache is run.  So the folder, those in it and the files must belong to this user (or to the system's
administrator), and nobody else may write to them: folders are made for the user alone, files of others are passed over,
and a folder that others can write to is not used at all, which a warning says.  A cache that cannot be used is replaced
by private folders that die with the process.

Files are built in a temporary folder, or beside the cache if there is no space for temporary files, and moved then: a
full disk costs the cached file, not the program.  What was not used for the longest time goes when the cache outgrows
its limit (`sweep.py`).
"""

from futad.cache.files import build_privately, digest, fetch, find, read, read_own, replace_file, write
from futad.cache.folders import FULL, cache_dir, folder, in_temporary_folder

__all__ = [
    "FULL", "build_privately", "cache_dir", "digest", "fetch", "find", "folder", "in_temporary_folder", "read",
    "read_own", "replace_file", "write",
]  # fmt: skip
