"""TensorBoard's event files: the run's curves, in a directory or under gs://bucket/prefix."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from trainer.errors import TrainerError
from trainer.progress import write_line
from trainer.storage import objects

UPLOAD_TIMEOUT_S = (
    10.0  # seconds for an upload: all other replicas wait for this one, and for no longer than --timeout
)
RETRY_AFTER_S = (
    10 * UPLOAD_TIMEOUT_S
)  # before a bucket that did not take them is tried again: a tenth of the time at most is lost


class EventFile:
    """One replica's event file; says what it cannot write, and lets the training go on.

    Written without a thread, by tensorboardX's record writer. Cloud Storage cannot append to an object: a file for a
    bucket grows on this machine, and is uploaded whole whenever it is flushed (a few kB an epoch); what the bucket
    does not take, it gets the next time. The file is open but has no name any more, so that nothing of it outlives
    the process.
    """

    def __init__(self, where: str | None, first_step: int = 0) -> None:
        """Open the file; with `where` None, nothing is written.

        Points that an earlier run wrote for `first_step` and later become void.
        """
        self._where = where
        self._nameless: IO[bytes] | None = None  # what is to be uploaded
        self._writer: Any = None
        self._behind = False  # the bucket lacks what was flushed last
        self._tried = 0.0  # when it did not take it, by the monotonic clock
        if where is not None:
            self._begin(where, first_step)

    def add(self, step: int, **values: float) -> None:
        """Points of curves at a step of the whole run; `train_loss` becomes the curve train/loss."""
        if self._writer is None:
            return
        from tensorboardX.proto.summary_pb2 import Summary

        points = [Summary.Value(tag=name.replace("_", "/", 1), simple_value=value) for name, value in values.items()]
        self._write(step=step, summary=Summary(value=points))

    def flush(self) -> None:
        """Make all that was added visible to readers."""
        try:
            self._flush()
        except OSError as error:
            self._give_up(error)
        except TrainerError as error:
            self._warn_once(error)

    def _flush(self) -> None:
        if self._writer is None or self._where is None:
            return
        self._writer.flush()
        if self._nameless is None:
            self._path.stat()  # fails where the file was removed: what is written to it is lost
            return
        if self._behind and time.monotonic() - self._tried < RETRY_AFTER_S:
            return
        self._nameless.seek(0)
        objects.write(objects.join(self._where, self._path.name), self._nameless.read(), patience=UPLOAD_TIMEOUT_S)
        if self._behind:
            write_line(f"The TensorBoard events are in {self._where} again", descriptor=2)
        self._behind = False

    def close(self) -> None:
        """Flush, and write no more."""
        self._tried = -math.inf
        self.flush()
        if self._behind:
            write_line(f"The TensorBoard events that {self._where} did not take are lost.", descriptor=2)
        self._close_files()

    def _begin(self, where: str, first_step: int) -> None:
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import SessionLog
        except ImportError as error:
            remedy = "Install it with: pip install tensorboardX, or leave --logdir out"
            raise TrainerError("--logdir needs tensorboardX", why=str(error), remedy=remedy) from error
        if objects.is_bucket(where):
            objects.list_names(where)  # where there is no network, this fails sooner than the upload
        try:
            with contextlib.ExitStack() as stack:
                if objects.is_bucket(where):
                    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                else:
                    directory = Path(where)
                    directory.mkdir(parents=True, exist_ok=True)
                self._writer = EventsWriter(str(directory / "events"))
                self._path = Path(self._writer._file_name)
                if objects.is_bucket(where):
                    self._nameless = self._path.open("rb")
            self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))
            self._flush()
        except OSError as error:
            self._close_files()
            why, remedy = error.strerror or str(error), "Give another --logdir"
            raise TrainerError(f"Cannot write to {where}", why=why, remedy=remedy) from error
        except TrainerError:
            self._close_files()
            raise

    def _write(self, **fields: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        try:
            self._writer.write_event(Event(wall_time=time.time(), **fields))
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._drop_writer()
        write_line(f"No more TensorBoard events are written to {self._where}: {error.strerror}.", descriptor=2)

    def _warn_once(self, error: TrainerError) -> None:
        if not self._behind:
            write_line(f"TensorBoard events have to wait, and the training does not. {error}", descriptor=2)
        self._behind, self._tried = True, time.monotonic()

    def _close_files(self) -> None:
        self._drop_writer()
        if self._nameless is not None:
            self._nameless.close()

    def _drop_writer(self) -> None:
        self._writer, writer = None, self._writer
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()
