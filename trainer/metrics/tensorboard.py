"""Write TensorBoard's event files: the run's curves, in a directory or under gs://bucket/prefix.

tensorboardX's SummaryWriter cannot be used: its flush() does not wait for the writing thread, and an error ends that
thread silently. Its RecordWriter writes at once and raises.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from trainer.errors import TrainerError
from trainer.progress import write_error
from trainer.storage import objects

UPLOAD_TIMEOUT_S = 10.0  # all other replicas wait for an upload, and no longer than --timeout
RETRY_AFTER_S = 10 * UPLOAD_TIMEOUT_S  # until a bucket that failed is tried again: costs at most a tenth of the time
FILE_VERSION = "brain.Event:2"  # the format's version, in the first event of every file


class EventFile:
    """One replica's event file; a failure to write is reported, and the training continues.

    Cloud Storage cannot append to an object. A file for a bucket grows on this machine and is uploaded whole at each
    flush (a few kB per epoch); a later flush makes up for a failed one. That file is open but unlinked, so that
    it does not outlive the process.
    """

    def __init__(self, where: str | None, first_step: int = 0) -> None:
        """Open the file; with `where` None, nothing is written.

        Points that an earlier run wrote for `first_step` and later become void. Raises TrainerError.
        """
        self._where = where
        self._unlinked: IO[bytes] | None = None  # the file to upload
        self._writer: Any = None
        self._is_behind = False  # the bucket lacks what was flushed last
        self._tried = 0.0  # time of the last failure, by the monotonic clock
        if where is not None:
            self._begin(where, first_step)

    def add(self, step: int, **values: float) -> None:
        """Add points at a step of the whole run; `train_loss` goes to the curve train/loss."""
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

    def close(self) -> None:
        """Flush, and write no more."""
        self._tried = -math.inf
        self.flush()
        if self._is_behind:
            write_error(f"TensorBoard events were lost: they could not be uploaded to {self._where}.")
        self._close_files()

    def _begin(self, logdir: str, first_step: int) -> None:
        try:
            from tensorboardX.proto.event_pb2 import SessionLog
            from tensorboardX.record_writer import RecordWriter
        except ImportError as error:
            remedy = "Install it with: pip install tensorboardX, or leave --logdir out"
            raise TrainerError("--logdir needs tensorboardX", why=str(error), remedy=remedy) from error
        if objects.is_bucket(logdir):
            objects.list_names(logdir)  # without a network this fails sooner than the upload
        try:
            with contextlib.ExitStack() as stack:
                if objects.is_bucket(logdir):
                    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                else:
                    directory = Path(logdir)
                    directory.mkdir(parents=True, exist_ok=True)
                name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
                self._path = directory / name
                self._writer = RecordWriter(str(self._path))
                if objects.is_bucket(logdir):
                    self._unlinked = self._path.open("rb")
            self._write(file_version=FILE_VERSION)
            self._write(step=first_step, session_log=SessionLog(status=SessionLog.START))
            self._flush()
        except OSError as error:
            self._close_files()
            why, remedy = error.strerror or str(error), "Give another --logdir"
            raise TrainerError(f"Cannot write to {logdir}", why=why, remedy=remedy) from error
        except TrainerError:
            self._close_files()
            raise

    def _flush(self) -> None:
        if self._writer is None or self._where is None:
            return
        self._writer.flush()
        if self._unlinked is None:
            self._path.stat()  # raises if the file was removed: what is written to it would be lost
            return
        if self._is_behind and time.monotonic() - self._tried < RETRY_AFTER_S:
            return
        self._unlinked.seek(0)
        objects.write(objects.join(self._where, self._path.name), self._unlinked.read(), patience=UPLOAD_TIMEOUT_S)
        if self._is_behind:
            write_error(f"TensorBoard events are being uploaded to {self._where} again.")
        self._is_behind = False

    def _write(self, **fields: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        try:
            self._writer.write(Event(wall_time=time.time(), **fields).SerializeToString())
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._drop_writer()
        write_error(f"No more TensorBoard events are written to {self._where}: {error.strerror}.")

    def _warn_once(self, error: TrainerError) -> None:
        if not self._is_behind:
            write_error(f"TensorBoard events are not uploaded now; training continues. {error}")
        self._is_behind, self._tried = True, time.monotonic()

    def _close_files(self) -> None:
        self._drop_writer()
        if self._unlinked is not None:
            self._unlinked.close()

    def _drop_writer(self) -> None:
        self._writer, writer = None, self._writer
        if writer is not None:
            with contextlib.suppress(OSError):
                writer.close()
