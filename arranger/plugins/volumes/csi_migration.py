"""In-tree volumes that CSI drivers serve today, in the drivers' terms.

Upstream: ``k8s.io/csi-translation-lib``, for the five plugins whose volumes the scheduler
translates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from arranger.api.types.core import Requirement, Volume
from arranger.api.types.storage import PersistentVolume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_UNSPECIFIED: Final = "UNSPECIFIED"
_CINDER: Final = "cinder.csi.openstack.org"

Source = Mapping[str, Any]
#: Node selector terms, any of which must hold; each a list of expressions.
Terms = Sequence[Sequence[Requirement]]


def _ebs_handle(source: Source, _labels: Mapping[str, str]) -> str:
    volume = str(source.get("volumeID", ""))
    return volume.rpartition("/")[2] if volume.startswith("aws://") else volume


def _gce_handle(source: Source, labels: Mapping[str, str]) -> str:
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or _UNSPECIFIED).split("__")
    place = f"zones/{zones[0]}"
    if len(zones) > 1:
        place = f"regions/{zones[0].rpartition('-')[0]}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{source.get('pdName', '')}"


def _field(name: str) -> Callable[[Source, Mapping[str, str]], str]:
    return lambda source, _labels: str(source.get(name, ""))


@dataclass(frozen=True, slots=True)
class Migration:
    """A former in-tree plugin.

    Attributes:
        field: the field of a volume's spec that holds its source, in our spelling.
        plugin: its name, which was also that of its provisioner.
        driver: the CSI driver that serves its volumes.
        topology_key: the label that holds the zone on the driver's nodes, "" for none.
        handle: the driver's name of a volume, by its source and the volume's labels.
    """

    field: str
    plugin: str
    driver: str
    topology_key: str
    handle: Callable[[Source, Mapping[str, str]], str]

    def source(self, volume: Volume | PersistentVolume) -> Source | None:
        """The volume's source, if it is of this plugin."""
        spec = volume.spec if isinstance(volume, PersistentVolume) else volume
        found: Source | None = getattr(spec, self.field)
        return found


MIGRATIONS: Final = tuple(
    Migration(field, f"kubernetes.io/{name}", driver, zone and f"topology.{zone}/zone", handle)
    for field, name, driver, zone, handle in (
        ("aws_elastic_block_store", "aws-ebs", "ebs.csi.aws.com", "ebs.csi.aws.com", _ebs_handle),
        ("gce_persistent_disk", "gce-pd", "pd.csi.storage.gke.io", "gke.io", _gce_handle),
        ("azure_disk", "azure-disk", "disk.csi.azure.com", "", _field("diskURI")),
        ("cinder", "cinder", _CINDER, _CINDER, _field("volumeID")),
        ("portworx_volume", "portworx-volume", "pxd.portworx.com", "", _field("volumeID")),
    )
)
#: Former provisioner → the driver that provisions now.
DRIVERS: Final[Mapping[str, str]] = {m.plugin: m.driver for m in MIGRATIONS}


def migration_of(volume: Volume | PersistentVolume) -> tuple[Migration, Source] | None:
    """The former plugin that a volume is of, with its source; None if it is of none."""
    for migration in MIGRATIONS:
        source = migration.source(volume)
        if source is not None:
            return migration, source
    return None


def translate_topology(terms: Terms | None, volume: PersistentVolume, key: str) -> Terms | None:
    """Where a volume can be used, by the labels of its driver's nodes; ``key`` holds the zone."""
    labels = volume.metadata.labels
    stated = {expression.key for term in terms or () for expression in term}
    names = [(ZONE, REGION), (BETA_ZONE, BETA_REGION)]
    by_terms = [pair for pair in names if pair[0] in stated]
    by_labels = [pair for pair in names if pair[0] in labels]
    zone, region = (by_terms or by_labels or names)[0]
    renamed = {zone: key} if zone in stated else {}
    if region == BETA_REGION:
        renamed[region] = REGION
    result = None
    if terms is not None:
        result = [[_renamed(e, renamed.get(e.key, e.key)) for e in term] for term in terms]
    if zone not in stated and zone in labels:
        zones = sorted({part.strip() for part in labels[zone].split("__")} - {""})
        if zones:
            inside = Requirement(key, "In", zones)
            result = [[*term, inside] for term in result or [[]]]
    return result


def _renamed(requirement: Requirement, key: str) -> Requirement:
    return Requirement(key, requirement.operator, requirement.values)
