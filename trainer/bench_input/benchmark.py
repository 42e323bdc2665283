"""Measure WebDataset against single files on this machine: `python -m trainer.bench_input`.

The same images with the same augmentation (a random resized crop, a flip) come from A, separate files in random
order; B, local shards; C, the same shards streamed from a bucket; A', one object per image. These rows share one
decoder; other common loaders follow, with PIL, as in their documentation.

The object store is the real fake-gcs-server, and a proxy delays each request for the rows that ask for it. Rows take
turns, so that a busy machine slows all alike; ratios are medians of the ratios within each round. The server and the
proxy run on one core, and the rows A, B, C and A' on the others; the other loaders use all cores, and so do B, C and
A' where they are compared with them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from trainer.bench_input import object_store, peers, rows
from trainer.bench_input.cpu_affinity import Cores, available, keep_to, split_cores
from trainer.bench_input.fixtures import STOPS, lay_out
from trainer.bench_input.rows import Material, Row
from trainer.bench_input.table import DELAY_MS, Case, Measurement, Results, as_json, sweep_table, table
from trainer.config import LARGEST_SIDE, LARGEST_STRIDE, MOST_LOADERS
from trainer.data import loader_processes
from trainer.distributed.child_cleanup import die_with_parent
from trainer.errors import INTERRUPTED, REFUSED, TrainerError
from trainer.progress import write_error
from trainer.shards import command, image_folder, sources
from trainer.shards.writer import defer_signals

ROUNDS = 5
IMAGES = 8192  # at least two seconds of batches, so that the wait for the first shard counts little
SHARDS = 16  # that hold the images
FILES, SHARDED, STREAMED = "A  files, random order", "B  local shards", "C  shards from the bucket"
SINGLE = "A' an object an image"


# --- one measurement ------------------------------------------------------------------------------------------------


def measure(row: Row, material: Material, emulator: str | None, cores: Cores) -> tuple[float, float]:
    """Run one epoch in its own process; return samples per second and CPU microseconds per sample.

    Raises TrainerError.
    """
    context = multiprocessing.get_context("fork")  # the child does not import PyTorch again
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_run, args=(row, material, emulator, cores, sending))
    try:
        with defer_signals(STOPS):
            child.start()
        sending.close()
        answer = receiving.recv()
    except EOFError:
        answer = "its process ended without an answer"
    except KeyboardInterrupt:
        child.kill()
        raise
    finally:
        receiving.close()
        child.join()
    if isinstance(answer, str):
        raise TrainerError("Not measured", why=answer)
    samples, seconds, cpu = answer
    return samples / seconds, cpu / samples * 1e6


def _run(row: Row, material: Material, emulator: str | None, cores: Cores, answer: Any) -> None:
    import torch

    die_with_parent()
    keep_to(cores)
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
    torch.set_num_threads(1)
    if emulator is not None:
        os.environ["STORAGE_EMULATOR_HOST"] = emulator
    try:
        if material.loaders:
            loader_processes.wait_until_ready()
        epoch = row(material)
        started_at, cpu = time.perf_counter(), _cpu_seconds()
        samples = epoch()
        answer.send((samples, time.perf_counter() - started_at, _cpu_seconds() - cpu))
    except Exception as error:  # a peer that fails does not end the other rows
        answer.send(f"{type(error).__name__}: {error}")


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the loader processes that it has waited for."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def drop_page_cache(directory: Path) -> None:
    """Drop the pages of all files below from the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# --- what is measured -----------------------------------------------------------------------------------------------


def cases(*, cold: bool, with_peers: bool, store: bool) -> list[Case]:
    """Return all rows in the order of the table."""
    lacks = "" if store else "fake-gcs-server is not installed"
    listed = [Case(FILES, rows.from_files), Case(SHARDED, rows.from_shards)]
    listed += [Case(STREAMED, rows.from_bucket, delay, missing=lacks) for delay in (0.0, DELAY_MS)]
    listed += [Case(SINGLE, rows.from_single_objects, delay, missing=lacks) for delay in (0.0, DELAY_MS)]
    hurried = f"{SINGLE}, {rows.MANY_AT_ONCE} requests at once"
    listed.append(Case(hurried, rows.from_many_single_objects, DELAY_MS, missing=lacks))
    if cold:
        reason = "" if hasattr(os, "posix_fadvise") else "this system cannot empty its page cache"
        listed += [
            Case(FILES, rows.from_files, cold=True, missing=reason),
            Case(SHARDED, rows.from_shards, cold=True, missing=reason),
            Case(STREAMED, rows.from_bucket, DELAY_MS, cold=True, missing=reason or lacks),
        ]
    listed = [replace(case, apart=True) for case in listed]
    return listed + (peer_cases(lacks) if with_peers else [])


def peer_cases(lacks: str) -> list[Case]:
    """Return the rows of other loaders, mostly over local data, and of B, C and A' on all cores."""
    loaders = f"{peers.WORKERS} workers"
    return [
        Case(f"{SHARDED}, all cores", rows.from_shards),
        Case(f"{STREAMED}, all cores", rows.from_bucket, DELAY_MS, missing=lacks),
        Case(f"{SINGLE}, all cores", rows.from_single_objects, DELAY_MS, missing=lacks),
        Case(f"webdataset + PIL, {loaders}", peers.plain_webdataset),
        Case(f"webdataset + PIL over pipe:curl, {loaders}", peers.webdataset_by_curl, DELAY_MS, missing=lacks),
        Case(f"torchvision ImageFolder + DataLoader, {loaders}", peers.image_folder),
    ]


def select_cases(chosen: Sequence[Case], names: str) -> list[Case]:
    """Return the cases whose label contains one of these words (`A,B,C`, `cold`); raise TrainerError."""
    terms = [name.strip().lower() for name in names.split(",")]
    words_by_label = {case.label: set(re.split(r"[^\w']+", case.label.lower())) for case in chosen}
    for name in terms:
        if not any(name in words for words in words_by_label.values()):
            choices = ", ".join(dict.fromkeys(case.name for case in chosen))
            raise TrainerError(f"There is no row {name}", remedy=f"Name a word of a row: {choices}")
    return [case for case in chosen if words_by_label[case.label] & set(terms)]


# --- the experiment -------------------------------------------------------------------------------------------------


def experiment(
    material: Material, addresses: dict[float, str], store_files: Path | None, chosen: Sequence[Case], rounds: int
) -> Results:
    """Measure every case once a round; every other round runs in reverse, so that no case always follows another."""
    results = {case.label: Measurement(failure=case.missing) for case in chosen}
    beside, all_cores = split_cores()[0], available()
    with contextlib.suppress(TrainerError):  # loads the code, which the first row would pay for
        measure(chosen[0].row, material, None, all_cores)
    for number in range(rounds):
        for case in chosen[:: -1 if number % 2 else 1]:
            result = results[case.label]
            if result.failure:
                continue
            if case.cold:
                for directory in (material.files, Path(material.shards), *([store_files] if store_files else [])):
                    drop_page_cache(directory)
            try:
                address = None if case.delay is None else addresses[case.delay]
                rate, cpu = measure(case.row, case.material or material, address, beside if case.apart else all_cores)
            except TrainerError as error:
                result.failure = error.why
                continue
            result.rates.append(rate)
            result.cpu.append(cpu)
            write_error(f"round {number + 1} of {rounds}: {case.label}: {rate:,.0f} samples/s")
    return results


SWEPT: dict[str, tuple[int, ...]] = {
    "samples per shard": (32, 128, 512, 2048),
    "number of shards": (2, 4, 8, 16),
    "batch": (16, 64, 128, 256),
    "loader workers": (0, 1, 2),
}


def sweep(options: argparse.Namespace, rounds: int) -> dict[str, dict[int, Measurement]]:
    """Measure C at DELAY_MS while changing one variable at a time; the options give the others."""
    if object_store.binary() is None:
        raise TrainerError("There is nothing to sweep over", why="fake-gcs-server is not installed")
    with lay_out(options) as (material, addresses, _):
        source = image_folder.folder(material.files, 0.0, 1)
        chosen = {
            (variable, value): Case(
                f"{variable} {value}",
                rows.from_bucket,
                DELAY_MS,
                apart=True,
                material=_variant(material, source, variable, value),
            )
            for variable, values in SWEPT.items()
            for value in values
            if variable == "loader workers" or value <= material.images  # otherwise there are too few images
        }
        results = experiment(material, addresses, None, list(chosen.values()), rounds)
    measurements: dict[str, dict[int, Measurement]] = {variable: {} for variable in SWEPT}
    for (variable, value), case in chosen.items():
        measurements[variable][value] = results[case.label]
    return measurements


def _variant(material: Material, source: sources.ImageSource, variable: str, value: int) -> Material:
    if variable == "batch":
        return replace(material, batch=value)
    if variable == "loader workers":
        return replace(material, loaders=value)
    # Shards of other sizes hold the same images; another number of shards of one size holds fewer or more of them.
    per_shard = value if variable == "samples per shard" else max(1, material.images // max(SWEPT[variable]))
    count, sample_at = source.splits["train"]
    sample_count = count if variable == "samples per shard" else min(count, per_shard * value)
    part = sources.ImageSource(source.name, source.classes, None, {"train": (sample_count, sample_at)})
    bucket = f"{material.bucket}/{variable.replace(' ', '-')}-{value}"
    out = f"{bucket}/shards"
    command.make(part, out, samples_per_shard=per_shard, repeat={}, seed=1, overwrite=True)
    return replace(material, bucket=bucket)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiment from the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        if options.sweep:
            measurements = sweep(options, options.rounds)
            rates = {
                variable: {value: measurement.rates for value, measurement in values.items()}
                for variable, values in measurements.items()
            }
            lines = [json.dumps(rates, indent=1)] if options.json else sweep_table(measurements)
        else:
            store = object_store.binary() is not None
            chosen = cases(cold=not options.warm_only, with_peers=not options.no_peers, store=store)
            if options.rows is not None:
                chosen = select_cases(chosen, options.rows)
            with lay_out(options) as (material, addresses, store_files):
                results = experiment(material, addresses, store_files, chosen, options.rounds)
            result = as_json(material, chosen, results)
            lines = [json.dumps(result, indent=1)] if options.json else table(material, chosen, results)
    except TrainerError as error:
        write_error(str(error))
        return REFUSED
    except OSError as error:  # usually a full disk
        remedy = "Make room there, or name another place with --work"
        write_error(str(TrainerError("Cannot lay out the images", why=error.strerror or str(error), remedy=remedy)))
        return REFUSED
    except KeyboardInterrupt:
        write_error("Stopped; the temporary files are deleted.")
        return INTERRUPTED
    print("\n".join(lines))
    return 0


def _interrupt(*_: object) -> NoReturn:
    """End the benchmark on the first signal; ignore more of them, which would interrupt the clean-up."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, which holds the defaults for other callers as well."""
    command_line = argparse.ArgumentParser(
        prog="python -m trainer.bench_input", description="Compare ways to feed a model.", allow_abbrev=False
    )
    add, default = command_line.add_argument, "(default: %(default)s)"
    add("--images", type=_whole, default=IMAGES, help=f"pictures to make {default}")
    add("--folder", metavar="DIR", help="use the JPEGs in DIR/CLASS/ instead")
    add("--work", metavar="DIR", help="where to lay everything out: a disk (default: the system's /tmp)")
    add("--shards", type=_whole, default=SHARDS, help=f"number of shards {default}")
    add("--batch", type=_whole, default=64, help=f"samples in a batch {default}")
    side = partial(_whole, least=LARGEST_STRIDE, most=LARGEST_SIDE)
    add("--size", type=side, default=224, help=f"pixels per side {default}")
    add("--buffer", type=_whole, default=1000, help=f"samples held to be shuffled {default}")
    loaders = "loader processes of the trainer's rows (default: 0, threads only)"
    add("--loaders", type=partial(_whole, least=0, most=MOST_LOADERS), default=0, help=loaders)
    add("--few", type=_whole, default=512, help="images of the rows with one object per image")
    add("--rounds", type=_whole, default=ROUNDS, help=f"measurements of each row {default}")
    add("--rows", metavar="WORDS", help="only the rows with one of these words: A,B,C or webdataset,cold")
    add("--warm-only", action="store_true", help="leave out the rows with a cold page cache")
    add("--no-peers", action="store_true", help="leave out the other loaders")
    add("--sweep", action="store_true", help="vary shards, batch and loaders instead")
    add("--json", action="store_true", help="print the measurements as JSON")
    return command_line


def _whole(text: str, least: int = 1, most: int = sys.maxsize) -> int:
    """Parse a whole number within bounds."""
    if not text.isdecimal() or not least <= int(text) <= most:
        bounds = f"of at least {least}" if most == sys.maxsize else f"between {least} and {most}"
        raise argparse.ArgumentTypeError(f"{text} is not a whole number {bounds}")
    return int(text)
