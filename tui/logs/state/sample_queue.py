"""Samples queued for the table: single ones and those of blocks, merged in the order of their lines."""

from __future__ import annotations

from tui.logs._compat_numpy import Ints, np
from tui.logs.state.core_table import CoreTable
from tui.logs.state.samples import SAMPLE_FIELDS, Record, Samples, samples_from

_MOST = 4096
"""Most single samples that are gathered before they are added to the table."""


class SampleQueue:
    """Gathers samples; `flush` adds those of the lines read so far to the table."""

    def __init__(self, table: CoreTable) -> None:
        self.table = table
        self.line = 0
        """The current line of the current block."""
        self._records: list[Record] = []
        self._record_lines: list[int] = []
        self._block: Samples | None = None
        self._block_lines: Ints = np.zeros(0, np.int64)
        self._taken = 0

    def add(self, record: Record) -> None:
        """Add one sample of the current line."""
        self._records.append(record)
        self._record_lines.append(self.line)
        if len(self._records) >= _MOST:
            self.flush()

    def begin(self, samples: Samples, lines: Ints) -> None:
        """Add a block's samples with their lines; single samples added until `end` are merged with them by line."""
        self._record_lines = [-1] * len(self._records)
        self._block, self._block_lines, self._taken = samples, lines, 0

    def end(self) -> None:
        """Flush all samples of the block, which has been read to its end."""
        self.line = int(self._block_lines[-1]) + 1 if len(self._block_lines) else 0
        if self._record_lines:
            self.line = max(self.line, self._record_lines[-1] + 1)
        self.flush()
        self._block, self._block_lines, self.line = None, self._block_lines[:0], 0

    def flush(self) -> None:
        """Add the samples of lines before the current one, and those of the current one so far, to the table."""
        batches: list[Samples] = []
        lines: list[Ints] = []
        if self._block is not None:
            until = int(np.searchsorted(self._block_lines, self.line))
            if until > self._taken:
                is_whole = self._taken == 0 and until == len(self._block)
                batches.append(self._block if is_whole else self._block.part(slice(self._taken, until)))
                lines.append(self._block_lines[self._taken : until])
                self._taken = until
        if self._records:
            batches.append(samples_from(self._records))
            lines.append(np.array(self._record_lines, np.int64))
            self._records, self._record_lines = [], []
        if len(batches) == 1:
            self.table.update(batches[0])
        elif batches:
            order = np.argsort(np.concatenate(lines), kind="stable")
            columns = (np.concatenate([getattr(batch, name) for batch in batches])[order] for name in SAMPLE_FIELDS)
            self.table.update(Samples(*columns))
