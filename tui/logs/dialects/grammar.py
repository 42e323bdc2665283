"""The usual words for a step, an epoch, a loss and a rate, as parts of patterns: a grammar of names and values."""

from __future__ import annotations

from tui.logs.dialects.dialect import DATE, GROUPED, LOSS, NUMBER
from tui.logs.dialects.rates import PACE

EVALUATION = (
    rb"(?:[Vv]al(?:id(?:ation|ating)?)?|VAL(?:ID(?:ATION)?)?|[Ee]val(?:uat(?:e|ed|ing|ion))?|EVAL(?:UATION)?"
    rb"|[Tt]est(?:ing)?|TEST(?:ING)?|[Dd]ev|DEV|CV|[Bb]est|BEST|[Pp]redict(?:ing|ion)|[Cc]heckpoint|[Ss]av(?:ed|ing)"
    rb"|[Ll]oad(?:ed|ing)|[Rr]esum(?:ed|ing)|[Ff]inding)(?![A-Za-z])"
)
"""Words after which a loss is no training step's."""

_WORD = rb"[A-Za-z]{1,60}(?![A-Za-z])"
_BETWEEN = rb"[^A-Za-z\n]{1,400}(?![^A-Za-z\n])"
ANY = rb"(?:" + _BETWEEN + rb"|" + _WORD + rb")"
UNTIL = rb"(?:" + _BETWEEN + rb"|(?!" + EVALUATION + rb")" + _WORD + rb")"
"""A word, or what stands between two: any, and those that may stand before a training loss."""

PLAIN = rb"(?:(?!(?<![A-Za-z])" + EVALUATION + rb")[^\n])"
"""A character of what may stand before a training loss."""

SETTINGS = (
    rb"(?=[^:\n]{0,80}?(?i:batch|bs)=\d)(?![^:\n]{0,80}?(?i:epoch|ep|step|iter)\w{0,8}=)"
    rb"(?:\w{1,20}=[^\s,:]{1,20}, ?){1,8}\w{1,20}=[^\s,:]{1,20}: "
)
"""What a search tries, before what it found: `Batch=32, LR=0.001: `."""

LOG_LINE = (
    rb"^(?!\s{0,40}(?:[#+]|>(?!>> (?:[Ee]poch|[Ss]tep|[Ii]ter)\w{0,6} \[?\d)|//|def |class |return |print"
    rb"|logg(?:er|ing)\.|if |for |while |with |assert|self\."
    rb"|(?i:config\w{0,10}|arg(?:ument)?s|settings|options|h(?:yper)?param(?:eter)?s): )"
    # What is cut off of others' lines; fairseq's summary of an epoch.
    rb"|"
    + SETTINGS
    + rb"|[^\n]{0,60}?(?: Device=(?:xla|TPU):| iteration {2,12}\d|\| epoch \d{3} \| "
    + r"|\[(?:验证|测试|评估|検証|評価|검증|평가)))".encode()
)
"""A line's beginning; not that of source code, of a comment or of a command, nor of what only its trainer's own
dialect should read, nor of what is evaluated in another language."""

_ALONE = (
    rb"(?<![\w./-])(?:(?<![A-Za-z_][ .])|(?<=INFO )|(?<=[\d\]] [IWD] )"
    rb"|(?<=/s )|(?<=/sec )|(?<=/it )|(?<=/iter )|(?<=/step )|(?<=/batch )|(?<=\d[A-Za-z] )|(?<=\d[A-Za-z]{2} )"
)  # fmt: skip
"""Where a name begins that no other word qualifies (`Critic loss`, `at step`), but for units and some others."""

NAMED_LOSS = (
    _ALONE + rb"|(?=[Tt]rain))(?:(?:[Tt]r(?:ain(?:ing)?)?|TRAIN|[Tt]ot(?:al)?|[Aa]vg|[Aa]verage|[Mm]ean|[Rr]unning"
    rb"|(?:[Mm]ini-?)?[Bb]atch"
    rb"|[Ss]tep|[Ii]ter(?:ation)?|[Cc]urr(?:ent)?|[Ll][Mm]|[Rr]educed|[Gg]lobal"
    rb"|[Oo]verall)[ _/.-]{0,2}){0,3}(?:[Ll]oss|LOSS|(?<!_)(?<!atch )[Cc]ost(?= ?=)|Cost(?=:? {1,8}\d{1,9}\.\d{3}))"
    rb"(?:[_.](?:mean|avg|step|train(?:ing)?)|/train|\((?:train|avg|mean)\)|\]|['\"](?=: ))?"
    rb"(?:[ \t]{0,8}[:=][ \t]{0,12}|[ \t]{1,12}(?:is )?)(?:(?:tensor|[Aa]rray|DeviceArray)\(|\[(?=[^\],]{1,30}\])"
    rb"|['\"](?=[^'\"]{1,30}['\"]))?" + LOSS + rb"(?![\w%]|\.(?!\s))"
)
"""The whole loss of a training step, by its name."""

ONLY_LOSS = (
    rb"(?<![\w./-])(?:(?!MAX|MIN|AUX|REG|SUM)[A-Z][A-Z\d]{1,6}[ _][Ll]oss"
    rb"|[Cc]ross[ _-]?[Ee]ntropy(?:[ _]?[Ll]oss)?)(?: ?[:=|])? {0,8}" + LOSS + rb"(?![\w%]|\.(?!\s))"
)
"""A loss by what it is made of, where a line names no other."""

_GLOBAL = rb"(?:[Gg]lobal[_ ]?(?:[Ss]tep|[Ii]ter(?:ation)?)|GLOBAL_STEP)"
_SEPARATED = (
    rb"(?=[ \t:=#\[\](]|\d{1,12}/\d|(?<=[^h])\d{1,12}[ ,:|])\]?[ \t]{0,4}(?:[:=#]|is )?[ \t]{0,8}[\[(]?[ \t]{0,8}"
)
_STEP_NUMBER = rb"(?P<step>\d{1,3}(?:,\d{3}){1,3}|\d(?:\.\d{1,9})?[eE]\+?\d{1,2}|\d{1,12}[kKM]?)(?![\w%]|[.,]\d)"
NAMED_STEP = (
    rb"(?:" + _ALONE + rb"|(?<=[Tt]rain )|(?<=[Tt]raining )|(?<=TRAIN )|(?<=Epoch ))"
    rb"(?:[Tt]rain(?:er|ing)?/)?(?:" + _GLOBAL + rb"|(?!" + ANY + rb"{0,40}?" + _GLOBAL + _SEPARATED + rb"\d)"
    rb"(?![Ii]ter(?:ation)?[ :=]{1,2}\d{1,9}[ ,|]{1,3}[Ss]tep[ :=]{1,2}\d{1,9} ?/ ?\d)"
    rb"(?:[Ss]teps?|STEP|[Ii]ter(?:ation|s)?|ITER|[Ii]tr?|(?:[Mm]ini-?)?[Bb]atch|BATCH|[Uu]pdates?|num_updates|[Ee]pisode"
    rb"|[Tt]imesteps?|[Rr]ound|[Ii]nstance|(?:grad|train(?:ing)?|optim(?:izer)?|cur(?:rent)?|local|total)_(?:step|iter)"
    rb"|(?:batch|iter|step)_(?:idx|num|id|i)|b?i(?=[=:])))"
    + _SEPARATED + _STEP_NUMBER + rb")"
)  # fmt: skip
"""A step by its name: that of the whole run, where there is one of an epoch beside it."""

WHOSE_STEP = (
    rb"(?=[^\w\n]{0,8}(?:(?!" + EVALUATION + rb"|(?:Early|Final|Last|Min|Max|Lowest|Highest|Start|End|Stop|Skip|Next"
    rb"|At|From|After|Before|Every|Per|In|On|For|Until|Up|Resum|Restor|Load|Sav|Writ)\w{0,6}[ -])"
    rb"[A-Z][A-Za-z\d]{1,15}[ -]){1,2}(?:[Ss]tep|[Ii]ter(?:ation)?)" + _SEPARATED + _STEP_NUMBER + rb" ?[^\w\s]"
)  # fmt: skip
"""A step at a line's beginning, after a word or two that say which: `Optimizer step 100: `."""

NAMED_EPOCH = _ALONE + (
    rb"|(?<=[Tt]rain )|(?<=[Tt]raining )|(?<=TRAIN )|(?<=\d of )|(?<=ing of ))(?:[Tt]rain(?:er)?/)?(?:[Ee]poch"
    rb"|EPOCHS?|[Ee]p|EP)\.?"
    rb"(?:(?: is )?[\]\[:=#| \t(]{1,12}|(?<=[a-z])(?=\d{1,6}[ ,:|]))"
    rb"(?P<epoch>\d{1,9})(?!\d)"
)

NAMED_RANK = (
    rb"(?<![\w/-])(?:(?:[Rr]ank|RANK|(?<=\[)GPU|(?<![A-Za-z] )(?:[Cc]ore|[Oo]rdinal|[Rr]eplica))[ :=#]{0,4}"
    rb"|xla:(?:\d{1,4}/)?)(?P<core>\d{1,5})(?!\d|\.\d)"
)

BEGINS_WITH_WORKER = (
    rb"(?=(?:" + ANY + rb"{0,6}?(?<![\w-])(?:[Pp]roc(?:ess)?(?:_index|_id)?|[Ww]orker|[Hh]ost)[ #=:]{0,4}"
    rb"(?P<worker>\d{1,5})(?:/\d{1,5})?(?=\]|: |\)| \|| step {1,9}\d{1,12}\]))?)"
)
"""A process or a machine that is named before what it says: `[Process 0]`, `Worker 3:`."""

LOGGED = (
    rb"(?:[IWE]\d{4} \d\d:\d\d:\d\d\.\d{1,6}[^\n\]]{0,120}\] |" + DATE
    + rb"(?:(?:- )?(?:[\w.]{1,40} - )?\[?INFO\]?(?::[\w.]{1,40})?(?: - |:| ){1,3})?)"
)  # fmt: skip
"""What a logger puts before what it says: absl's letter and place, or a date and a level."""

_COUNTED = (
    rb"(?i:tok(?:en)?s?|samples?|examples?|ex|im(?:a)?g(?:e)?s?|words?|frames?|seq(?:uence)?s?|records?|batch(?:es)?"
    rb"|sent(?:ence)?s?|it(?:er(?:ation)?)?s?|steps?)"
)
_EACH = rb"(?:(?:/|_per_| per )(?:chip|device|core|[gt]pu|GPU|TPU|host|node|worker))?"
_A_SECOND = (
    _EACH + rb"(?:/[sS](?:ec(?:ond)?)?| / [Ss]ec|_per_s(?:ec(?:ond)?)?| per [sS](?:ec(?:ond)?)?)" + _EACH
    + rb"(?![\w/])"
)  # fmt: skip
_GLOBAL_RATE = rb"(?<![A-Za-z])[Gg]lobal[ _]?[Rr]ate ?[:=] ?"
_TRACKED = rb"(?<![A-Za-z_][ _])[Rr]ate(?= ?[:=] ?[\d.]{1,20}[^\w\n]{1,8}" + _GLOBAL_RATE + rb"\d)"
"""PyTorch/XLA's RateTracker, by the rate that stands behind its own."""

_NAMED_RATE = (
    rb"(?<![\w.,/])(?P<unit>(?:(?i:throughput|speed|[tw]ps|sps|fps)|ips|imps|(?:[a-z]{1,16}_)?" + _COUNTED + _A_SECOND
    + rb"|" + _TRACKED + rb")(?: \([^()\n]{1,24}\)|['\"](?=:))?(?:[ \t]{0,4}[:=][ \t]{0,8}|[ \t]{1,8}(?:is )?))?"
    # A number with its unit behind it, but not one of another name before a unit that names the next.
    rb"(?:(?P<led>(?<=[a-z] ))|(?<![a-z] ))(?P<rate>(?:" + GROUPED
    + rb")[kKM]?)(?(unit)(?!\w|\.\d)(?=(?: ?(?P<counts>" + _COUNTED + _A_SECOND + rb"))?)"
    + rb"| ?(?![a-z]{1,16}_per_s[a-z]{0,5} \d)(?:[a-z]{1,16}_)?(?P<counted>" + _COUNTED
    + _A_SECOND + rb")(?! ?= ?\d| ?: {0,8}[\d.,]{1,20}(?![\d.,]| ?[a-z]))(?(led)(?! \d)))"
)  # fmt: skip

_NUMBER_TOO = rb"[\d.,]{1,60}(?![\d.,])|[^A-Za-z\d.,\n]{1,400}(?![^A-Za-z\d.,\n])"
RATED = (
    rb"(?=(?:(?:" + _WORD + rb"|" + _NUMBER_TOO + rb"){0,120}?" + _NAMED_RATE + rb")?)"
    rb"(?(rate)(?=(?:[^\n]{0,400}?" + _GLOBAL_RATE + rb"(?P<global_rate>" + NUMBER + rb")(?!\w))?)"
    rb"|(?=(?:[^\n]{0,400}?" + PACE + rb")?))"
)  # fmt: skip
"""A rate that may stand anywhere in a line, by its name or by the unit behind it; else how long a step takes."""


TRACKED = (
    rb"(?=" + UNTIL + rb"{0,120}?" + _TRACKED + rb" ?[:=] ?(?P<rate>" + NUMBER + rb")[^\w\n]{1,8}" + _GLOBAL_RATE
    + rb"(?P<global_rate>" + NUMBER + rb")(?!\w))"
)  # fmt: skip
"""What a RateTracker tells, no evaluation's."""


def somewhere(pattern: bytes) -> bytes:
    """What stands at a word's beginning anywhere in the beginning of a line."""
    return rb"(?=" + ANY + rb"{0,60}?" + pattern + rb")"


def nowhere(pattern: bytes) -> bytes:
    """What must not stand there."""
    return rb"(?!" + ANY + rb"{0,60}?" + pattern + rb")"


def perhaps(pattern: bytes) -> bytes:
    """What may stand there."""
    return rb"(?=(?:" + ANY + rb"{0,60}?" + pattern + rb")?)"
