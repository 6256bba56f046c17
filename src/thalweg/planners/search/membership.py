"""Sites that join and leave a hierarchy of clusters while it is used (integrated 3.1.2).

A site that joins asks any site that is there. Its request goes up from coordinator to coordinator. The top
coordinator passes it to the member of its cluster that is nearest to the new site, that one to the nearest
member of its own cluster one level below, and so on, until it is assigned to a cluster of sites. Where a
cluster is full, the paper says nothing: here it is cut in two, and the new half gets a coordinator, which
joins the cluster above. When a coordinator leaves, the member of its cluster with the least cost to the
others takes its place, at all levels (the paper keeps backups for this). A cluster without members is gone.

Each request passed on is a message, if it goes to another site; so is the assignment of a site to a cluster,
to each of its members, and the news of another coordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from thalweg.cost.keys import Floats
from thalweg.planners.search.hierarchy import Level


@dataclass(eq=False)
class Group:
    """A cluster: sites, one of which is its coordinator."""

    members: list[int]
    coordinator: int


@dataclass(eq=False)
class Membership:
    """A hierarchy that changes: the clusters of each level; `apart` are the costs between all sites."""

    apart: Floats
    max_cs: int
    levels: list[list[Group]] = field(default_factory=list)

    def start(self, sites: Sequence[int]) -> None:
        """Begins with a first site, which the others of some join."""
        self.levels = [[Group([sites[0]], sites[0])]]
        for site in sites[1:]:
            self.join(site, sites[0])

    @property
    def sites(self) -> list[int]:
        return sorted(site for group in self.levels[0] for site in group.members)

    def join(self, site: int, asked: int) -> int:
        """A site joins, and asks one that is there; how many messages that takes."""
        sent = 1 + self._up(asked)
        at = self.levels[-1][0].coordinator
        for level in range(len(self.levels) - 1, 0, -1):
            nearest = self._nearest(site, self._group(level, at).members)
            sent += nearest != at
            at = nearest
        return sent + self._add(0, site, self._group(0, at))

    def leave(self, site: int) -> int:
        """A site leaves; how many messages that takes."""
        sent = 0
        for level, groups in enumerate(self.levels):
            group = next((g for g in groups if site in g.members), None)
            if group is None:
                break
            group.members.remove(site)
            sent += len(group.members)
            if not group.members:
                groups.remove(group)
                continue
            if group.coordinator != site:
                break
            group.coordinator = self._middle(group.members)
            if level + 1 < len(self.levels):
                above = self._group(level + 1, site)
                above.members.append(group.coordinator)  # the one that leaves is taken out in the next round
                sent += 1
        while len(self.levels) > 1 and len(self.levels[-2]) == 1:
            self.levels.pop()
        return sent

    def advertise(self, site: int) -> int:
        """The messages of a new stream at a site: to its coordinator, and on to the top (3.1.3)."""
        return self._up(site)

    def as_levels(self, count: int) -> tuple[Level, ...]:
        """The hierarchy for planners on a network of so many sites; others are nowhere near a plan.

        A site that is not a member counts to the cluster of the member nearest to it, so that a stream
        there could still be found.
        """
        sites = self.sites
        representative = np.array([s if s in set(sites) else self._nearest(s, sites) for s in range(count)])
        found = []
        for groups in self.levels:
            number = {member: i for i, group in enumerate(groups) for member in group.members}
            cluster = np.array([number[int(r)] for r in representative])
            coordinators = tuple(group.coordinator for group in groups)
            found.append(
                Level(
                    tuple(np.sort(np.array(g.members)) for g in groups), coordinators, representative, cluster
                )
            )
            representative = np.array(coordinators)[cluster]
        return tuple(found)

    def _add(self, level: int, site: int, group: Group) -> int:
        """Assigns a site to a cluster, which is cut in two where it is too large."""
        group.members.append(site)
        sent = len(group.members) - 1
        if len(group.members) <= self.max_cs:
            return sent
        other = self._cut(group)
        self.levels[level].append(other)
        sent += len(other.members)
        if level + 1 == len(self.levels):
            both = [group.coordinator, other.coordinator]
            self.levels.append([Group(both, self._middle(both))])
            return sent + 1
        return sent + self._add(level + 1, other.coordinator, self._group(level + 1, group.coordinator))

    def _cut(self, group: Group) -> Group:
        """Cuts off the members that are nearer to the one farthest from the coordinator than to itself."""
        members = group.members
        far = max(
            (m for m in members if m != group.coordinator), key=lambda m: self.apart[group.coordinator, m]
        )
        away = [m for m in members if self.apart[m, far] < self.apart[m, group.coordinator]]
        if not away:  # all are equally near
            away = [m for m in members if m != group.coordinator][: len(members) // 2]
        group.members = [m for m in members if m not in away]
        return Group(away, self._middle(away))

    def _up(self, site: int) -> int:
        """How many messages go from a site to the top."""
        sent, at = 0, site
        for level in range(len(self.levels)):
            coordinator = self._group(level, at).coordinator
            sent += coordinator != at
            at = coordinator
        return sent

    def _group(self, level: int, site: int) -> Group:
        return next(group for group in self.levels[level] if site in group.members)

    def _nearest(self, site: int, others: Sequence[int]) -> int:
        return min(others, key=lambda other: (self.apart[site, other], other))

    def _middle(self, members: Sequence[int]) -> int:
        return min(members, key=lambda m: (float(self.apart[m, list(members)].sum()), m))
