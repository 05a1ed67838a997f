"""The watch of one location in simulated time: list it, notify slices of changes, and audit it from time to time."""

from datetime import datetime

from penstock.contract.inventories import LocationReport, WatchedLocation
from penstock.core.slices import watch as reconciliation
from penstock.core.slices.audit import AuditFindings, audit_findings
from penstock.core.slices.lifecycle import report_of
from penstock.core.slices.watch import Notification, NotifiedTable, Unconfirmed
from penstock.model.failures import Phase
from penstock.model.sightings import Labels, Ref, Sighting
from penstock.model.slices import Slice
from tests.core.elastic.clock import BEGIN, Process, Within
from tests.core.elastic.cloud import Listing
from tests.core.elastic.slice_runs import SliceRun
from tests.core.elastic.surroundings import Surroundings

QUICK_LOOKS = 5
"""Quick looks after a wake-up."""


class Watch:
    """What is known of one location, and the looks at it."""

    def __init__(self, world: Surroundings, location: WatchedLocation) -> None:
        self._world = world
        self.location = location
        self._known: NotifiedTable = {}
        self._asked: dict[str, float] = {}
        self._unconfirmed = Unconfirmed()
        self._quick_looks = 0
        self._is_woken = False
        self._looked_at = BEGIN
        self._audited_at: datetime | None = None
        self._recovery: str | None = None
        """The recovery that awaits a complete audit."""
        world.clock.start(self._loop())

    def wake(self) -> None:
        """Look soon: something changed here."""
        self._is_woken, self._quick_looks = True, QUICK_LOOKS

    def audit_for(self, recovery: str) -> None:
        """Audit now, for a recovery."""
        self._recovery = recovery
        self.wake()

    def forget(self) -> None:
        """The worker was killed: what it saw is lost."""
        self._known, self._asked, self._unconfirmed, self._audited_at = {}, {}, Unconfirmed(), None

    def _loop(self) -> Process:
        rules = self.location.rules
        while True:
            self._is_woken = False
            listing = self._look()
            if self._is_audit_due():
                self._audit(listing)
            pause = min(rules.look_seconds, rules.rest_seconds)
            yield pause
            if self._quick_looks:
                self._quick_looks -= 1
                continue
            rest = reconciliation.pause_after(self._known, rules) - pause
            yield Within(lambda: self._is_woken, rest)

    def _look(self) -> Listing:
        """Health-check the slices that are due, and notify every slice of what changed for it."""
        rules, now = self.location.rules, self._world.clock.now
        elapsed, self._looked_at = self._world.clock.seconds_since(self._looked_at), now
        listing = self._world.cloud.list_zone(self.location.name)
        due = reconciliation.due_for_health_check(
            self._known, listing.items, asked=self._asked, at=now.timestamp(), rules=rules, elapsed=elapsed
        )
        sightings = {item.slice_id: item for item in listing.items}
        for slice_id in due:
            sightings[slice_id] = self._world.cloud.observe(sightings[slice_id].ref)
            self._asked[slice_id] = now.timestamp()
        after, notifications = reconciliation.reconcile(
            self._known, sightings.values(), complete=listing.complete, at=now, rules=rules
        )
        failed = [one.slice_id for one in notifications if not self._notify(one)]
        self._known = reconciliation.without_undelivered(self._known, after, failed)
        return listing

    def _notify(self, notification: Notification) -> bool:
        """Whether the slice was notified, or is gone and has no workflow to notify."""
        sighting = notification.sighting
        if sighting is None:
            sighting = self._world.cloud.observe(self._ref(notification.slice_id, notification.group))
            if sighting.phase is not Phase.GONE:
                return False
        run = self._world.runs.get(notification.slice_id)
        if run is None or not run.is_running:
            return sighting.phase is Phase.GONE
        self._answer(run, sighting)
        return True

    def _answer(self, run: SliceRun, sighting: Sighting) -> None:
        """The slice answers with its report, which travels on to the autoscaler."""
        report = run.observe(sighting)
        self._world.clock.after(self._world.delay(), lambda: self._world.hear_report(report))

    def _is_audit_due(self) -> bool:
        audited_at = self._audited_at
        rested = audited_at is None or self._world.clock.seconds_since(audited_at) >= self.location.rules.audit_seconds
        return rested or self._recovery is not None

    def _audit(self, listing: Listing) -> None:
        """Report orphans and missing slices, and what a recovery asked for; complete the table from the ledger."""
        self._audited_at = self._world.clock.now
        found = self._findings(listing)
        for sighting in found.unreported:
            self._world.hear_report(report_of(self._world.runs[sighting.slice_id].lifecycle))
        orphans = tuple(sighting for sighting in found.orphans if sighting.phase is not Phase.DELETING)
        asked = self._recovery if listing.complete else None
        if orphans or found.missing or asked is not None:
            report = LocationReport(
                location=self.location.location,
                at=self._world.clock.now,
                complete=listing.complete,
                asked=asked,
                orphans=orphans,
                missing=found.missing,
            )
            self._recovery = None if asked is not None else self._recovery
            self._world.clock.after(self._world.delay(), lambda: self._world.hear_location(report))
        self._recall(listing, {one.slice_id for one in orphans})

    def _findings(self, listing: Listing) -> AuditFindings:
        """What the audit finds; a slice counts as missing only if its name finds nothing either."""
        state, running = self._world.state, self._running()
        ledger = {piece.id: piece for piece in self._ledger_here()}
        ledger |= {one.slice_id: state.by_id[one.slice_id] for one in listing.items if one.slice_id in state.by_id}
        found = audit_findings(listing.items, ledger=ledger.values(), running=running, complete=listing.complete)
        gone = [one for one in found.missing if self._is_gone(state.by_id[one])]
        return found._replace(missing=tuple(gone))

    def _is_gone(self, piece: Slice) -> bool:
        run = self._world.runs.get(piece.id)
        if run is not None and run.lifecycle.spec.location.key != self.location.key:
            return False
        return self._world.cloud.observe(self._ref(piece.id, piece.group)).phase is Phase.GONE

    def _recall(self, listing: Listing, orphans: set[str]) -> None:
        """Forget what slices have not acted on, and complete the table from the ledger after what was seen was lost."""
        here = self._ledger_here()
        known_here = here + [self._world.state.by_id[i] for i in self._known if i in self._world.state.by_id]
        self._unconfirmed = self._unconfirmed.after(self._known, {piece.id: piece for piece in known_here}.values())
        forgotten = orphans | self._unconfirmed.resend
        self._known = {slice_id: last for slice_id, last in self._known.items() if slice_id not in forgotten}
        listed, running = {item.slice_id for item in listing.items}, self._running()
        absent = [
            piece.id
            for piece in reconciliation.never_notified(self._known, here)
            if piece.id in running and piece.id not in listed
        ]
        lifecycles = [self._world.runs[slice_id].lifecycle for slice_id in absent]
        created = {each.spec.slice_id for each in lifecycles if each.create_accepted and self._is_here(each.spec.location.key)}
        created |= self._known.keys()
        self._known = reconciliation.recalled(self._known, [piece for piece in known_here if piece.id in created])

    def _is_here(self, key: str) -> bool:
        return key == self.location.key

    def _running(self) -> set[str]:
        return {slice_id for slice_id, run in self._world.runs.items() if run.is_running}

    def _ledger_here(self) -> list[Slice]:
        """The ledger's slices that can be at this location."""
        state, found = self._world.state, []
        for piece in state.slices:
            group = state.config.group(piece.group) if state.config else None
            where = piece.location.key if piece.location else group.location_key if group else None
            if where is None or self._is_here(where):
                found.append(piece)
        return found

    def _ref(self, slice_id: str, group: str) -> Ref:
        labels = Labels(cluster=self.location.cluster, group=group, slice=slice_id)
        return Ref(location=self.location.name, name=labels.resource_name, labels=labels)
