"""The lines of PyTorch/XLA's own test utilities and examples, old and new, as dialects."""

from __future__ import annotations

from tui.logs.dialects.dialect import CLOCK, DATED, ENDS, NUMBER, SPAN, Dialect, Kind, dialect
from tui.logs.state.rate_kinds import RateKind

_RATES = rb" Rate=(?P<rate>" + NUMBER + rb") GlobalRate=(?P<global_rate>" + NUMBER + rb")"

TRAINING = dialect(
    "torch_xla",
    Kind.SAMPLE,
    [b"Training Device="],
    rb"Training Device=xla:(?P<device>\d{1,4})/(?P<core>\d{1,6})(?: Epoch=(?P<epoch>\d{1,9}))?"
    rb" Step=(?P<step>\d{1,12}) Loss=(?P<loss>" + NUMBER + rb")" + _RATES + rb" Time=(?P<clock>" + CLOCK + rb")",
    rate=RateKind.EXAMPLES,
)
"""`torch_xla.test.test_utils.print_training_update` since 1.6: the line that the trainer here prints as well."""

_PLACE = rb"(?:xla|TPU):(?:(?P<device>\d{1,4})/)?(?P<core>\d{1,6})"
"""Device and ordinal; where no ordinal is told (one process for all, Neuron), the device stands for it."""

_FIELD = rb" (?!(?:Step|Loss|Rate|GlobalRate|Time|Device|Epoch)=)\w{1,40}=[^\s|=]{1,40}"
"""A field that other trainers put among PyTorch/XLA's own (`Learning_Rate=1e-05`, `Throughput=8.7`)."""

_OLD = (
    rb"\] ?\((?P<step>\d{1,12})\) Loss=(?P<loss>" + NUMBER + rb") Rate=(?P<rate>" + NUMBER + rb")"
    rb"(?: GlobalRate=(?P<global_rate>" + NUMBER + rb"))? Time=(?P<clock>" + DATED + rb"|" + CLOCK + rb")"
)

TORCH_XLA: tuple[Dialect, ...] = (
    TRAINING,
    dialect(
        "torch_xla, other fields",
        Kind.SAMPLE,
        [b"Training Device="],
        rb"Training Device=" + _PLACE + rb"(?: Epoch=(?P<epoch>\d{1,9}))? Step=(?P<step>\d{1,12})"
        rb"(?:" + _FIELD + rb"){0,6} Loss=(?P<loss>" + NUMBER + rb")(?:" + _FIELD + rb"){0,6}"
        rb"(?: Rate=(?P<rate>" + NUMBER + rb"))?(?: GlobalRate=(?P<global_rate>" + NUMBER + rb"))?"
        rb"(?:" + _FIELD + rb"){0,6} Time=(?:\d{4}-\d\d-\d\d )?(?P<clock>" + CLOCK + rb")",
        rate=RateKind.EXAMPLES,
    ),
    dialect("torch_xla 1.5", Kind.SAMPLE, [b"[xla:", b"[TPU:"], rb"\[" + _PLACE + _OLD, rate=RateKind.EXAMPLES),
    dialect(
        "torch_xla 1.5",
        Kind.SAMPLE,
        [b")\tLoss="],
        rb"\["
        + _PLACE
        + rb"\]\((?P<step>\d{1,12})\)\tLoss=(?P<loss>"
        + NUMBER
        + rb")\tRate=(?P<rate>"
        + NUMBER
        + rb")\tGlobalRate=(?P<global_rate>\d{1,12}\.\d\d)\s*$",
        rate=RateKind.EXAMPLES,
    ),
    dialect(
        "torch_xla examples",
        Kind.SAMPLE,
        [b"step: "],
        rb"(?<![\w{])(?:epoch: (?P<epoch>\d{1,9}), )?step: (?P<step>\d{1,12}), loss: (?P<loss>" + NUMBER + rb"), "
        rb"rate: (?P<rate>" + NUMBER + rb")" + ENDS,
        rate=RateKind.EXAMPLES,
    ),
    dialect(
        "torchprime",
        Kind.SAMPLE,
        [b", trace time: "],
        rb"Epoch: (?P<epoch>\d{1,9})(?:\.\d{1,9})?, step: (?P<step>\d{1,12}), loss: (?P<loss>" + NUMBER + rb"), "
        rb"trace time: ",
    ),
    dialect(
        "torch_xla test",
        Kind.TEST,
        [b"Test Device="],
        rb"Test Device=" + _PLACE + rb"(?: Step=(?P<step>\d{1,12}))?"
        rb"(?: Epoch=(?P<epoch>\d{1,9}))?(?: Accuracy=(?P<accuracy>" + NUMBER + rb"))?"
        rb"(?: Time=(?P<clock>" + CLOCK + rb"))?(?=\s|$)",
    ),
    dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" train begin"],
        rb"Epoch (?P<epoch>\d{1,9}) train begin(?: (?P<train_began>" + CLOCK + rb"))?(?![\w{])",
        moment="begin",
    ),
    dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" train end"],
        rb"Epoch (?P<epoch>\d{1,9}) train end (?P<train_ended>"
        + CLOCK
        + rb")(?:, Epoch Time=(?P<seconds>"
        + SPAN
        + rb")"
        rb", Replica Train Samples=(?P<replica_samples>\d{1,15})(?!\d)"
        rb", Reduced GlobalRate=(?P<reduced_global_rate>" + NUMBER + rb")(?![\d.]))?",
        moment="end",
    ),
    dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" train end"],
        rb"Epoch (?P<epoch>\d{1,9}) train end {1,2}\d{1,2}:\d\d[AP]M ",
        moment="end",
    ),
    dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b"Finished training epoch "],
        rb"Finished training epoch (?P<epoch>\d{1,9})(?![\d{])",
        moment="end",
    ),
    dialect(
        "torch_xla epoch",
        Kind.EPOCH,
        [b" test end"],
        rb"Epoch (?P<epoch>\d{1,9}) test end (?P<test_ended>" + CLOCK + rb")"
        rb"(?:, (?:Reduced )?Accuracy=(?P<accuracy>" + NUMBER + rb")(?![\d.])%?)?"
        rb"(?:, Replica Accuracy=(?P<replica_accuracy>" + NUMBER + rb")%?)?"
        rb"(?:, Replica Test Samples=(?P<replica_test_samples>\d{1,15})(?!\d))?",
        moment="end",
    ),
    dialect(
        "torch_xla accuracy",
        Kind.FACT,
        [b"Max Accuracy: "],
        rb"Max Accuracy: (?P<max_accuracy>" + NUMBER + rb")%",
    ),
    dialect(
        "torch_xla totals",
        Kind.FACT,
        [b"Total Train Time: "],
        rb"Total Train Time: (?P<total_train_time>" + SPAN + rb")(?![\d:])",
    ),
    dialect(
        "torch_xla totals",
        Kind.FACT,
        [b"Avg. Global Rate: "],
        rb"Avg\. Global Rate: (?P<average_global_rate>" + NUMBER + rb") examples per second",
    ),
    dialect(
        "xla_dist cluster",
        Kind.FACT,
        [b"Cluster configuration: "],
        rb"Cluster configuration: (?P<cluster>\{client_workers: \[[^\]]*\], service_workers: \[[^\]]*\]\})",
    ),
)
