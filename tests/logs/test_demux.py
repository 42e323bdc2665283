from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.logs.shapes import LOGS, SAMPLE_LOG, cut, only, snapshot_of, training
from trainer.progress import waiting_line
from tui.logs.demux import Demux
from tui.logs.dialects.dialect import LONGEST_BYTES
from tui.logs.snapshot import Snapshot


def rows_of(snapshot: Snapshot) -> list[tuple[object, ...]]:
    """Return everything a snapshot holds, in comparable form (nan as text)."""
    rows = [tuple(sorted(row.to_json().items(), key=str)) for row in snapshot.rows()]
    return [*rows, (snapshot.lines, snapshot.samples, snapshot.workers, snapshot.epochs, repr(snapshot.facts))]


class TestTheSampleLog:
    snapshot = snapshot_of(SAMPLE_LOG.read_bytes().rstrip(b"\n"))

    def test_holds_sixteen_ordinals_sorted(self) -> None:
        assert [row.core for row in self.snapshot.rows()] == [0, 1, 2, *range(6, 16), 20, 22, 23]

    def test_has_four_workers_one_of_them_without_a_training_line(self) -> None:
        workers = [(worker.worker, worker.address, worker.cores) for worker in self.snapshot.workers]
        assert workers == [
            (0, "10.164.0.43", 5),
            (1, "10.164.0.109", 8),
            (2, "10.164.0.46", 3),
            (3, "10.164.0.49", 0),
        ]

    def test_gives_every_field_of_a_row(self) -> None:
        assert self.snapshot.rows()[-1].to_json() == {
            "core": 23,
            "device": "xla:0",
            "worker": 2,
            "address": "10.164.0.46",
            "epoch": 1,
            "step": 0,
            "loss": 6.875,
            "rate": 165.86,
            "global_rate": 165.86,
            "time": "2020-08-06T02:38:57",
            "clock": "02:38:57",
            "lag": 0,
            "state": "training",
            "rate_unit": "examples/s",
            "pace": 1.779805,
            "first_nan": None,
        }

    def test_has_the_facts_of_the_cluster(self) -> None:
        cluster = self.snapshot.facts["cluster"]
        assert (cluster["accelerator_type"], cluster["tpu"], cluster["service_workers"]) == (
            "v3-32",
            "my-tpu-slice",
            4,
        )
        assert cluster["clients"][3]["hostname"] == "my-instance-group-zp14"

    def test_counts_its_lines(self) -> None:
        assert (self.snapshot.lines, self.snapshot.samples) == (72, 16)


class TestChunks:
    @given(LOGS, st.lists(st.integers(0, 3000), max_size=20))
    def test_any_cut_of_any_bytes_gives_the_same(self, data: bytes, places: list[int]) -> None:
        whole, parts = Demux(), Demux()
        whole.feed(None, data)
        for chunk in cut(data, places):
            parts.feed(None, chunk)
        whole.finish()
        parts.finish()
        assert rows_of(parts.snapshot()) == rows_of(whole.snapshot())

    @given(st.lists(LOGS, min_size=2, max_size=4), st.randoms(use_true_random=False))
    def test_any_interleaving_of_workers_gives_each_its_own_samples(self, logs: list[bytes], rng: object) -> None:
        together = Demux()
        queues = [cut(data, [rng.randrange(2000) for _ in range(5)]) for data in logs]  # type: ignore[attr-defined]
        while any(queues):
            worker = rng.choice([place for place, queue in enumerate(queues) if queue])  # type: ignore[attr-defined]
            together.feed(worker, queues[worker].pop(0))
        together.finish()
        alone = []
        for worker, data in enumerate(logs):
            demux = Demux()
            demux.feed(worker, data)
            demux.finish()
            alone.append(demux.snapshot())
        assert together.snapshot().samples == sum(snapshot.samples for snapshot in alone)
        counted = {worker.worker: worker.samples for worker in together.snapshot().workers}
        assert counted == {place: snapshot.samples for place, snapshot in enumerate(alone) if logs[place]} | {
            place: 0 for place in range(len(logs)) if not logs[place] and place in counted
        }

    def test_a_stream_can_be_read_one_byte_at_a_time(self) -> None:
        demux = Demux()
        for byte in SAMPLE_LOG.read_bytes():
            demux.feed(None, bytes([byte]))
        assert len(demux.snapshot()) == 16

    def test_fifty_megabytes_without_a_line_end_are_held_in_little_memory(self) -> None:
        demux = Demux()
        held = 0
        for _ in range(800):
            demux.feed(0, b"x" * LONGEST_BYTES)
            held = max(held, sum(stream.held_bytes for stream in demux._streams.values()))
        demux.feed(0, b"\n" + training(core=3).encode() + b"\n")
        snapshot = demux.snapshot()
        assert held <= 5 * LONGEST_BYTES
        assert [row.core for row in snapshot.rows()] == [3]
        assert snapshot.overlong == 1

    def test_the_end_of_an_endless_line_is_still_read(self) -> None:
        demux = Demux()
        demux.feed(0, b"\x00" * 10 * LONGEST_BYTES)
        demux.feed(0, training(core=7).encode() + b"\n")
        assert [row.core for row in demux.snapshot().rows()] == [7]


class TestTorchXla:
    def test_new_line(self) -> None:
        row = only(training(core=14, step=20, device=1))
        assert (row.core, row.device, row.epoch, row.step, row.loss, row.rate, row.global_rate, row.clock) == (
            14, "xla:1", 1, 20, 6.875, 258.47, 250.0, "02:38:57",
        )  # fmt: skip
        assert (row.worker, row.address, row.time) == (None, None, None)

    @pytest.mark.parametrize(("text", "shown"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf")])
    def test_a_loss_that_is_no_number_is_shown_and_flagged(self, text: str, shown: str) -> None:
        row = only(training(loss=text))
        assert row.to_json()["loss"] == shown
        assert row.state == "nan"

    def test_epoch_may_be_absent(self) -> None:
        row = only(training(core=2, step=5, epoch=None))
        assert (row.core, row.epoch, row.step) == (2, None, 5)

    def test_old_line_carries_its_date(self) -> None:
        row = only("[xla:1/0](20) Loss=0.03076 Rate=51.78 GlobalRate=50.18 Time=Wed Dec  4 01:41:29 2019")
        assert (row.core, row.device, row.step, row.loss) == (0, "xla:1", 20, 0.03076)
        assert (row.time, row.clock) == ("2019-12-04T01:41:29", "Wed Dec  4 01:41:29 2019")

    def test_old_line_with_the_ordinal_only(self) -> None:
        row = only("[xla:5](100) Loss=2.92953 Rate=0.86 GlobalRate=0.72 Time=Sat Jul 25 15:44:27 2020")
        assert (row.core, row.device, row.step) == (5, None, 100)

    def test_glued_lines_are_two_samples(self) -> None:
        snapshot = snapshot_of("|" + training(core=3), training(core=4)[1:])
        assert [row.core for row in snapshot.rows()] == [3, 4]
        assert len(snapshot_of(training(core=3) + training(core=4))) == 2

    @pytest.mark.parametrize(
        "line",
        [
            "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.001",
            "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.00100 Rate=42.00 GlobalRate=42.",
            "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=0.00100 Rate=42.00 GlobalRate=42.00 Time=02:38",
            "| Training Device=xla:0/3 Epoch=1 Step=680 Loss=1.2.3 Rate=42.00 GlobalRate=42.00 Time=02:38:57",
            "[xla:0](0) Acc=0.84375 Rate=0.00 GlobalRate=0.00 Time=Sat Jul 25 15:44:27 2020",
            "[xla:2] Accuracy=20.83%",
            "  Rate: 0.0417158 / second",
            "    Accumulator: nanB",
            "wandb:      Training/loss_tot 2.40747",
            'print0(f"step:{step+1}/{args.num_iterations} loss:{loss}")',
            "| Validation Device=xla:0/3 Epoch=1 Step=1 Loss=1.0 Rate=1.0 GlobalRate=1.0 Time=02:38:57",
        ],
    )
    def test_lines_that_look_like_samples_and_are_none(self, line: str) -> None:
        assert snapshot_of(line).samples == 0

    def test_an_evaluation_row_shows_the_core_but_is_no_step(self) -> None:
        row = only("| Test Device=xla:0/1 Step=20 Epoch=1 Accuracy=71.20 Time=22:03:40")
        assert (row.core, row.step, row.loss, row.state) == (1, None, None, "waiting")
        assert only(training(core=1), "| Test Device=xla:0/1 Step=99 Epoch=9 Accuracy=71.20 Time=22:03:40").step == 0

    def test_a_line_is_read_among_escapes_and_noise(self) -> None:
        noise = b"\x1b[36m(RayTrainWorker pid=122107)\x1b[0m " + training(core=5).encode() + b"\xff\xfe\x00"
        assert only(noise).core == 5

    def test_a_line_after_redrawn_progress_keeps_the_lines_worker(self) -> None:
        line = b"2020-08-06 02:38:57 10.164.0.43 [7] 100 19\r100 20\r" + training(core=5).encode()
        assert (only(line).worker, only(line).time) == (7, "2020-08-06T02:38:57")


class TestWorkers:
    sample = training(core=9)

    @pytest.mark.parametrize(
        ("prefix", "worker", "address", "time"),
        [
            ("2020-08-06 02:38:57 10.164.0.109 [1] ", 1, "10.164.0.109", "2020-08-06T02:38:57"),
            ("10.164.0.109 [1] ", 1, "10.164.0.109", None),
            ("[1] ", 1, None, None),
            ("", None, None, None),
        ],
    )
    def test_four_forms_of_the_prefix(
        self, prefix: str, worker: int | None, address: str | None, time: str | None
    ) -> None:
        row = only(prefix + self.sample)
        assert (row.worker, row.address, row.time) == (worker, address, time)

    def test_a_bracketed_number_in_a_bare_stream_is_no_worker(self) -> None:
        snapshot = snapshot_of("[20] is where it stands", self.sample)
        assert [worker.worker for worker in snapshot.workers] == [None]

    def test_a_short_prefix_counts_once_the_stream_is_known(self) -> None:
        snapshot = snapshot_of("2020-08-06 02:38:29  [] Command to distribute: x", "[3] ==> Preparing data..")
        assert [worker.worker for worker in snapshot.workers] == [3]

    def test_one_number_on_many_addresses_counts_by_address(self) -> None:
        lines = [
            f"2020-06-11 20:49:13 10.164.15.{host} [0] " + training(core=core)
            for core, host in enumerate((222, 9, 40))
        ]
        rows = snapshot_of(*lines).rows()
        assert [(row.worker, row.address) for row in rows] == [
            (0, "10.164.15.222"), (1, "10.164.15.9"), (2, "10.164.15.40"),
        ]  # fmt: skip

    def test_in_a_run_the_stream_is_the_worker(self) -> None:
        demux = Demux(addresses={2: "10.0.0.3"})
        demux.feed(2, f"{self.sample}\n[20] {self.sample}\n".encode(), now=1_600_000_000.25)
        (row,) = demux.snapshot(now=1_600_000_001.0).rows()
        assert (row.worker, row.address, row.time) == (2, "10.0.0.3", "2020-09-13T12:26:40.250Z")

    def test_a_core_that_moves_is_shown_where_it_is_now(self) -> None:
        demux = Demux()
        for worker, step in ((0, 0), (0, 10), (1, 20), (1, 30)):
            demux.feed(worker, training(core=4, step=step).encode() + b"\n")
        (row,) = demux.snapshot().rows()
        assert (row.worker, row.step) == (1, 30)

    def test_one_torn_line_does_not_move_a_core(self) -> None:
        demux = Demux()
        for worker, step in ((0, 0), (0, 10), (1, 10), (0, 20), (0, 30)):
            demux.feed(worker, training(core=4, step=step).encode() + b"\n")
        (row,) = demux.snapshot().rows()
        assert (row.worker, row.step) == (0, 30)

    def test_the_same_ordinals_on_several_workers_at_once_are_cores_of_each(self) -> None:
        demux = Demux()
        for step in (0, 10, 20):
            for worker in (0, 1):
                demux.feed(worker, training(core=4, step=step).encode() + b"\n")
        assert [(row.core, row.worker) for row in demux.snapshot().rows()] == [(4, 0), (4, 1)]

    def test_two_devices_that_alternate_under_an_ordinal_are_one_core(self) -> None:
        snapshot = snapshot_of(*(training(core=3, device=step % 2, step=step) for step in range(10)))
        (row,) = snapshot.rows()
        assert (row.step, row.device) == (9, "xla:1")

    def test_many_devices_under_one_ordinal_are_cores_of_their_own(self) -> None:
        lines = [
            f"2020-06-11 20:49:13 10.164.15.{host} [0] " + training(core=0, device=device, step=step, epoch=None)
            for step in (0, 10)
            for host in (1, 2)
            for device in range(1, 9)
        ]
        rows = snapshot_of(*lines).rows()
        assert len(rows) == 16
        assert {(row.worker, row.device) for row in rows} == {(w, f"xla:{d}") for w in (0, 1) for d in range(1, 9)}

    def test_a_prefix_glued_into_a_line_names_the_worker_of_what_follows(self) -> None:
        line = f"2020-08-06 02:38:57 10.164.0.43 [0] abc2020-08-06 02:38:58 10.164.0.109 [1] {self.sample}"
        assert (only(line).worker, only(line).time) == (1, "2020-08-06T02:38:58")


class TestEpochs:
    def test_figures_of_an_epoch_come_from_the_jobs_own_lines(self) -> None:
        snapshot = snapshot_of(
            "Epoch 8 train begin 18:01:42",
            "Epoch 8 train end 18:02:10, Epoch Time=1 day, 0:00:28, "
            "Replica Train Samples=39664, Reduced GlobalRate=45676.50",
            "Epoch 8 test end 18:02:14, Reduced Accuracy=36.84%, Replica Accuracy=36.10%, Replica Test Samples=1563",
            "Max Accuracy: 37.84%",
            "Total Train Time: 0:41:25",
            "Avg. Global Rate: 48718.11 examples per second",
        )
        (epoch,) = snapshot.epochs
        assert epoch.to_json() == {
            "epoch": 8, "train_began": "18:01:42", "train_ended": "18:02:10", "seconds": 86_428.0,
            "replica_samples": 39664, "reduced_global_rate": 45676.5, "test_ended": "18:02:14", "accuracy": 36.84,
            "replica_accuracy": 36.1, "replica_test_samples": 1563,
        }  # fmt: skip
        assert snapshot.max_accuracy == 37.84
        assert (snapshot.facts["total_train_time"], snapshot.facts["average_global_rate"]) == (2485.0, 48718.11)

    def test_the_trainers_own_line_holds_the_time_spent_waiting_for_data(self) -> None:
        assert snapshot_of(training()).data_wait_share is None
        lines = [waiting_line(1, [4.0, 8.0], 12.0), waiting_line(2, [0.5, 1.0], 10.0)]
        assert snapshot_of(training(), *lines).data_wait_share == 0.075

    def test_an_epoch_printed_after_its_samples_numbers_them_and_the_next_ones(self) -> None:
        lines = [training(core=core, step=step, epoch=None) for step in (0, 10) for core in range(3)]
        finished = [*lines, "Finished training epoch 4"]
        assert {row.epoch for row in snapshot_of(*lines).rows()} == {None}
        assert {row.epoch for row in snapshot_of(*finished).rows()} == {4}
        assert {
            row.epoch for row in snapshot_of(*finished, "Epoch 4 test end 23:13:16, Accuracy=100.00", *lines).rows()
        } == {5}

    def test_the_epoch_of_a_job_that_prints_no_steps_is_that_of_its_lines(self) -> None:
        snapshot = snapshot_of(*(f"epoch {epoch} | train_loss {2 / epoch:.5f} | time 9.5s" for epoch in (1, 2, 3)))
        assert (snapshot.median_epoch, snapshot.median_step) == (3, None)

    def test_an_epoch_printed_before_its_samples_numbers_them(self) -> None:
        lines = [training(core=core, step=step, epoch=None) for step in (0, 10) for core in range(3)]
        begun = ["Epoch 2 train begin 18:01:42", *lines]
        assert {row.epoch for row in snapshot_of(*begun).rows()} == {2}
        assert {row.epoch for row in snapshot_of(*begun, "Epoch 3 train begin 18:05:42", *lines).rows()} == {3}

    @pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
    def test_an_epochs_number_does_not_depend_on_which_workers_log_is_read_first(
        self, order: tuple[int, ...]
    ) -> None:
        demux = Demux()
        for worker in order:
            for epoch in (1, 2, 3):
                heading = [f"Epoch {epoch} train begin 18:01:42"] if worker == 0 else []
                samples = (training(core=worker, step=step, epoch=None) for step in (0, 10))
                demux.feed(worker, "".join(f"{line}\n" for line in (*heading, *samples)).encode(), now=1000.0)
        assert {row.epoch for row in demux.snapshot(now=1000.0).rows()} == {3}

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_a_restarted_job_names_its_epochs_again(self, order: tuple[int, ...]) -> None:
        demux = Demux()
        for attempt, epochs in enumerate([(1, 2), (2,)]):
            for worker, epoch in itertools.product(order, epochs):
                own = [f"Epoch {epoch} train begin 18:0{attempt}:42"] if worker == 0 else []
                own += [
                    training(core=worker, step=step, epoch=None, loss="nan" if attempt == 0 else "1")
                    for step in (0, 10)
                ]
                own += ["Total Train Time: 0:41:25"] if attempt == 0 else []
                demux.feed(worker, "".join(f"{line}\n" for line in own).encode(), now=1000.0)
            snapshot = demux.snapshot(now=1000.0)
            demux.restart()
        assert [(row.epoch, row.state, row.first_nan.epoch) for row in snapshot.rows()] == [(2, "training", 1)] * 2
        assert [epoch.train_began for epoch in snapshot.epochs] == ["18:00:42", "18:01:42"]
