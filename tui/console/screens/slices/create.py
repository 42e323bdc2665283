"""The form that creates a slice: it shows live what is wrong and which commands do the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Button, Collapsible, Input, Select, Static

from tui.console.data.create_form import (
    FIELDS,
    FREQUENT_FIELDS,
    MORE_FIELDS,
    FormReading,
    is_shown,
    list_choices,
    read_form,
    warn_about_offer,
)
from tui.console.data.pollers import OFFERS
from tui.console.render.safe_text import escape_line
from tui.console.screens.dialog import make_plain_text
from tui.console.screens.form import SAME_IN_A_SHELL, FormDialog, add_label, make_field
from tui.console.widgets.choice_input import ChoiceInput
from tui.errors import UnknownZone, UsageError
from tui.pod.creation.gcloud_commands import create_command_of_gcloud
from tui.pod.creation.slice_request import SliceRequest
from tui.settings.command_line import create_command
from tui.text.printable import format_count

if TYPE_CHECKING:
    from textual.timer import Timer

    from tui.errors import TpuTuiError
    from tui.pod.creation.zone_offer import ZoneOffer

LISTING = "listing the types of the zones"
CHECK = "checking the request"
CHECK_DELAY_S = 0.7
"""Seconds after the last key until a complete request is checked with the API."""
CHECKING = "checking with the API…"
CHOICES = ("zone", "type", "topology", "version")
"""Fields with choices that come from the settings and the API."""
ASK = "Enter checks the fields and goes to the button that creates the slice; ^s creates it at once. ↑↓ show choices."
REQUIRED_TEXT = "required"


class CreateDialog(FormDialog["SliceRequest"]):
    """Fields, their problems, and the equivalent commands; answers the request once."""

    TITLE = "new slice"
    AUTO_FOCUS = "#name"
    BUTTONS = (("leave", "Cancel", "default"), ("create", "Create slice", "success"))
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "create", "Create the slice", show=False, id="create.create", priority=True)
    ]

    def __init__(self, texts: Mapping[str, str], taken: Iterable[str] = ()) -> None:
        super().__init__()
        self._texts = texts
        """What the fields begin with."""
        self._taken = frozenset(taken)
        self._reading = FormReading(None, {}, ())
        """The fields as of the last change: each reading of them also reads the file of the startup script."""
        self._insists = False
        """Whether empty required fields are marked: after the first try to create."""
        self._is_answered = False
        self._timer: Timer | None = None
        self._checked: SliceRequest | None = None
        self._verdict = ""
        """What the API answered about the checked request."""
        self._refusal: UsageError | None = None
        """Why it would refuse that request."""
        self.sent: Mapping[str, str] = {}
        """What the fields held when the request was answered."""

    # --- the fields ---------------------------------------------------------------------------------------------

    def fields(self) -> Iterator[Widget]:
        """Return the frequent fields, and the others in a part that opens."""
        for name in FREQUENT_FIELDS:
            yield from self._field(name)
        widgets = (widget for name in MORE_FIELDS for widget in self._field(name))
        yield Collapsible(Vertical(*widgets), title="more: network, account, labels, metadata, disks", id="more")

    def _field(self, name: str) -> Iterator[Widget]:
        """Return a field and the line beneath it."""
        field, text = FIELDS[name], self._texts.get(name, "")
        if name in CHOICES:
            yield add_label(name, ChoiceInput(text, id=name, placeholder=field.placeholder))
        else:
            yield make_field(name, name, text, field.placeholder, field.choices)
        yield Static("", id=f"{name}-note", classes="note", markup=False)

    def texts(self) -> dict[str, str]:
        """Return what every field holds."""
        return {name: self.read_field(name) for name in FIELDS}

    def on_mount(self) -> None:
        """Show the form, and list what the zones offer."""
        self.renew()
        if self.app.store.get(OFFERS).at is None:
            self.app.tasks.start(LISTING, self._list_offers(), self._listing_failed)

    async def _list_offers(self) -> None:
        listing = await self.app.operator.slices.offers()
        self.app.store.put(OFFERS, listing.offers, listing.problems)
        self.renew()

    def _listing_failed(self, problem: TpuTuiError) -> None:
        self.app.store.fail(OFFERS, problem)
        self.renew()

    @property
    def _offers(self) -> Sequence[ZoneOffer]:
        return self.app.store.get(OFFERS).value or ()

    # --- what follows the fields ----------------------------------------------------------------------------------

    @on(Input.Changed)
    @on(Select.Changed)
    def renew(self) -> None:
        """Show problems at their fields, the choices, the commands, and what the API says of the request."""
        if not self.is_open:
            return
        texts = self.texts()
        self._reading = reading = read_form(texts, self._taken)
        self._check_later(reading)
        self._show_notes(texts, reading)
        self.query_one("#create", Button).disabled = not reading.is_complete
        self._show_commands(reading)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:  # noqa: ARG002
        """Show the choices of the field that has the focus now."""
        self._show_notes(self.texts(), self._reading)

    def _warnings(self, reading: FormReading) -> dict[str, str]:
        """Return by field what the zone does not offer."""
        return warn_about_offer(reading.request, self._offers) if reading.request else {}

    def _show_notes(self, texts: Mapping[str, str], reading: FormReading) -> None:
        warnings, refusal = self._warnings(reading), self._refusal
        refused = {"zone": f"{refusal.sentence}; {refusal.remedy}"} if isinstance(refusal, UnknownZone) else {}
        zones = self.app.operator.settings.zones
        missing = reading.missing if self._insists else ()
        for name in FIELDS:
            field, note = self.query_one(f"#{name}"), self.query_one(f"#{name}-note", Static)
            problem = reading.problems.get(name) or refused.get(name) or (REQUIRED_TEXT if name in missing else "")
            warning, text = "" if problem else warnings.get(name, ""), ""
            if isinstance(field, ChoiceInput):
                field.choices = list_choices(name, texts, zones, self._offers)
                text = field.describe_choices() if field.has_focus else ""
            if field.parent is not None:
                field.parent.display = is_shown(name, texts)
            if warning:
                problem = f"{warning}: the API will refuse it"
            note.set_class(bool(problem) and not warning, "-error")
            note.set_class(bool(warning), "-warning")
            note.display = bool(problem or text) and is_shown(name, texts)
            note.update(
                make_plain_text(problem) if problem else Text(escape_line(text), no_wrap=True, overflow="ellipsis")
            )

    def _show_commands(self, reading: FormReading) -> None:
        request = reading.request
        problems = [str(problem) for problem in self.app.store.get(OFFERS).problems]
        if request is None:
            needed = f"Still needed: {', '.join(reading.missing)}."
            self.show_preview(ASK, needed, *problems)
            return
        is_offered = self._warnings(reading).keys().isdisjoint(("type", "topology"))
        kind = request.accelerator if is_offered else None
        counts = ((kind.workers, "worker"), (kind.chips, "chip"), (kind.devices, "core")) if kind else ()
        slices = len(request.slice_names)
        size = ", ".join(format_count(count * slices, noun) for count, noun in counts)
        settings = self.app.operator.settings
        gcloud = create_command_of_gcloud(request, settings.project or "PROJECT")
        self.show_preview(
            size,
            "See the fields for what is wrong." if reading.problems else self._verdict,
            f"{SAME_IN_A_SHELL}\n{create_command(settings, request)}",
            f"With gcloud:\n{gcloud}",
            *problems,
        )

    def equivalent(self) -> str:
        """Return the command that creates what the form asks for; empty while it is incomplete."""
        request = read_form(self.texts()).request if self.is_mounted else None
        return create_command(self.app.operator.settings, request) if request else ""

    # --- the check with the API -------------------------------------------------------------------------------------

    def _check_later(self, reading: FormReading) -> None:
        """Check a complete request with the API once the keys pause."""
        if reading.is_complete and reading.request == self._checked:
            return
        if self._timer is not None:
            self._timer.stop()
        self.app.tasks.cancel(CHECK)
        self._checked = reading.request if reading.is_complete else None
        self._verdict, self._refusal = "", None
        if self._checked is not None:
            request = self._checked
            self._verdict = CHECKING
            self._timer = self.set_timer(CHECK_DELAY_S, lambda: self._check(request))

    def _check(self, request: SliceRequest) -> None:
        self.app.tasks.start(CHECK, self._dry_run(request), self._refuse)

    def _refuse(self, problem: TpuTuiError) -> None:
        """Show why the request would be refused, or why it could not be checked."""
        self._judge(f"✗ {problem}", problem if isinstance(problem, UsageError) else None)

    async def _dry_run(self, request: SliceRequest) -> None:
        async for _ in self.app.operator.slices.create(request, dry_run=True):
            pass
        self._judge(f"✓ The name is free, and {request.zone} offers this type and version.")

    def _judge(self, verdict: str, refusal: UsageError | None = None) -> None:
        self._verdict, self._refusal = verdict, refusal
        if self.is_open:
            self._show_notes(self.texts(), self._reading)
            self._show_commands(self._reading)

    # --- the answer -------------------------------------------------------------------------------------------------

    @on(Input.Submitted)
    def _confirm(self) -> None:
        """Create if the button has the focus; else go to the button, or to the first wrong field."""
        button = self.query_one("#create", Button)
        if button.has_focus:
            self.action_create()
        elif self._find_complete() is not None:
            button.disabled = False
            button.focus()

    def action_create(self) -> None:
        """Answer with the request, once."""
        request = None if self._is_answered else self._find_complete()
        if request is not None:
            self._is_answered, self.sent = True, self.texts()
            self.app.tasks.cancel(CHECK)
            self.leave_with(request)

    def _find_complete(self) -> SliceRequest | None:
        """Return the request; if it cannot be sent, mark the missing fields and go to the first wrong one."""
        reading = read_form(self.texts(), self._taken)
        if reading.request is not None and reading.is_complete:
            return None if self._is_refused(reading.request) else reading.request
        self._insists = True
        self.renew()
        name = next(name for name in FIELDS if name in (*reading.missing, *reading.problems))
        if name in MORE_FIELDS:
            self.query_one(Collapsible).collapsed = False
        self.query_one(f"#{name}").focus()
        return None

    def _is_refused(self, request: SliceRequest) -> bool:
        """Return whether the API would refuse the request; if so, check it again: the reason may be gone."""
        if self._refusal is None or request != self._checked:
            return False
        self.notify("The API would refuse this request (see ✗). It is checked again now.", timeout=4)
        self._verdict = CHECKING
        self._show_commands(self._reading)
        self._check(request)
        return True

    def action_leave(self) -> None:
        """Cancel the check and leave."""
        self.app.tasks.cancel(CHECK)
        super().action_leave()
