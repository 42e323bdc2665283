"""The trainer's input: shards on disk and in a bucket compared with files, an object per image, and other loaders."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Figure, at_least

ROUNDS = "7"
IMAGES = "16384"
"""Enough for eight seconds per epoch of the fastest row, whose first batch waits for the shuffle buffer."""


def figures() -> Iterator[Figure]:
    """Yield ratios of samples per second, and of CPU time; the rows A, B, C and A' share one decoder."""
    from functools import partial
    from statistics import median

    from trainer.bench_input import benchmark as bench
    from trainer.bench_input import fixtures, peers, rows
    from trainer.bench_input.table import DELAY_MS, find_measurement

    shown = (rows.from_files, rows.from_shards, rows.from_bucket, rows.from_single_objects)
    shown += (peers.plain_webdataset, peers.image_folder)
    options = bench.parser().parse_args(["--rounds", ROUNDS, "--images", IMAGES])
    with fixtures.lay_out(options) as (material, addresses, store_files):
        known = bench.cases(cold=False, with_peers=True, store=bool(addresses))
        chosen = [case for case in known if case.row in shown and case.delay in (None, DELAY_MS)]
        results = bench.experiment(material, addresses, store_files, chosen, options.rounds)
    find = partial(find_measurement, chosen, results, apart=False)
    local, plain, folder = find(rows.from_shards), find(peers.plain_webdataset), find(peers.image_folder)
    yield at_least("local shards against plain webdataset + PIL, 2 workers", local.ratio(plain) or 0, 3.5, "×")
    yield at_least("the same in CPU time per sample", median(plain.cpu) / median(local.cpu), 3.5, "×")
    yield at_least("against ImageFolder", local.ratio(folder) or 0, 3.0, "×")
    yield at_least("the same in CPU time per sample", median(folder.cpu) / median(local.cpu), 3.0, "×")
    remote, single = find(rows.from_bucket, DELAY_MS), find(rows.from_single_objects, DELAY_MS)
    if addresses:
        yield at_least(f"C / A', shards over single objects at {DELAY_MS:g} ms", remote.ratio(single) or 0, 10, "×")
    find = partial(find, apart=True)
    local, remote = find(rows.from_shards), find(rows.from_bucket, DELAY_MS)
    single = find(rows.from_single_objects, DELAY_MS)
    yield Figure("B / A, local shards over files", f"{local.ratio(find(rows.from_files)) or 0:.2f} ×")
    if addresses:
        yield at_least(f"C / B, bucket over local at {DELAY_MS:g} ms", remote.ratio(local) or 0, 0.95, "×")
        # The delay bounds A', and the reading core bounds C: slow machines have a smaller ratio than with all cores.
        slow = remote.ratio(single) or 0
        yield at_least(f"C / A' where the store has its own core, at {DELAY_MS:g} ms", slow, 10, "×")
