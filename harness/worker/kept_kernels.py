"""Triton's cache with a second place to look: the kernels that earlier runs of the same submission have compiled."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from triton import knobs
from triton.runtime.cache import FileCacheManager

_folder = Path()


class _Kept(FileCacheManager):  # type: ignore[misc]  # Triton has no types
    """Finds what is kept below `_folder`; writes, as ever, to the cache of this run."""

    def get_file(self, filename: str) -> str | None:
        own: str | None = super().get_file(filename)
        kept = _folder / self.key / filename
        return own or (str(kept) if kept.exists() else None)

    def get_group(self, filename: str) -> dict[str, str] | None:
        own: dict[str, str] | None = super().get_group(filename)
        return own or self._kept_group(filename)

    def _kept_group(self, filename: str) -> dict[str, str] | None:
        # Triton's list of the files of a kernel says where they lay when they were made; they lie beside it.
        folder = _folder / self.key
        try:
            files = json.loads((folder / f"__grp__{filename}").read_bytes())["child_paths"]
            found = {name: str(folder / os.path.basename(path)) for name, path in files.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return found if all(map(os.path.exists, found.values())) else None


def install(folder: Path) -> None:
    """Before a submission is imported: from now on this process finds the kernels kept in `folder`."""
    global _folder
    _folder = folder
    manager: Any = _Kept
    knobs.cache.manager_class = manager
